// The mutex of what belongs to the whole process: a child made by fork() finds it free, whatever other threads of its
// parent were doing.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mutex>

namespace quern::jit {

// fork() waits for whoever holds one. Nobody who holds one takes another. For static storage of a namespace alone: they
// are there before any thread is.
class ProcessMutex {
 public:
  ProcessMutex() noexcept;
  ProcessMutex(const ProcessMutex&) = delete;
  ProcessMutex& operator=(const ProcessMutex&) = delete;
  void lock() { mutex_.lock(); }
  void unlock() { mutex_.unlock(); }

 private:
  struct Handlers;
  std::mutex mutex_;
  ProcessMutex* next_ = nullptr;
};

}  // namespace quern::jit
