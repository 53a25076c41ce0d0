// What the contexts of one process have in common when they look into the same cache and compile in the same way: the
// store, the compilers, and who is compiling what. A context is a device and a reference to one of these.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string_view>

#include "cache/store.h"
#include "jit/compiler.h"

namespace quern::jit {

class Service {
 public:
  struct Options {
    cache::StoreOptions store;  // its `notice` is not used: see Listening
    CompilerOptions compilers;
    unsigned compile_threads = 0;  // compilations at once, whoever's threads they run on; 0: the cores, at most 8
    friend bool operator==(const Options&, const Options&);
  };

  // The one that this process has for equal options; made where there is none, and ended with the last who holds it. A
  // forked child gets one of its own, and so does who comes after a bundle's file has become another. `found` says
  // whether it was there.
  static std::shared_ptr<Service> shared(const Options& options, bool* found);

  explicit Service(Options options);
  // In a forked child the parent's is abandoned: see ~Engine.
  ~Service() = default;
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  cache::Store& store() noexcept { return store_; }
  Compilers& compilers() noexcept { return compilers_; }
  // At once.
  unsigned compile_threads() const noexcept { return compile_threads_; }

  // One compilation of a key at a time. Waits for whoever is at it; throws Error(QUERN_COMPILE) when `cancelled`, of
  // which wake() was told, becomes true meanwhile.
  class Turn {
   public:
    Turn(Service& service, const cache::Key& key, const std::atomic<bool>& cancelled);
    ~Turn();
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
    // Somebody else was at it: what they made may be in the store, or kept.
    bool waited() const { return waited_; }

   private:
    Service& service_;
    const cache::Key key_;
    bool waited_ = false;
  };

  // The right to begin a compilation: fewer run than are allowed at once. Waits and is cancelled as a turn is.
  class Slot {
   public:
    Slot(Service& service, const std::atomic<bool>& cancelled);
    ~Slot();
    Slot(const Slot&) = delete;
    Slot& operator=(const Slot&) = delete;

   private:
    Service& service_;
  };

  // What was compiled and is in no file; null where there is nothing. To be asked in one's turn.
  std::shared_ptr<const cache::Entry> kept(const cache::Key& key);
  // For the other contexts to find, until it is stored or kMostKept bytes of others have come after it. Fails silently
  // where there is no memory for it.
  static constexpr std::size_t kMostKept = std::size_t{64} << 20;
  void keep(const cache::Key& key, const cache::Entry& image) noexcept;
  void forget(const cache::Key& key) noexcept;

  // Has whoever waits for a turn or a slot look whether it was cancelled.
  void wake() noexcept;

 private:
  void erase(const cache::Key& key) noexcept;  // of what is kept; under the mutex

  template <class Free>
  void wait(std::unique_lock<std::mutex>& lock, const std::atomic<bool>& cancelled, const Free& free);

  cache::Store store_;
  Compilers compilers_;
  const unsigned compile_threads_;

  std::mutex mutex_;  // over what follows
  std::condition_variable changed_;
  std::set<cache::Key> compiling_;
  struct Kept {
    std::shared_ptr<const cache::Entry> image;
    std::uint64_t number;  // in the order of coming
  };
  std::map<cache::Key, Kept> kept_;
  std::size_t kept_bytes_ = 0;
  std::uint64_t kept_count_ = 0;
  unsigned running_ = 0;
};

// While it lives, what this thread tells of the store (Store::deliver, administration) is told to `tell`: the store is
// shared, but a notice belongs to the call that found it out.
class Listening {
 public:
  explicit Listening(const std::function<void(std::string_view)>& tell) noexcept;
  ~Listening();
  Listening(const Listening&) = delete;
  Listening& operator=(const Listening&) = delete;

 private:
  const std::function<void(std::string_view)>* before_;
};

}  // namespace quern::jit
