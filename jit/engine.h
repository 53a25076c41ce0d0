// From a Spec to a kernel that can be launched: memory, cache, compiler, in that order. Knows no op and no SQL.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cache/store.h"
#include "jit/compiler.h"
#include "jit/driver.h"
#include "jit/service.h"
#include "jit/spec.h"
#include "jit/unit.h"

namespace quern::jit {

// What to do when a kernel is neither loaded nor cached.
enum class Miss : std::uint8_t { compile, cached_only, background };

// A kernel ready to launch. Lives until its engine is destroyed, but is of no use once it has been unloaded.
struct Kernel {
  Spec spec;
  Loaded loaded;
  cache::Key key;
};

struct Event {
  int kind;  // quern_event_kind
  std::string op, target, key, text;
  double milliseconds;
  int status;
};

struct EngineStats {
  std::uint64_t kernels_loaded, cache_hits, cache_misses, compiled, compile_errors, rejected, stored, store_errors,
      flight_waits, pending;
  double compile_ms, load_ms;
};

struct EngineOptions {
  Driver* driver = nullptr;    // may be null: compile and store only
  Service* service = nullptr;  // never null; one whose Store has no file is a memory of nothing
  // Compiles instead of the service's compilers: how a test counts compilations and makes them fail. Called from any
  // thread.
  std::function<Compiled(const CompileJob&)> compile;
  // What a Spec stands for. Called on a miss only, from any thread; throws Error.
  std::function<Unit(const Spec&)> describe;
  std::chrono::milliseconds flight_timeout{30'000};
  std::string compiler_pin;
  std::uint64_t max_kernels = 0;  // loaded at once; 0: no bound
  // Both are called without locks held.
  std::function<void(const Event&)> event;
  std::function<void(std::string_view)> notice;  // what the store has to tell
};

// A kernel that could not be compiled, with all that its compiler said.
struct CompileFailure {
  cache::Key key;
  std::string name, text;
  int status;  // quern_status
};

enum class Outcome : std::uint8_t { hit, compiled, absent };
struct Warmed {
  Outcome outcome;
  cache::Key key;
  double milliseconds;
};

class Engine {
 public:
  explicit Engine(EngineOptions options);
  // Ends the compilations that run in the background (those still queued are dropped), as soon as their compilers let
  // it; unloads the kernels, notes what was used. The driver and the service are still needed for that. In a forked
  // child: leaves everything as it is.
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // The kernel if it is loaded, else null (always, after a fork). Wait-free: no lock, no allocation, no string.
  const Kernel* find(const Spec& spec) const noexcept;

  // The kernel, made ready as `miss` allows. Throws Error: QUERN_MISS, QUERN_PENDING, QUERN_COMPILE, QUERN_NOT_FOUND,
  // QUERN_UNSUPPORTED (a target that the device does not run), QUERN_DRIVER, QUERN_STICKY, QUERN_INVALID (no device),
  // QUERN_NO_MEMORY, QUERN_FORKED. When `stream` is being captured, QUERN_CAPTURING rather than loading into it.
  // A kernel that is cached is loaded at once under every policy; Miss::background puts off a compilation only. When
  // that fails, the next call with Miss::background throws its Error, and the one after that tries again.
  const Kernel* ready(const Spec& spec, Miss miss, void* stream);

  // Puts the image into the store for whatever target the Spec names, without loading it; `list_only` only looks.
  // Throws Error: QUERN_COMPILE, QUERN_NOT_FOUND, QUERN_UNSUPPORTED, QUERN_IO (compiled, but could not be stored),
  // QUERN_NO_MEMORY, QUERN_FORKED.
  Warmed warm(const Spec& spec, bool list_only);

  // Of the compilations in the background: waits so long for them to end, and says how many have not. Throws
  // Error(QUERN_FORKED).
  std::uint64_t wait(std::chrono::milliseconds time);
  // Drops those that have not begun; how many they were.
  std::uint64_t cancel();
  // Unloads those selected, which nobody may be launching or launch again before they are made ready anew; how many
  // they were.
  std::uint64_t unload(const std::function<bool(const Kernel&)>& select);
  // The kernels whose last compilation failed, since the compiler refused them.
  std::vector<CompileFailure> failures() const;

  // Every Spec that was made ready or warmed, in no order.
  std::vector<Spec> specialised() const;
  EngineStats stats() const noexcept;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace quern::jit
