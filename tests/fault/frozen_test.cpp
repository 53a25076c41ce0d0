// Who holds the file and stands still, and what administration costs who wants a kernel or a fork.
// SPDX-License-Identifier: Apache-2.0
#include <signal.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <thread>

#include "cache/file_lock.h"
#include "tests/cache/fixture.h"
#include "tests/fault/launch/launcher.h"
#include "tests/fault/torture.h"

namespace quern::cache::testing {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

double ms_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

class FrozenTest : public CacheTest {
 protected:
  // A process that has the sidecar's lock and is stopped.
  pid_t freeze_holder() {
    const pid_t child = start_child([&] {
      Sidecar sidecar;
      if (sidecar.acquire(folder_ + "/cache-1.lock", true, true, 0600, deadline_in(milliseconds{1000})) != Locked::held)
        return 1;
      raise(SIGSTOP);
      return 0;
    });
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, WUNTRACED), child);
    EXPECT_TRUE(WIFSTOPPED(status));
    return child;
  }
  static void end(pid_t child) {
    kill(child, SIGKILL);
    wait_child(child);
  }
};

TEST_F(FrozenTest, AFrozenHolderCostsLittleOnce) {
  Store store(options());
  for (std::uint64_t number = 1; number <= 10; ++number) ASSERT_TRUE(put(store, number));
  const pid_t frozen = freeze_holder();
  const auto begin = Clock::now();
  // What an engine does for each kernel that is cached: look, look again under the flight, store what it compiled.
  for (std::uint64_t number = 1; number <= 10; ++number) {
    EXPECT_TRUE(miss(store, number));
    const Flight flight = store.flight(make_key(number), milliseconds{0});
    EXPECT_EQ(flight.state(), Flight::State::leader);
    EXPECT_TRUE(miss(store, number));
    EXPECT_EQ(store.put(make_key(number), make_entry(number)), Put::busy);
    EXPECT_EQ(store.state(), State::ready);
  }
  const double took = ms_since(begin);
  std::printf("ten kernels with a frozen holder: %.1f ms in all\n", took);
  EXPECT_LT(took, 100);
  end(frozen);
  EXPECT_TRUE(hit(store, 1)) << "at once, once it is gone";
  EXPECT_TRUE(put(store, 11));
}

// Neither what is cached nor a place for what is compiled can be reached: one compilation, and no wait worth the name.
TEST_F(FrozenTest, AKernelIsLaunchedAllTheSame) {
  Launcher launcher;
  ASSERT_EQ(launcher.launch(options()), 1);
  ASSERT_EQ(launcher.launch(options()), 0);
  const pid_t frozen = freeze_holder();
  const auto begin = Clock::now();
  EXPECT_EQ(launcher.launch(options()), 1);
  const double took = ms_since(begin);
  std::printf("a launch with a frozen holder: %.1f ms, with its compilation\n", took);
  EXPECT_LT(took, 1'000);
  end(frozen);
  EXPECT_EQ(launcher.launch(options()), 0) << "it has been cached all the while";
}

TEST_F(FrozenTest, WhatCouldNotBeStoredIsStoredWithPatience) {
  Store store(options());
  ASSERT_TRUE(put(store, 1));
  const pid_t frozen = freeze_holder();
  std::thread later([&] { EXPECT_EQ(store.put_patiently(make_key(2), make_entry(2)), Put::stored); });
  std::this_thread::sleep_for(milliseconds{150});
  end(frozen);
  later.join();
  EXPECT_TRUE(hit(store, 2));
  const pid_t again = freeze_holder();
  std::atomic<bool> give_up{false};
  std::thread given_up(
      [&] { EXPECT_EQ(store.put_patiently(make_key(3), make_entry(3), nullptr, &give_up), Put::busy); });
  std::this_thread::sleep_for(milliseconds{50});
  const auto begin = Clock::now();
  give_up = true;
  given_up.join();
  EXPECT_LT(ms_since(begin), 500);
  end(again);
}

// Writers at work are no reason to give up: every entry of many processes at once is stored.
TEST_F(FrozenTest, WritersAtWorkAreWaitedFor) {
  {
    Store store(options());
    ASSERT_TRUE(put(store, 1));
  }
  std::vector<pid_t> children;
  for (int c = 0; c < 8; ++c) {
    children.push_back(start_child([&, c] {
      Store store(options());
      for (int i = 0; i < 12; ++i)
        if (!put(store, static_cast<std::uint64_t>(100 * (c + 1) + i), 60'000)) return 1;
      return 0;
    }));
  }
  for (const pid_t child : children) EXPECT_EQ(wait_child(child), 0);
}

// One that has the lock for long, and works all the while.
TEST_F(FrozenTest, ALongWriteIsWaitedFor) {
  Store store(options());
  ASSERT_TRUE(put(store, 1));
  const pid_t child = start_child([&] {
    Sidecar sidecar;
    if (sidecar.acquire(folder_ + "/cache-1.lock", true, true, 0600, deadline_in(milliseconds{1000})) != Locked::held)
      return 1;
    write_file(root_ + "/holds", "");
    for (int i = 0; i < 60; ++i) {
      std::this_thread::sleep_for(milliseconds{5});
      std::filesystem::last_write_time(file(), std::filesystem::file_time_type::clock::now());
    }
    return 0;
  });
  while (!std::filesystem::exists(root_ + "/holds")) std::this_thread::sleep_for(milliseconds{1});
  const auto begin = Clock::now();
  EXPECT_TRUE(put(store, 2));
  EXPECT_GT(ms_since(begin), 100) << "it was there to be waited for";
  EXPECT_EQ(wait_child(child), 0);
}

class AdministrationTest : public FrozenTest {
 protected:
  // A cache of 40 MB.
  void fill() {
    Store store(options());
    for (std::uint64_t number = 1; number <= 20; ++number) ASSERT_TRUE(put(store, number, 2'000'000));
  }

  // Makes the call, and meanwhile forks and looks up without end; how long a fork may take.
  static double measure(const std::string& name, const std::function<void()>& call, Store& store,
                        double* longest_fork) {
    std::atomic<bool> done{false};
    double longest_get = 0, took = 0;
    *longest_fork = 0;
    std::thread administration([&] {
      const auto begin = Clock::now();
      call();
      took = ms_since(begin);
      done = true;
    });
    const bool writes = name == "import" || name == "rebuild" || name == "trim";
    do {
      auto begin = Clock::now();
      const pid_t child = fork();
      if (child == 0) _exit(0);
      *longest_fork = std::max(*longest_fork, ms_since(begin));
      wait_child(child);
      if (writes) continue;
      begin = Clock::now();
      Entry entry;
      store.get(make_key(2), make_entry(2, 1).text, "", &entry);
      longest_get = std::max(longest_get, ms_since(begin));
    } while (!done);
    administration.join();
    std::printf("%-8s %7.1f ms, fork() at most %5.1f ms, a look-up at most %5.1f ms\n", name.c_str(), took,
                *longest_fork, longest_get);
    EXPECT_LT(longest_get, std::max(100.0, took / 4)) << name;
    return bound(20, std::max(60.0, took / 4));
  }
};

TEST_F(AdministrationTest, HoldsUpNeitherLookUpsNorForks) {
  fill();
  Store store(options());
  ASSERT_TRUE(hit(store, 1, 2'000'000));
  const std::vector<std::pair<const char*, std::function<void()>>> calls = {
      {"verify",
       [&] {
         AdminError error;
         store.verify(&error);
         EXPECT_EQ(error.what, AdminError::What::none);
       }},
      {"export",
       [&] { EXPECT_EQ(store.export_bundle(root_ + "/bundle", nullptr, nullptr).what, AdminError::What::none); }},
      {"inspect",
       [&] {
         Listed listed;
         for (std::uint64_t number = 1; number <= 20; ++number)
           EXPECT_EQ(store.inspect(make_key(number), &listed).what, AdminError::What::none);
       }},
      {"list",
       [&] {
         AdminError error;
         EXPECT_EQ(store.list(&error).size(), 20u);
       }},
      {"import", [&] { EXPECT_EQ(store.import_bundle(root_ + "/bundle", nullptr).what, AdminError::What::none); }},
      {"rebuild",
       [&] {
         TrimOptions rebuild;
         rebuild.rebuild = true;
         EXPECT_EQ(store.trim(rebuild, nullptr).what, AdminError::What::none);
       }},
      {"stats", [&] { EXPECT_EQ(store.stats().entries, 20u); }},
      {"trim",
       [&] {
         TrimOptions smaller;
         smaller.limit_bytes = 12 << 20;
         TrimResult result;
         EXPECT_EQ(store.trim(smaller, &result).what, AdminError::What::none);
         EXPECT_GT(result.removed, 10u);
       }},
  };
  for (const auto& [name, call] : calls) {
    // The figure to meet is 20 ms. Others on the machine may hold up a fork for as long, but hardly three times.
    double longest_fork = 0, most = 0;
    for (int attempt = 0; attempt < 3; ++attempt) {
      if (attempt != 0) fill();
      most = measure(name, call, store, &longest_fork);
      if (HasFailure() || longest_fork <= most) break;
    }
    EXPECT_LE(longest_fork, most) << name;
  }
}

}  // namespace
}  // namespace quern::cache::testing
