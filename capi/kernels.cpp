// A host's own kernels: readied, described and launched.
// SPDX-License-Identifier: Apache-2.0
#include "capi/kernels.h"

#include <algorithm>
#include <array>
#include <vector>

#include "capi/context.h"
#include "sources/checked.h"
#include "sources/kernel/kernel.h"
#include "sources/launch.h"

namespace quern::capi {
namespace {

constexpr std::uint64_t kMostItems = 65'536;

[[noreturn]] void refuse(std::string text) { throw Error(QUERN_INVALID, std::move(text)); }

std::string text_of(const char* given, const std::string& field) {
  if (given == nullptr) refuse(field + " is NULL");
  return given;
}

std::string place_of(const char* field, std::uint64_t index) {
  return std::string(field) + "[" + std::to_string(index) + "]";
}

void check_count(const void* items, std::uint64_t count, const char* field) {
  if (count > kMostItems) {
    refuse(std::string(field) + " has a count of " + std::to_string(count) + "; at most " + std::to_string(kMostItems) +
           " are allowed");
  }
  if (count != 0 && items == nullptr) refuse(std::string(field) + " is NULL with a count of " + std::to_string(count));
}

// Calls read(item, "field[i]") for each struct of an array. The caller's header may know a smaller or a larger one:
// they stand as far apart as the first one's size says.
template <class T, class Read>
void each(const T* items, std::uint64_t count, const char* field, Read&& read) {
  check_count(items, count, field);
  const auto* at = reinterpret_cast<const unsigned char*>(items);
  for (std::uint64_t i = 0; i < count; ++i, at += items->size) {
    const std::string place = place_of(field, i);
    const T* const item = reinterpret_cast<const T*>(at);
    const In<T> given(item, place.c_str());
    if (item->size != items->size || items->size % alignof(T) != 0)
      refuse(place + ".size is " + std::to_string(item->size) + " and the first one's is " +
             std::to_string(items->size) + "; all of an array have one size, a multiple of " +
             std::to_string(alignof(T)));
    read(*given, place);
  }
}

void check_reserved(std::uint32_t given, const std::string& field) {
  if (given != 0) refuse(field + ".reserved is " + std::to_string(given) + "; it must be 0");
}

std::pair<std::string, std::string> read_source(const quern_source& given, const std::string& field) {
  check_reserved(given.reserved, field);
  std::string name = text_of(given.name, field + ".name");
  if (given.text == nullptr) refuse(field + ".text is NULL");
  return {std::move(name), given.length == 0 ? std::string(given.text) : std::string(given.text, given.length)};
}

ops::kernel::Text read_desc(const quern_kernel_desc& desc) {
  check_flags("quern_kernel_desc.flags", desc.flags, QUERN_CALL_CACHED_ONLY | QUERN_CALL_BACKGROUND);
  if (desc.reserved != 0) refuse("quern_kernel_desc.reserved is " + std::to_string(desc.reserved) + "; it must be 0");
  ops::kernel::Text text;
  text.entry = text_of(desc.entry, "entry");
  if (desc.source == nullptr) refuse("source is NULL");
  text.source = read_source(*In<quern_source>(desc.source, "source"), "source");
  each(desc.headers, desc.header_count, "headers", [&](const quern_source& header, const std::string& field) {
    text.headers.push_back(read_source(header, field));
  });
  each(desc.constants, desc.constant_count, "constants", [&](const quern_constant& constant, const std::string& field) {
    check_reserved(constant.reserved, field);
    text.defines.emplace_back(text_of(constant.name, field + ".name"), text_of(constant.value, field + ".value"));
  });
  check_count(desc.options, desc.option_count, "options");
  for (std::uint64_t i = 0; i < desc.option_count; ++i)
    text.options.push_back(text_of(desc.options[i], place_of("options", i)));
  text.max_shared_bytes = desc.max_shared_bytes;
  return text;
}

// A target that is not the context's: the image goes into the cache, nothing is loaded.
void ready_elsewhere(quern_context& context, const jit::Spec& spec, std::uint32_t flags) {
  if ((flags & QUERN_CALL_BACKGROUND) != 0) {
    refuse("QUERN_CALL_BACKGROUND works for the context's target; this kernel is for \"" +
           jit::Target::from_tag(spec.target).name() + "\"");
  }
  const bool cached_only = (flags & QUERN_CALL_CACHED_ONLY) != 0 || context.options.miss == jit::Miss::cached_only;
  const jit::Warmed warmed = context.engine->warm(spec, cached_only);
  if (warmed.outcome == jit::Outcome::absent) {
    throw Error(QUERN_MISS,
                "kernel " + cache::to_hex(warmed.key) + " is not in the cache, and compiling is not allowed");
  }
}

std::uint32_t or_one(std::uint32_t extent) { return extent == 0 ? 1 : extent; }

jit::Launch read_launch(const quern_kernel& handle, const quern_launch& given) {
  check_flags("quern_launch.flags", given.flags, QUERN_CALL_PROGRAMMATIC);
  jit::Launch launch;
  const std::array grid = {given.grid_x, given.grid_y, given.grid_z};
  const std::array block = {given.block_x, given.block_y, given.block_z};
  const std::array cluster = {given.cluster_x, given.cluster_y, given.cluster_z};
  std::uint64_t threads = 1;
  for (std::size_t i = 0; i < 3; ++i) {
    launch.grid[i] = or_one(grid[i]);
    launch.block[i] = or_one(block[i]);
    launch.cluster[i] = or_one(cluster[i]);
    // Bounded before multiplying, so that the product of three cannot wrap around.
    threads *= std::min<std::uint64_t>(launch.block[i], 1U << 20);
    if (launch.grid[i] % launch.cluster[i] != 0) {
      refuse("grid " + std::to_string(launch.grid[i]) + " is not a multiple of cluster " +
             std::to_string(launch.cluster[i]) + " in dimension " + std::to_string(i));
    }
  }
  const std::int32_t most = handle.kernel->loaded.max_threads;
  if (most > 0 && threads > static_cast<std::uint64_t>(most)) {
    refuse("the block has " + std::to_string(threads) + " threads; kernel \"" + handle.entry + "\" allows " +
           std::to_string(most));
  }
  if (given.shared_bytes > handle.max_shared_bytes) {
    refuse("shared_bytes is " + std::to_string(given.shared_bytes) + "; kernel \"" + handle.entry +
           "\" was prepared with max_shared_bytes " + std::to_string(handle.max_shared_bytes));
  }
  if (given.arg_count > kMostItems || (given.arg_count != 0 && given.args == nullptr)) {
    refuse("args is " + std::string(given.args == nullptr ? "NULL" : "given") + " with an arg_count of " +
           std::to_string(given.arg_count));
  }
  const std::int32_t parameters = handle.kernel->loaded.parameters - (handle.checked ? 1 : 0);
  if (handle.kernel->loaded.parameters >= 0 && given.arg_count != static_cast<std::uint64_t>(parameters)) {
    refuse("arg_count is " + std::to_string(given.arg_count) + "; kernel \"" + handle.entry + "\" takes " +
           std::to_string(parameters));
  }
  for (std::uint64_t i = 0; i < given.arg_count; ++i) {
    if (given.args[i] == nullptr) refuse("args[" + std::to_string(i) + "] is NULL");
  }
  launch.shared_bytes = given.shared_bytes;
  launch.programmatic = (given.flags & QUERN_CALL_PROGRAMMATIC) != 0;
  launch.stream = given.stream;
  return launch;
}

}  // namespace

quern_kernel* Kernels::handle(const quern_context& context, const jit::Kernel* kernel) {
  const std::lock_guard lock(mutex_);
  std::unique_ptr<quern_kernel>& handle = handles_[kernel];
  if (handle == nullptr) {
    const ops::kernel::Text& text = ops::kernel::interned(kernel->spec);
    const bool checked = context.checked != nullptr && ops::has_checked_form(ops::describe(kernel->spec));
    handle.reset(new quern_kernel{&context, kernel, text.entry, text.max_shared_bytes, checked});
  }
  return handle.get();
}

}  // namespace quern::capi

using namespace quern;
using namespace quern::capi;

extern "C" {

int32_t quern_kernel_prepare(quern_context* context, const quern_kernel_desc* desc, quern_kernel** kernel,
                             quern_error* error) {
  return guarded(error, [&] {
    quern_context& alive = live(context);
    const In<quern_kernel_desc> given(desc, "quern_kernel_desc");
    const std::optional<jit::Target> own = alive.target();
    if (given->target == nullptr && !own) fail_no_device();
    const jit::Target target = given->target == nullptr ? *own : jit::Target::parse(given->target);
    const ops::kernel::Interning interning;
    const jit::Spec spec = ops::kernel::intern(read_desc(*given), target);
    alive.texts.keep(spec);
    quern_kernel* ready = nullptr;
    if (alive.driver != nullptr && target == alive.driver->device().limits.target) {
      ready = alive.kernels.handle(alive, ops::kernel_for(alive.runtime, spec, given->flags, nullptr));
    } else {
      ready_elsewhere(alive, spec, given->flags);
    }
    if (kernel != nullptr) *kernel = ready;
    return QUERN_OK;
  });
}

int32_t quern_kernel_get_info(const quern_kernel* kernel, quern_kernel_info* info, quern_error* error) {
  return guarded(error, [&] {
    if (kernel == nullptr) fail_null("kernel");
    live(kernel->context);
    const Out<quern_kernel_info> out(info, "quern_kernel_info");
    const jit::Loaded& loaded = kernel->kernel->loaded;
    quern_kernel_info filled{};
    filled.registers = loaded.registers;
    filled.shared_bytes = loaded.shared_bytes;
    filled.local_bytes = loaded.local_bytes;
    filled.max_threads = loaded.max_threads;
    copy_text(cache::to_hex(kernel->kernel->key), filled.key, sizeof(filled.key));
    out.set(filled);
    return QUERN_OK;
  });
}

int32_t quern_kernel_launch(quern_context* context, const quern_kernel* kernel, const quern_launch* launch,
                            quern_error* error) {
  return guarded(error, [&] {
    quern_context& alive = live_with_device(context);
    if (kernel == nullptr) fail_null("kernel");
    if (kernel->context != context) refuse("kernel was prepared by another context");
    if (kernel->kernel->loaded.function == nullptr) [[unlikely]]
      refuse("kernel \"" + kernel->entry + "\" was unloaded: prepare it again");
    const In<quern_launch> given(launch, "quern_launch");
    const jit::Launch order = read_launch(*kernel, *given);
    jit::Driver& driver = *alive.driver;
    int code = 0;
    if (kernel->checked) [[unlikely]] {
      alive.checked->raise_untold();
      q::Checked argument = ops::CheckedCall(*alive.checked, "kernel").argument();
      std::vector<void*> args(given->args, given->args + given->arg_count);
      args.push_back(&argument);
      code = driver.launch(kernel->kernel->loaded, order, args.data(), args.size());
    } else {
      code = driver.launch(kernel->kernel->loaded, order, given->args, given->arg_count);
    }
    if (code != 0) ops::refuse_launch(alive.runtime, order, code, kernel->entry.c_str());
    return QUERN_OK;
  });
}

}  // extern "C"
