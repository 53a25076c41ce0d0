// Warming the cache, and writing down what was specialised.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <system_error>
#include <thread>

#include "capi/context.h"
#include "capi/list.h"
#include "capi/requests.h"
#include "capi/warm_plan.h"
#include "sources/manifest.h"

namespace quern::capi {
namespace {

// How one item is made.
using Make = std::function<jit::Warmed(const jit::Spec&)>;

void make_item(const Make& make, WarmItem* item) noexcept {
  WarmRow& row = item->row;
  quern_error error{};
  error.size = sizeof(error);
  row.status = guarded(&error, [&] {
    const jit::Warmed warmed = make(*item->spec);
    row.key = cache::to_hex(warmed.key);
    row.milliseconds = warmed.milliseconds;
    row.outcome = warmed.outcome == jit::Outcome::hit        ? QUERN_WARM_HIT
                  : warmed.outcome == jit::Outcome::compiled ? QUERN_WARM_COMPILED
                                                             : QUERN_WARM_ABSENT;
    return QUERN_OK;
  });
  if (row.status == QUERN_OK) return;
  row.outcome = QUERN_WARM_FAILED;
  // No memory for a text: the status says what happened.
  static_cast<void>(guarded(nullptr, [&] {
    row.text = text_of_failure(error.text, row.line);
    return QUERN_OK;
  }));
}

// Works through the items on threads of its own and hands each back, as it is done, to the thread that called.
class Crew {
 public:
  Crew(const Make& make, std::vector<WarmItem>& items) : make_(make), items_(items) { done_.reserve(items.size()); }
  ~Crew() {
    next_ = items_.size();  // reached early only when the caller's thread could not go on: nothing new is begun
    for (std::thread& thread : threads_) thread.join();
  }
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;

  void start(unsigned count) {
    threads_.reserve(count);
    try {
      while (threads_.size() < count) threads_.emplace_back([this] { work(); });
    } catch (const std::system_error&) {
      // As many as the system gives; without any, the caller's thread does it all.
      if (threads_.empty()) work();
    }
  }

  // The next item that is done; each is given once.
  WarmItem& take() {
    std::unique_lock lock(mutex_);
    ready_.wait(lock, [&] { return taken_ < done_.size(); });
    return items_[done_[taken_++]];
  }

 private:
  void work() noexcept {
    for (std::size_t i = next_++; i < items_.size(); i = next_++) {
      if (items_[i].spec) make_item(make_, &items_[i]);
      const std::lock_guard lock(mutex_);
      items_[i].done = true;
      done_.push_back(i);
      ready_.notify_one();
    }
  }

  const Make& make_;
  std::vector<WarmItem>& items_;
  std::atomic<std::size_t> next_{0};
  std::mutex mutex_;
  std::condition_variable ready_;
  std::vector<std::size_t> done_;  // room for all is reserved: a push never allocates
  std::size_t taken_ = 0;
  std::vector<std::thread> threads_;
};

// The kernel loaded, and what that took: it was there (loaded or stored), or had to be compiled.
jit::Warmed load(jit::Engine& engine, jit::Miss miss, const jit::Spec& spec) {
  const auto start = std::chrono::steady_clock::now();
  jit::Warmed made = engine.warm(spec, /*list_only=*/true);
  if (engine.find(spec) != nullptr) made.outcome = jit::Outcome::hit;
  made.key = engine.ready(spec, miss, nullptr)->key;
  if (made.outcome == jit::Outcome::absent) made.outcome = jit::Outcome::compiled;
  made.milliseconds = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  return made;
}

// The context keeps what its items stand for.
std::vector<WarmItem> planned(const quern_context& context, const quern_warm_options& given,
                              const std::vector<jit::Target>& targets) {
  const ops::kernel::Interning interning;
  std::vector<WarmItem> items = plan_warm(given, targets, context.options.checked);
  for (const WarmItem& item : items)
    if (item.spec) context.texts.keep(*item.spec);
  return items;
}

std::int32_t make_all(const quern_context& context, const quern_warm_options& given, std::vector<WarmItem> items,
                      const Make& make, quern_list** results, const char* verb) {
  if (!items.empty()) {
    Crew crew(make, items);
    crew.start(static_cast<unsigned>(std::min<std::size_t>(context.options.compile_threads, items.size())));
    std::size_t told = 0;
    for (bool on = true; on && told < items.size();) {
      WarmItem& item = crew.take();
      on = tell_progress(given, ++told, items.size(), item.row);
    }
    // Cancelled: what is under way is finished, and counts.
  }
  std::vector<WarmRow> rows;
  rows.reserve(items.size());
  for (WarmItem& item : items)
    if (item.done) rows.push_back(std::move(item.row));
  const bool allowed = (given.flags & QUERN_WARM_ALLOW_UNSERVED) != 0;
  return finish_request(std::move(rows), items.size(), results, verb, [&](const WarmRow& row) {
    return row.status != QUERN_OK && !(allowed && row.outcome == QUERN_WARM_UNSERVED);
  });
}

}  // namespace
}  // namespace quern::capi

using namespace quern;
using namespace quern::capi;

extern "C" {

int32_t quern_warm(quern_context* context, const quern_warm_options* options, quern_list** results,
                   quern_error* error) {
  return guarded(error, [&] {
    const quern_context& alive = live(context);
    const In<quern_warm_options> given(options, "quern_warm_options");
    check_flags("quern_warm_options.flags", given->flags, QUERN_WARM_LIST_ONLY | QUERN_WARM_ALLOW_UNSERVED);
    check_request(given->manifest, given->manifest_length, given->model, "warm");
    const bool list_only = (given->flags & QUERN_WARM_LIST_ONLY) != 0;
    return make_all(
        alive, *given, planned(alive, *given, read_targets(*given, alive.target())),
        [&](const jit::Spec& spec) { return alive.engine->warm(spec, list_only); }, results, "made");
  });
}

int32_t quern_load(quern_context* context, const quern_warm_options* options, quern_list** results,
                   quern_error* error) {
  return guarded(error, [&] {
    const quern_context& alive = live_with_device(context);
    const In<quern_warm_options> given(options, "quern_warm_options");
    check_flags("quern_warm_options.flags", given->flags, QUERN_WARM_ALLOW_UNSERVED);
    check_request(given->manifest, given->manifest_length, given->model, "load");
    if (given->target_count != 0) {
      throw Error(QUERN_INVALID, "target_count is " + std::to_string(given->target_count) +
                                     "; 0 is allowed: kernels are loaded for the context's own target");
    }
    const jit::Target own = *alive.target();
    std::vector<WarmItem> items = planned(alive, *given, {own});
    std::erase_if(items, [&](const WarmItem& item) { return item.spec && item.spec->target != own.tag(); });
    return make_all(
        alive, *given, std::move(items),
        [&](const jit::Spec& spec) { return load(*alive.engine, alive.options.miss, spec); }, results, "loaded");
  });
}

int32_t quern_unload(quern_context* context, const char* prefix, uint64_t* count, quern_error* error) {
  return guarded(error, [&] {
    const quern_context& alive = live_with_device(context);
    const std::string_view wanted = prefix == nullptr ? "" : prefix;
    if (alive.repeats != nullptr) alive.repeats->forget();
    const std::uint64_t unloaded = alive.engine->unload([&](const jit::Kernel& kernel) {
      return wanted.empty() || ops::all()[kernel.spec.op].name == wanted ||
             cache::to_hex(kernel.key).starts_with(wanted);
    });
    if (count != nullptr) *count = unloaded;
    return QUERN_OK;
  });
}

int32_t quern_wait(quern_context* context, uint64_t milliseconds, quern_error* error) {
  return guarded(error, [&] {
    // Longer than any machine runs, and far from what a clock overflows at.
    constexpr std::uint64_t kLongest = std::uint64_t{1} << 40;
    const std::uint64_t left = live(context).engine->wait(std::chrono::milliseconds(std::min(milliseconds, kLongest)));
    if (left == 0) return QUERN_OK;
    throw Error(QUERN_PENDING, std::to_string(left) + (left == 1 ? " kernel is" : " kernels are") +
                                   " still being compiled after " + std::to_string(milliseconds) + " ms");
  });
}

int32_t quern_cancel(quern_context* context, uint64_t* count, quern_error* error) {
  return guarded(error, [&] {
    const std::uint64_t dropped = live(context).engine->cancel();
    if (count != nullptr) *count = dropped;
    return QUERN_OK;
  });
}

int32_t quern_manifest(const quern_context* context, char* buffer, uint64_t* length, quern_error* error) {
  return guarded(error, [&] {
    const quern_context& alive = live(context);
    uint64_t& size = out_parameter(length, "length");
    std::vector<std::string> lines;
    for (const jit::Spec& spec : alive.engine->specialised()) lines.push_back(ops::to_line(spec) + '\n');
    std::sort(lines.begin(), lines.end());
    lines.erase(std::unique(lines.begin(), lines.end()), lines.end());
    std::string text;
    for (const std::string& line : lines) text += line;
    if (buffer != nullptr && size > text.size()) std::memcpy(buffer, text.c_str(), text.size() + 1);
    size = text.size();
    return QUERN_OK;
  });
}

}  // extern "C"
