// The background threads: as many as allowed, quiet, and gone at the end.
// SPDX-License-Identifier: Apache-2.0
#include "jit/compile_pool.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>

#include <array>
#include <atomic>
#include <chrono>
#include <set>
#include <string>

namespace quern::jit {
namespace {

using namespace std::chrono_literals;

TEST(CompilePool, RunsNoMoreJobsAtOnceThanItMay) {
  std::atomic<int> running{0}, most{0}, done{0};
  std::mutex mutex;
  std::set<std::thread::id> threads;
  {
    CompilePool pool(3);
    for (int i = 0; i < 30; ++i) {
      pool.post([&] {
        const int now = ++running;
        int seen = most.load();
        while (now > seen && !most.compare_exchange_weak(seen, now)) {
        }
        {
          std::lock_guard lock(mutex);
          threads.insert(std::this_thread::get_id());
        }
        std::this_thread::sleep_for(1ms);
        --running;
        ++done;
      });
    }
    while (done < 30) std::this_thread::sleep_for(1ms);
  }
  EXPECT_LE(most, 3);
  EXPECT_LE(threads.size(), 3u);
  EXPECT_EQ(running, 0);
}

TEST(CompilePool, ThreadsAreNamedAndBlockAllSignals) {
  std::atomic<bool> done{false};
  std::array<char, 32> name{};
  sigset_t blocked;
  sigemptyset(&blocked);
  CompilePool pool(1);
  // The name is given just after the thread's start, by its parent: the second job sees it for certain.
  std::atomic<bool> first{false};
  pool.post([&] { first = true; });
  while (!first) std::this_thread::sleep_for(1ms);
  pool.post([&] {
    pthread_getname_np(pthread_self(), name.data(), name.size());
    pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
    done = true;
  });
  while (!done) std::this_thread::sleep_for(1ms);
  EXPECT_STREQ(name.data(), "quern-compile");
  for (const int signal : {SIGINT, SIGTERM, SIGCHLD, SIGPROF, SIGUSR1})
    EXPECT_EQ(sigismember(&blocked, signal), 1) << signal;
  sigset_t here;
  pthread_sigmask(SIG_SETMASK, nullptr, &here);
  EXPECT_EQ(sigismember(&here, SIGUSR1), 0) << "the caller's mask is as it was";
}

TEST(CompilePool, TheEndWaitsForRunningJobsAndDropsQueuedOnes) {
  std::atomic<int> begun{0}, finished{0};
  {
    CompilePool pool(1);
    for (int i = 0; i < 10; ++i) {
      pool.post([&] {
        ++begun;
        std::this_thread::sleep_for(20ms);
        ++finished;
      });
    }
    while (begun == 0) std::this_thread::sleep_for(1ms);
  }
  EXPECT_EQ(begun, finished);
  EXPECT_LT(finished, 10);
}

TEST(CompilePool, NoThreadWithoutAJob) { CompilePool pool(1'000'000'000); }

}  // namespace
}  // namespace quern::jit
