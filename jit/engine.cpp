// The way of a Spec to a kernel: memory, store, compiler; and who waits for whom.
//
// A miss goes through two flights. The first looks into the store and loads; it is short and everybody takes part. The
// second compiles; only callers that may compile and the pool take part, so that nobody who must not compile waits for
// a compiler.
// SPDX-License-Identifier: Apache-2.0
#include "jit/engine.h"

#include <algorithm>
#include <thread>
#include <unordered_set>
#include <utility>

#include "jit/background.h"
#include "jit/compile_pool.h"
#include "jit/error.h"
#include "jit/failure.h"
#include "jit/flights.h"
#include "jit/fork_guard.h"
#include "jit/images.h"
#include "jit/lookup_table.h"
#include "jit/refusals.h"
#include "jit/seal.h"

namespace quern::jit {
namespace {

using Clock = std::chrono::steady_clock;

double milliseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

// Whether a stored image is to blame, rather than the device or this process: it is for another architecture, or does
// not hold the kernel that its row promises.
bool blames_image(const Error& error) {
  return error.status() == QUERN_UNSUPPORTED || error.status() == QUERN_NOT_FOUND;
}

[[noreturn]] void throw_pending(const std::string& name) {
  throw Error(QUERN_PENDING, name + " is being compiled in the background: call again");
}

// Unloads what was loaded but not published.
class Unpublished {
 public:
  Unpublished(Driver& driver, const Loaded& loaded) : driver_(driver), loaded_(loaded) {}
  ~Unpublished() {
    if (!published) driver_.unload(loaded_);
  }
  Unpublished(const Unpublished&) = delete;
  Unpublished& operator=(const Unpublished&) = delete;
  bool published = false;

 private:
  Driver& driver_;
  Loaded loaded_;
};

}  // namespace

struct Engine::Impl {
  // What the first flight found. `wanted` is null when the kernel was loaded meanwhile.
  struct Fetched {
    const Kernel* kernel = nullptr;
    std::shared_ptr<const Wanted> wanted;
  };

  explicit Impl(EngineOptions given)
      : options(std::move(given)),
        images(options),
        pool(std::make_unique<CompilePool>(options.service->compile_threads())) {}

  ~Impl() {
    images.hurry();
    pool.reset();
    images.flush_uses();
    deliver();
    if (options.driver != nullptr) {
      table.for_each([this](Kernel& kernel) { options.driver->unload(kernel.loaded); });
    }
  }

  const Kernel* ready(const Spec& spec, Miss miss, void* stream);
  Warmed warm(const Spec& spec, bool list_only);
  void refuse_other_target(const Spec& spec) const;
  std::vector<CompileFailure> failures() const;

  Fetched fetch(const Spec& spec, Outbox& outbox);
  const Kernel* make(const Spec& spec, const Wanted& wanted, Outbox& outbox);
  const Kernel* make_once(const Spec& spec, const Wanted& wanted, Outbox& outbox) {
    refusals.check(spec);
    const auto work = [&] {
      try {
        const Kernel* const kernel = make(spec, wanted, outbox);
        refusals.forget(spec);
        return kernel;
      } catch (const Error& error) {
        if (error.status() == QUERN_COMPILE) refusals.note(spec, Failure::caught());
        throw;
      }
    };
    return makes.run(spec, work, [this] { images.counters.flight_waits++; });
  }
  const Kernel* load_cached(const Spec& spec, const Wanted& wanted, const cache::Entry& entry, Outbox& outbox);
  const Kernel* load(const Spec& spec, const Wanted& wanted, const cache::Entry& entry, double* milliseconds);
  void put_off(const Spec& spec, std::shared_ptr<const Wanted> wanted);
  void note_use(const cache::Key& key) noexcept;
  void store_later(const Wanted& wanted, Images::Image image) noexcept;
  // What this thread has found out about the store.
  void deliver() noexcept {
    const Listening listening(options.notice);
    options.service->store().deliver();
  }

  const EngineOptions options;
  const ForkGuard fork;
  LookupTable<Kernel, Spec, &Kernel::spec> table;
  Images images;
  Flights<Fetched> fetches;
  Flights<const Kernel*> makes;
  Flights<Warmed> warms;
  Background background;
  Refusals refusals;
  std::mutex warmed_mutex;
  std::unordered_set<Spec, BytesHash> warmed;
  std::atomic<double> load_ms{0};
  std::unique_ptr<CompilePool> pool;  // its jobs use all of the above
};

const Kernel* Engine::Impl::ready(const Spec& spec, Miss miss, void* stream) {
  fork.check();
  if (const Kernel* kernel = table.find(spec)) return kernel;
  if (options.driver == nullptr) {
    throw Error(QUERN_INVALID, "this context has no device: it can warm the cache, not load or launch kernels");
  }
  if (options.driver->capturing(stream)) {
    throw Error(QUERN_CAPTURING, images.want(spec).name() +
                                     " is not ready, and the stream is being captured into a graph: prepare it "
                                     "before the capture begins");
  }
  refuse_other_target(spec);
  if (miss == Miss::background) {
    Failure failure;
    std::string name;
    switch (background.ask(spec, &name, &failure)) {
      case Background::State::failed:
        failure.raise();
      case Background::State::pending:
        throw_pending(name);
      case Background::State::unknown:
        break;
    }
  }

  Outbox outbox(options);
  const Fetched fetched = fetches.run(spec, [&] { return fetch(spec, outbox); }, [] {});
  if (fetched.kernel != nullptr) return fetched.kernel;
  const Wanted& wanted = *fetched.wanted;
  switch (miss) {
    case Miss::cached_only:
      throw Error(QUERN_MISS, wanted.name() +
                                  " is neither loaded nor cached, and this call must not compile: warm the cache "
                                  "beforehand, or add a bundle that holds it");
    case Miss::background:
      put_off(spec, fetched.wanted);
      throw_pending(wanted.name());
    case Miss::compile:
      break;
  }
  return make_once(spec, wanted, outbox);
}

void Engine::Impl::refuse_other_target(const Spec& spec) const {
  const Target wanted = Target::from_tag(spec.target);
  const Target own = options.driver->device().limits.target;
  if (wanted.family() == own.family()) return;
  throw Error(QUERN_UNSUPPORTED, "a kernel for " + wanted.name() + " cannot be loaded on this context's device, " +
                                     options.driver->device().name + " (" + own.name() + ")");
}

Engine::Impl::Fetched Engine::Impl::fetch(const Spec& spec, Outbox& outbox) {
  if (const Kernel* kernel = table.find(spec)) return {kernel, nullptr};
  auto wanted = std::make_shared<const Wanted>(images.want(spec));
  cache::Entry entry;
  if (images.cached(*wanted, &entry)) {
    if (const Kernel* kernel = load_cached(spec, *wanted, entry, outbox)) return {kernel, std::move(wanted)};
  }
  images.counters.misses++;
  return {nullptr, std::move(wanted)};
}

const Kernel* Engine::Impl::make(const Spec& spec, const Wanted& wanted, Outbox& outbox) {
  if (const Kernel* kernel = table.find(spec)) return kernel;
  Images::Image image = images.obtain(wanted, /*anew=*/false, outbox);
  if (!image.fresh) {
    if (const Kernel* kernel = load_cached(spec, wanted, image.entry, outbox)) return kernel;
    image = images.obtain(wanted, /*anew=*/true, outbox);
  }
  double milliseconds = 0;
  const Kernel* const kernel = load(spec, wanted, image.entry, &milliseconds);
  if (image.busy) store_later(wanted, std::move(image));
  return kernel;
}

// The caller has its kernel, and waits for nobody who has the file.
void Engine::Impl::store_later(const Wanted& wanted, Images::Image image) noexcept {
  try {
    auto kept = std::make_shared<std::pair<Wanted, Images::Image>>(wanted, std::move(image));
    pool->post([this, kept = std::move(kept)] {
      images.store(kept->first, kept->second, true);
      deliver();
    });
  } catch (...) {
    images.counters.store_errors++;
  }
}

// Null when the driver refused the image, which is then rejected.
const Kernel* Engine::Impl::load_cached(const Spec& spec, const Wanted& wanted, const cache::Entry& entry,
                                        Outbox& outbox) {
  try {
    double milliseconds = 0;
    const Kernel* kernel = load(spec, wanted, entry, &milliseconds);
    images.counters.hits++;
    outbox.note(QUERN_EVENT_LOADED, wanted, "loaded from the cache", milliseconds, QUERN_OK);
    note_use(wanted.key_of_row(entry));
    return kernel;
  } catch (const Error& error) {
    if (!blames_image(error)) throw;
    images.reject(wanted, entry, error.text(), outbox);
    return nullptr;
  }
}

const Kernel* Engine::Impl::load(const Spec& spec, const Wanted& wanted, const cache::Entry& entry,
                                 double* milliseconds) {
  auto kernel = std::make_unique<Kernel>();
  kernel->spec = spec;
  kernel->key = wanted.key_of_row(entry);
  if (options.max_kernels != 0 && table.size() >= options.max_kernels) {
    throw Error(QUERN_NO_MEMORY, wanted.name() + " is not loaded: the context has " + std::to_string(table.size()) +
                                     " kernels loaded, which max_kernels is; unload what is no longer called");
  }
  const Clock::time_point start = Clock::now();
  kernel->loaded =
      options.driver->load(unsealed(entry.image, kernel->key), wanted.unit.entry, wanted.unit.max_shared_bytes);
  Unpublished unpublished(*options.driver, kernel->loaded);
  *milliseconds = milliseconds_since(start);
  load_ms.fetch_add(*milliseconds);
  Loaded& loaded = kernel->loaded;
  if (loaded.registers < 0) loaded.registers = entry.registers;
  if (loaded.shared_bytes < 0) loaded.shared_bytes = entry.shared_bytes;
  if (loaded.local_bytes < 0) loaded.local_bytes = entry.local_bytes;
  const Kernel* published = table.insert(kernel);
  unpublished.published = kernel == nullptr;
  return published;
}

void Engine::Impl::put_off(const Spec& spec, std::shared_ptr<const Wanted> wanted) {
  if (!background.begin(spec, wanted->name())) return;
  try {
    pool->post([this, spec, kept = std::move(wanted)] {
      if (!background.start(spec)) return;
      Outbox outbox(options);
      try {
        make_once(spec, *kept, outbox);
      } catch (...) {
        background.fail(spec, Failure::caught());
        return;
      }
      background.end(spec);
    });
  } catch (...) {
    background.end(spec);
    throw;
  }
}

void Engine::Impl::note_use(const cache::Key& key) noexcept {
  if (!images.note_use(key)) return;
  try {
    // In a thread of ours: what is being loaded here is about to be launched.
    pool->post([this] {
      images.flush_uses();
      deliver();
    });
  } catch (...) {
    // No thread to be had: the destructor does it.
  }
}

std::vector<CompileFailure> Engine::Impl::failures() const {
  std::vector<CompileFailure> all;
  for (const auto& [spec, failure] : refusals.all()) {
    const Wanted wanted = images.want(spec);
    all.push_back({wanted.key, wanted.name(), failure.text(), failure.status()});
  }
  return all;
}

Warmed Engine::Impl::warm(const Spec& spec, bool list_only) {
  fork.check();
  const Clock::time_point start = Clock::now();
  Outbox outbox(options);
  const auto work = [&]() -> Warmed {
    const Wanted wanted = images.want(spec);
    cache::Entry entry;
    Outcome outcome = Outcome::hit;
    if (images.cached(wanted, &entry)) {
      if (!list_only) {
        images.counters.hits++;
        note_use(wanted.key_of_row(entry));
      }
    } else if (list_only) {
      outcome = Outcome::absent;
    } else {
      // Compiling what cannot be kept would be for nothing.
      if (options.service->store().state() != cache::State::ready)
        throw Error(QUERN_IO,
                    wanted.name() + " is not compiled, since it could not be stored: " + images.store_reason());
      images.counters.misses++;
      Images::Image image = images.obtain(wanted, /*anew=*/false, outbox);
      if (image.busy) images.store(wanted, image, true);
      if (!image.stored) {
        throw Error(QUERN_IO, wanted.name() + " was compiled, but could not be stored: " +
                                  (image.why_not.empty() ? images.store_reason() : image.why_not));
      }
      if (image.fresh)
        outcome = Outcome::compiled;
      else
        entry.text = image.entry.text;
    }
    return {outcome, outcome == Outcome::hit ? wanted.key_of_row(entry) : wanted.key, milliseconds_since(start)};
  };
  if (list_only) return work();
  const Warmed result = warms.run(spec, work, [this] { images.counters.flight_waits++; });
  std::lock_guard lock(warmed_mutex);
  warmed.insert(spec);
  return result;
}

Engine::Engine(EngineOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}

Engine::~Engine() {
  // In a child the pool's threads do not exist, a lock may be held for ever, and the device is the parent's: all of it
  // is abandoned.
  if (impl_->fork.forked()) static_cast<void>(impl_.release());
}

const Kernel* Engine::find(const Spec& spec) const noexcept {
  if (impl_->fork.forked()) return nullptr;
  return impl_->table.find(spec);
}

const Kernel* Engine::ready(const Spec& spec, Miss miss, void* stream) { return impl_->ready(spec, miss, stream); }

std::uint64_t Engine::wait(std::chrono::milliseconds time) {
  impl_->fork.check();
  return impl_->background.wait(time);
}

std::uint64_t Engine::cancel() {
  impl_->fork.check();
  return impl_->background.cancel();
}

std::uint64_t Engine::unload(const std::function<bool(const Kernel&)>& select) {
  impl_->fork.check();
  return impl_->table.remove(select, [this](Kernel& kernel) { impl_->options.driver->unload(kernel.loaded); });
}

std::vector<CompileFailure> Engine::failures() const {
  impl_->fork.check();
  return impl_->failures();
}

Warmed Engine::warm(const Spec& spec, bool list_only) { return impl_->warm(spec, list_only); }

std::vector<Spec> Engine::specialised() const {
  impl_->fork.check();
  std::vector<Spec> specs = impl_->table.keys();
  std::lock_guard lock(impl_->warmed_mutex);
  for (const Spec& spec : impl_->warmed) {
    if (impl_->table.find(spec) == nullptr) specs.push_back(spec);
  }
  return specs;
}

EngineStats Engine::stats() const noexcept {
  const ImageCounters& counters = impl_->images.counters;
  EngineStats stats{};
  stats.kernels_loaded = impl_->table.size();
  stats.cache_hits = counters.hits;
  stats.cache_misses = counters.misses;
  stats.compiled = counters.compiled;
  stats.compile_errors = counters.compile_errors;
  stats.rejected = counters.rejected;
  stats.stored = counters.stored;
  stats.store_errors = counters.store_errors;
  stats.flight_waits = counters.flight_waits;
  stats.pending = impl_->fork.forked() ? 0 : impl_->background.pending();
  stats.compile_ms = counters.compile_ms;
  stats.load_ms = impl_->load_ms;
  return stats;
}

}  // namespace quern::jit
