// A few threads of our own for background work: started when first needed, at most so many, joined at the end.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace quern::jit {

class CompilePool {
 public:
  explicit CompilePool(unsigned limit) : limit_(limit) {}
  // Waits for the jobs that run; those still queued are dropped.
  ~CompilePool();
  CompilePool(const CompilePool&) = delete;
  CompilePool& operator=(const CompilePool&) = delete;

  // `job` must not throw. Throws Error(QUERN_NO_MEMORY) when not even one thread can be had.
  void post(std::function<void()> job);

 private:
  void work();
  void start_thread();

  const unsigned limit_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> jobs_;
  std::vector<std::thread> threads_;
  unsigned idle_ = 0;
  bool stop_ = false;
};

}  // namespace quern::jit
