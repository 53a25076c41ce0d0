// A mutex that is waited for up to a deadline on the steady clock.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

namespace quern::cache {

// As std::timed_mutex, whose waiting by the steady clock ThreadSanitizer does not see (pthread_mutex_clocklock in GCC
// 12).
class TimedMutex {
 public:
  void lock() {
    std::unique_lock guard(mutex_);
    free_.wait(guard, [this] { return !taken_; });
    taken_ = true;
  }
  bool try_lock_until(std::chrono::steady_clock::time_point deadline) {
    std::unique_lock guard(mutex_);
    if (!free_.wait_until(guard, deadline, [this] { return !taken_; })) return false;
    return taken_ = true;
  }
  void unlock() {
    {
      const std::lock_guard guard(mutex_);
      taken_ = false;
    }
    free_.notify_one();
  }

 private:
  std::mutex mutex_;
  std::condition_variable free_;
  bool taken_ = false;
};

}  // namespace quern::cache
