// What the whole process has one of, made at its first use. A function's static variable is made under a guard: a child
// of fork() that finds it held by another thread of its parent waits for it for ever.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <memory>

namespace quern::jit {

// For static storage alone. The value is never destroyed: another thread may still be in a call when the process exits.
template <class T>
class Lazy {
 public:
  // Thread-safe, without a lock: of threads that come first together each makes a value, and one of them is kept.
  T& operator*() {
    if (T* const kept = kept_.load(std::memory_order_acquire)) return *kept;
    auto made = std::make_unique<T>();
    T* kept = nullptr;
    if (kept_.compare_exchange_strong(kept, made.get(), std::memory_order_acq_rel)) kept = made.release();
    return *kept;
  }
  T* operator->() { return &**this; }

 private:
  std::atomic<T*> kept_{nullptr};
};

}  // namespace quern::jit
