// The pool's threads: all signals blocked, since they are the host's to handle, and named, so that a debugger shows
// whose they are.
// SPDX-License-Identifier: Apache-2.0
#include "jit/compile_pool.h"

#include <pthread.h>
#include <signal.h>

#include <system_error>
#include <utility>

#include "jit/error.h"

namespace quern::jit {
namespace {

class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

}  // namespace

CompilePool::~CompilePool() {
  // Jobs that nobody has begun are dropped with the queue, once nobody looks at it. It is not moved from: a new deque
  // takes memory, and there may be none.
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void CompilePool::post(std::function<void()> job) {
  {
    std::lock_guard lock(mutex_);
    if (idle_ <= jobs_.size() && threads_.size() < limit_) start_thread();
    jobs_.push_back(std::move(job));
  }
  wake_.notify_one();
}

void CompilePool::start_thread() {
  threads_.reserve(limit_);
  try {
    SignalsBlocked blocked;  // inherited by the thread
    threads_.emplace_back([this] { work(); });
  } catch (const std::system_error& error) {
    // Threads that there are will do, later.
    if (threads_.empty()) {
      throw Error(QUERN_NO_MEMORY,
                  std::string("no thread for background compilation could be started: ") + error.what(),
                  error.code().value());
    }
    return;
  }
  pthread_setname_np(threads_.back().native_handle(), "quern-compile");
}

void CompilePool::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    ++idle_;
    wake_.wait(lock, [this] { return stop_ || !jobs_.empty(); });
    --idle_;
    if (stop_) return;
    std::function<void()> job = std::move(jobs_.front());
    jobs_.pop_front();
    lock.unlock();
    job();
    job = nullptr;  // what it holds dies outside the lock
    lock.lock();
  }
}

}  // namespace quern::jit
