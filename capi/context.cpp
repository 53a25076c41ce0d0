// Making, describing and ending a context.
// SPDX-License-Identifier: Apache-2.0
#include "capi/context.h"

namespace quern::capi {
namespace {

constexpr quern_context_options kDefaults = [] {
  quern_context_options options{};
  options.size = sizeof(options);
  return options;
}();

std::unique_ptr<jit::Driver> open_host_device(const Options& options) {
  jit::HostOptions host = options.host;
  if (options.target) {
    if (options.target->family() != jit::Family::host) {
      throw Error(QUERN_INVALID,
                  "target is \"" + options.target->name() + "\"; device_type kDLCPU allows \"host\" and \"host64\"");
    }
    host.warp_size = jit::limits_of(*options.target).warp_size;
  }
  return jit::open_host(host);
}

std::unique_ptr<jit::Driver> open_driver(const Options& options) {
  if (options.device_type == 0) return nullptr;
  if (options.device_type == kDLCPU) return open_host_device(options);
  if (options.device_type == kDLCUDA) return jit::open_cuda(options.device_id, options.search_dirs, options.target);
  std::unique_ptr<jit::Driver> driver = jit::open_hip(options.device_id, options.search_dirs);
  const jit::Target own = driver->device().limits.target;
  if (options.target && *options.target != own) {
    throw Error(QUERN_INVALID, "target is \"" + options.target->name() + "\", but device " +
                                   std::to_string(options.device_id) + " is \"" + own.name() +
                                   "\"; leave target NULL, or use device_type 0 to warm for another target");
  }
  return driver;
}

// A notice is told once by each Store. Whoever comes to one that others have opened is told how it is.
std::shared_ptr<jit::Service> open_service(const quern_context& context) {
  bool found = false;
  std::shared_ptr<jit::Service> service =
      jit::Service::shared({context.options.store, context.options.compilers, context.options.compile_threads}, &found);
  if (!found || context.options.store.no_file) return service;
  const std::string trouble = service->store().trouble();
  if (!trouble.empty()) context.notify.cache("cache: " + trouble);
  return service;
}

jit::EngineOptions engine_options(const quern_context& context) {
  jit::EngineOptions options;
  options.driver = context.driver.get();
  options.service = context.service.get();
  options.describe = context.options.checked ? ops::describe_checked : ops::describe;
  options.flight_timeout = context.options.flight_timeout;
  options.compiler_pin = context.options.compiler_pin;
  options.max_kernels = context.options.max_kernels;
  options.event = [&notify = context.notify](const jit::Event& event) { notify.event(event); };
  options.notice = context.notice;
  return options;
}

std::unique_ptr<ops::Checked> make_checked(const quern_context& context) {
  if (!context.options.checked || context.driver == nullptr) return nullptr;
  ops::CheckedTells tells;
  tells.fault = [&context](const ops::Fault& fault) {
    context.notify.event(
        {QUERN_EVENT_FAULT, fault.op, context.driver->device().limits.target.name(), "", fault.text, 0, QUERN_FAULT});
  };
  tells.line = [&context](const std::string& line) { context.notify.print(line); };
  return std::make_unique<ops::Checked>(*context.driver, std::move(tells));
}

}  // namespace

void fail_context(const quern_context* context) {
  if (context == nullptr) fail_null("context");
  context->fork.check();
  throw Error(QUERN_INTERNAL, "context was refused without a reason");
}

void fail_no_device() {
  throw Error(QUERN_INVALID, "context has no device; make one whose device_type is kDLCUDA, kDLROCM or kDLCPU");
}

}  // namespace quern::capi

using namespace quern;
using namespace quern::capi;

quern_context::quern_context(const quern_context_options& given)
    : notify(given),
      options(read_options(given)),
      notice([this](std::string_view text) { notify.cache(text); }),
      service(open_service(*this)),
      driver(open_driver(options)),
      tensor_maps(driver != nullptr ? std::make_unique<jit::TensorMaps>(*driver) : nullptr),
      checked(make_checked(*this)),
      engine(std::make_unique<jit::Engine>(engine_options(*this))),
      tunings(ops::gemm::make_tunings(*service, notice)),
      runtime{engine.get(), driver.get(), options.miss, tensor_maps.get(), tunings.get()},
      plain(checked == nullptr && !(options.host.seeded && options.device_type == kDLCPU)),
      repeats(driver != nullptr && plain && options.device_type != kDLCPU ? std::make_unique<ops::Repeats>(*driver)
                                                                          : nullptr) {
  // A device's context is about to look for kernels: the first is not to wait for the file to be opened.
  const jit::Listening listening(notice);
  if (driver != nullptr) service->store().open();
  service->store().deliver();
}

std::optional<jit::Target> quern_context::target() const {
  if (driver != nullptr) return driver->device().limits.target;
  return options.target;
}

extern "C" {

int32_t quern_context_create(const quern_context_options* options, quern_context** context, quern_error* error) {
  return guarded(error, [&] {
    quern_context*& made = out_parameter(context, "context");
    const In<quern_context_options> given(options != nullptr ? options : &kDefaults, "quern_context_options");
    made = std::make_unique<quern_context>(*given).release();
    return QUERN_OK;
  });
}

void quern_context_destroy(quern_context* context) {
  // In a forked child the threads to wait for do not exist and the device and the files are the parent's: all of it is
  // abandoned.
  if (context == nullptr || context->fork.forked()) return;
  delete context;
}

int32_t quern_device(const quern_context* context, quern_device_info* info, quern_error* error) {
  return guarded(error, [&] {
    const quern_context& alive = live_with_device(context);
    const Out<quern_device_info> out(info, "quern_device_info");
    const jit::DeviceInfo& device = alive.driver->device();
    quern_device_info filled{};
    filled.device_type = device.device_type;
    filled.device_id = device.device_id;
    filled.warp_size = device.limits.warp_size;
    filled.sm_count = device.sm_count;
    filled.shared_per_block = device.limits.shared_per_block;
    filled.l2_bytes = device.l2_bytes;
    filled.memory_bytes = device.memory_bytes;
    filled.driver_version = device.driver_version;
    copy_text(device.limits.target.name(), filled.target, sizeof(filled.target));
    copy_text(device.name, filled.name, sizeof(filled.name));
    out.set(filled);
    return QUERN_OK;
  });
}

int32_t quern_get_stats(const quern_context* context, quern_stats* stats, quern_error* error) {
  return guarded(error, [&] {
    const quern_context& alive = live(context);
    const Out<quern_stats> out(stats, "quern_stats");
    const jit::EngineStats counted = alive.engine->stats();
    quern_stats filled{};
    filled.kernels_loaded = counted.kernels_loaded;
    filled.cache_hits = counted.cache_hits;
    filled.cache_misses = counted.cache_misses;
    filled.compiled = counted.compiled;
    filled.compile_errors = counted.compile_errors;
    filled.rejected = counted.rejected;
    filled.stored = counted.stored;
    filled.store_errors = counted.store_errors;
    filled.flight_waits = counted.flight_waits;
    filled.pending = counted.pending;
    filled.compile_ms = counted.compile_ms;
    filled.load_ms = counted.load_ms;
    out.set(filled);
    return QUERN_OK;
  });
}

}  // extern "C"
