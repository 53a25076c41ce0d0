// The fiber executor: what a launch refuses, what it reports, and that blocks, threads and shared memory are what they
// should.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "jit/sanitizer.h"
#include "tests/host/kernels.h"
#include "tests/support/error_of.h"

namespace quern::host_tests {
namespace {

::testing::AssertionResult has(const std::string& text, const std::vector<std::string>& parts) {
  for (const std::string& part : parts) {
    if (text.find(part) == std::string::npos)
      return ::testing::AssertionFailure() << "'" << part << "' is not in: " << text;
  }
  return ::testing::AssertionSuccess();
}

using test::error_of;

// Both ways of running, since each has a scheduler of its own.
class HostReports : public testing::TestWithParam<bool> {
 protected:
  std::string report(const std::string& body, std::uint32_t shared_bytes = 0, std::uint32_t blocks = 3) {
    Kernel kernel(compile_body(body), "k", shared_bytes, {.seeded = GetParam(), .seed = 11});
    return kernel(blocks);
  }
};

TEST_P(HostReports, ADeadlockWithBlockThreadsAndWhatTheyWaitFor) {
  const std::string text = report("QUERN_KERNEL(k, 96, 1) { if (warp() == 2) sync_named(3, 64); else sync_block(); }");
  EXPECT_TRUE(has(text, {"kernel k, block (", "deadlock: threads 0-63: in sync_block with 64 of 96 threads",
                         "threads 64-95: in sync_named(3) with 32 of 64 threads"}));
}

TEST_P(HostReports, ABarrierThatSomeThreadsNeverReach) {
  const std::string text = report("QUERN_KERNEL(k, 64, 1) { if (thread_index() != 40) sync_block(); }");
  EXPECT_TRUE(has(
      text, {"deadlock", "threads 0-39: in sync_block with 63 of 64 threads", "thread 40 (warp 1, lane 8): returned"}));
}

TEST_P(HostReports, ACollectiveThatSomeLanesNeverReach) {
  const std::string text = report("QUERN_KERNEL(k, 64, 1) { if (lane() < 5) ballot(true); else sync_block(); }");
  EXPECT_TRUE(has(text, {"deadlock", "threads 0-4: in ballot with 5 of warp 0's 32 lanes"}));
  const std::string returned = report("QUERN_KERNEL(k, 32, 1) { if (lane() != 7) shuffle(1, 0); }");
  EXPECT_TRUE(has(returned, {"deadlock", "threads 0-6: in shuffle with 31 of warp 0's 32 lanes",
                             "thread 7 (warp 0, lane 7): returned"}));
}

TEST_P(HostReports, LanesInDifferentCollectives) {
  const std::string text = report("QUERN_KERNEL(k, 32, 1) { if (lane() < 16) shuffle(1, 0); else sync_warp(); }");
  EXPECT_TRUE(has(text, {"a warp's lanes have parted", "in shuffle", "in sync_warp"}));
}

TEST_P(HostReports, WrongNamedBarriers) {
  EXPECT_TRUE(has(report("QUERN_KERNEL(k, 64, 1) { sync_named(16, 64); }"), {"barrier 16", "allowed are 1 to 15"}));
  EXPECT_TRUE(has(report("QUERN_KERNEL(k, 64, 1) { sync_named(1, 48); }"), {"48 threads", "whole warps"}));
  EXPECT_TRUE(has(report("QUERN_KERNEL(k, 96, 1) { sync_named(1, 64 + 32 * (warp() % 2)); }"),
                  {"sync_named of ", "threads for barrier 1, where others wait for "}));
}

TEST_P(HostReports, NothingMoreAndGoesOnAfterwards) {
  const auto& image = compile_body(
      "QUERN_KERNEL(k, 64, 1, int bad, unsigned* sum) { if (!bad || lane()) sync_block(); atomic_add(sum, 1u); }");
  Kernel kernel(image, "k", 0, {.seeded = GetParam()});
  for (int round = 0; round < 5; ++round) {
    unsigned sum = 0;
    EXPECT_TRUE(has(kernel(20, 1, &sum), {"deadlock"}));
    sum = 0;
    EXPECT_EQ(kernel(20, 0, &sum), "");
    EXPECT_EQ(sum, 20u * 64);
  }
}

TEST_P(HostReports, SharedMemoryIsPoisonedForEveryBlock) {
  const auto& image = compile_body(R"(
struct Pair { unsigned a, b; };
QUERN_KERNEL(k, 64, 1, unsigned* wrong) {
  QUERN_SHARED(Pair, pairs, 64);
  unsigned* dynamic = reinterpret_cast<unsigned*>(dynamic_shared());
  const int t = thread_index();
  if (pairs[t].a != ~0u || pairs[t].b != ~0u || dynamic[t] != ~0u) atomic_add(wrong, 1u);
  pairs[t].a = dynamic[t] = 0;
  if (reinterpret_cast<u64>(dynamic) % 128 != 0) atomic_add(wrong, 1u);
})");
  Kernel kernel(image, "k", 256, {.seeded = GetParam()});
  EXPECT_EQ(kernel.loaded().shared_bytes, 512);
  unsigned wrong = 0;
  EXPECT_EQ(kernel(50, &wrong), "");
  EXPECT_EQ(wrong, 0u);
}

TEST_P(HostReports, PollingLetsOthersRun) {
  const auto& image = compile_body(R"(
QUERN_KERNEL(k, 96, 1, unsigned* sum) {
  QUERN_SHARED(unsigned, flag, 1);
  if (thread_index() == 0) flag[0] = 0;
  sync_block();
  if (thread_index() == 95) atomic_add(flag, 1u);
  while (load_volatile(flag) == 0) {
  }
  atomic_add(sum, 1u);
})");
  Kernel kernel(image, "k", 0, {.seeded = GetParam()});
  unsigned sum = 0;
  EXPECT_EQ(kernel(4, &sum), "");
  EXPECT_EQ(sum, 4u * 96);
}

#ifndef QUERN_BUILT_WITH_ASAN
TEST_P(HostReports, WritesPastTheEndOfSharedMemory) {
  EXPECT_TRUE(has(report("QUERN_KERNEL(k, 32, 1) { if (lane() == 0) dynamic_shared()[101] = 0; }", 100),
                  {"shared memory overrun", "1 bytes past the end of the 100 bytes of dynamic shared memory"}));
  EXPECT_TRUE(has(report("QUERN_KERNEL(k, 32, 1) { QUERN_SHARED(float, a, 3); if (lane() == 0) static_cast<volatile "
                         "float*>(a)[3] = 1; }"),
                  {"shared memory overrun", "a static array of 12 bytes"}));
}
#endif

INSTANTIATE_TEST_SUITE_P(Schedules, HostReports, testing::Bool(),
                         [](const auto& instance) { return instance.param ? "Seeded" : "Fair"; });

TEST(HostLaunch, RefusesWhatTheKernelIsNotMadeFor) {
  Kernel kernel(compile_body("QUERN_KERNEL(k, 64, 1, int a, float b) {}"), "k", 1000, {});
  jit::Launch launch;
  launch.block[0] = 64;
  int a = 1;
  float b = 2;
  EXPECT_EQ(kernel.launch(launch, {&a, &b}), "");
  EXPECT_TRUE(has(kernel.launch(launch, {&a}), {"takes 2 arguments, 1 were given"}));
  launch.shared_bytes = 1001;
  EXPECT_TRUE(has(kernel.launch(launch, {&a, &b}), {"1001 bytes of dynamic shared memory", "at most 1000"}));
  launch.shared_bytes = 0;
  launch.block[0] = 32;
  EXPECT_TRUE(has(kernel.launch(launch, {&a, &b}), {"kernel k", "(64, 1, 1)", "(32, 1, 1)"}));
  launch.block[0] = 64;
  launch.grid[1] = 0;
  EXPECT_TRUE(has(kernel.launch(launch, {&a, &b}), {"a grid of (1, 0, 1)"}));
  launch.grid[1] = 65536;
  EXPECT_TRUE(has(kernel.launch(launch, {&a, &b}), {"a grid of (1, 65536, 1)"}));
  launch.grid[1] = 1;
  launch.cluster[0] = 2;
  EXPECT_TRUE(has(kernel.launch(launch, {&a, &b}), {"clusters of (2, 1, 1)"}));
}

// What it reads before the wait could be older than what the launch before it writes. Here there is no such thing, so
// that nobody waits at all is told.
TEST(HostLaunch, AProgrammaticOneMustWait) {
  Kernel kernel(compile_body("QUERN_KERNEL(k, 64, 1, int waits) {"
                             "  if (waits && block_index(0) == 2 && thread_index() == 40) wait_for_previous_grid();"
                             "}"),
                "k", 0, {});
  jit::Launch launch;
  launch.grid[0] = 3, launch.block[0] = 64;
  int waits = 0;
  EXPECT_EQ(kernel.launch(launch, {&waits}), "");
  launch.programmatic = true;
  EXPECT_TRUE(
      has(kernel.launch(launch, {&waits}), {"kernel k", "launched programmatically", "wait_for_previous_grid()"}));
  waits = 1;
  EXPECT_EQ(kernel.launch(launch, {&waits}), "");
}

// With a seed, memory that the launch before may still be writing holds something else until a thread has waited.
TEST(HostLaunch, WhatIsLateIsThereAfterTheWait) {
  Kernel kernel(compile_body("QUERN_KERNEL(k, 64, 1, const float* x, const int* ids, float* early, float* late) {"
                             "  const int t = thread_index();"
                             "  early[t] = x[t] + (ids[t] == t);"
                             "  wait_for_previous_grid();"
                             "  late[t] = x[t] + (ids[t] == t);"
                             "}"),
                "k", 0, {.seeded = true, .seed = 3});
  std::vector<float> x(64, 1.5f), early(64), late(64);
  std::vector<int> ids(64);
  for (int i = 0; i < 64; ++i) ids[static_cast<std::size_t>(i)] = i;
  const jit::LateMemory memory[] = {{x.data(), x.size() * sizeof(float), false},
                                    {ids.data(), ids.size() * sizeof(int), true}};
  const float* x_at = x.data();
  const int* ids_at = ids.data();
  float *early_at = early.data(), *late_at = late.data();
  jit::Launch launch;
  launch.block[0] = 64, launch.late = memory;
  for (const bool programmatic : {false, true}) {
    launch.programmatic = programmatic;
    EXPECT_EQ(kernel.launch(launch, {&x_at, &ids_at, &early_at, &late_at}), "");
    for (std::size_t i = 0; i < 64; ++i) {
      EXPECT_EQ(late[i], 2.5f) << i;
      EXPECT_EQ(x[i], 1.5f) << i;
    }
    // The first thread alone is sure to have come before the wait of any.
    EXPECT_EQ(std::count(early.begin(), early.end(), 2.5f) == 64, !programmatic);
  }
}

TEST(HostLaunch, FailureHasAStatus) {
  Kernel kernel(compile_body("QUERN_KERNEL(k, 64, 1) { if (lane()) sync_block(); }"), "k", 0, {});
  jit::Launch launch;
  launch.block[0] = 64;
  const int deadlock = kernel.driver().launch(kernel.loaded(), launch, nullptr, 0);
  ASSERT_NE(deadlock, 0);
  EXPECT_EQ(error_of([&] { kernel.driver().fail(deadlock, "attention"); }).status(), QUERN_DRIVER);
  const int refused = kernel.driver().launch(kernel.loaded(), launch, nullptr, 1);
  ASSERT_NE(refused, 0);
  EXPECT_EQ(error_of([&] { kernel.driver().fail(refused, "attention"); }).status(), QUERN_INVALID);
}

TEST(HostLaunch, TakesAStructOrAnyListOfArguments) {
  const auto& image = compile_body(R"(
struct alignas(64) Big { unsigned char bytes[192]; };
QUERN_KERNEL(k, 32, 1, QUERN_PARAM Big big, int a, double* out, const float f) {
  if (thread_index() == 0) *out = big.bytes[0] + big.bytes[191] + a + f;
})");
  struct alignas(64) Big {
    unsigned char bytes[192];
  } big{};
  big.bytes[0] = 3;
  big.bytes[191] = 40;
  double out = 0;
  Kernel kernel(image, "k", 0, {});
  EXPECT_EQ(kernel(1, big, 500, &out, 0.25f), "");
  EXPECT_EQ(out, 543.25);
}

TEST(HostLaunch, RunsEveryBlockOfALargeGridOnce) {
  const auto& image = compile_body(R"(
QUERN_KERNEL(k, 32, 1, unsigned char* seen) {
  if (lane() == 0) ++seen[(block_index(2) * block_count(1) + block_index(1)) * block_count(0) + block_index(0)];
})");
  for (const bool seeded : {false, true}) {
    Kernel kernel(image, "k", 0, {.cpu_threads = 3, .seeded = seeded, .seed = 5});
    std::vector<unsigned char> seen(50 * 30 * 20);
    auto* p = seen.data();
    jit::Launch launch;
    launch.grid[0] = 50;
    launch.grid[1] = 30;
    launch.grid[2] = 20;
    launch.block[0] = 32;
    ASSERT_EQ(kernel.launch(launch, {&p}), "");
    EXPECT_EQ(std::count(seen.begin(), seen.end(), 1), static_cast<std::ptrdiff_t>(seen.size()));
  }
}

TEST(HostLaunch, FromSeveralThreadsAtOnce) {
  Kernel kernel(compile_body("QUERN_KERNEL(k, 64, 1, unsigned* sum) { sync_block(); atomic_add(sum, 1u); }"), "k", 0,
                {});
  std::vector<std::thread> threads;
  threads.reserve(4);
  std::atomic<int> good{0};
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < 20; ++round) {
        unsigned sum = 0;
        if (kernel(7, &sum).empty() && sum == 7 * 64) ++good;
      }
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(good, 80);
}

TEST(HostLaunch, TheSameSeedGivesTheSameRun) {
  // The order in which threads pass here is all that the seed decides.
  const auto& image = compile_body(R"(
QUERN_KERNEL(k, 128, 1, unsigned* order, unsigned* next) {
  for (int i = 0; i < 4; ++i) {
    order[atomic_add(next, 1u)] = block_index(0) * 128 + thread_index();
    sync_warp();
  }
})");
  const auto order_of = [&](std::uint64_t seed) {
    std::vector<unsigned> order(3 * 128 * 4);
    unsigned next = 0;
    Kernel kernel(image, "k", 0, {.cpu_threads = 1, .seeded = true, .seed = seed});
    EXPECT_EQ(kernel(3, order.data(), &next), "");
    return order;
  };
  EXPECT_EQ(order_of(1), order_of(1));
  EXPECT_NE(order_of(1), order_of(2));
}

TEST(HostLaunch, ManyThreadsAndAPartialWarp) {
  for (const std::uint32_t warp_size : {32u, 64u}) {
    const auto& image = compile_body(R"(
QUERN_KERNEL(k, 1000, 1, unsigned* sum) {
  const u64 here = ballot(true);
  sync_block();
  if (lane() == 0) atomic_add(sum, static_cast<unsigned>(__builtin_popcountll(here)));
})",
                                     warp_size);
    Kernel kernel(image, "k", 0, {.warp_size = warp_size});
    unsigned sum = 0;
    EXPECT_EQ(kernel(3, &sum), "");
    EXPECT_EQ(sum, 3000u);
  }
}

TEST(HostLoad, KernelsShareNothing) {
  // Static arrays and the executor's table would be merged by the dynamic linker if they were not hidden.
  const auto text = [](int n) {
    return "QUERN_DEVICE unsigned* place() { QUERN_SHARED(unsigned, s, " + std::to_string(n) +
           "); return s; }\n"
           "QUERN_KERNEL(k, 32, 1, unsigned* out) { if (lane() != 0) return; place()[" +
           std::to_string(n) + " - 1] = " + std::to_string(n) + "; *out = place()[" + std::to_string(n) + " - 1]; }";
  };
  Kernel one(compile_body(text(10)), "k", 0, {.cpu_threads = 1});
  Kernel two(compile_body(text(2000)), "k", 0, {.cpu_threads = 1});
  Kernel again(compile_body(text(10)), "k", 0, {.cpu_threads = 1});
  EXPECT_EQ(one.loaded().shared_bytes, 40);
  EXPECT_EQ(two.loaded().shared_bytes, 8000);
  for (Kernel* kernel : {&one, &two, &again}) {
    unsigned out = 0;
    EXPECT_EQ((*kernel)(1, &out), "");
    EXPECT_EQ(out, kernel == &two ? 2000u : 10u);
  }
}

TEST(HostLoad, UnloadedKernelsMakeRoomForOthers) {
  const auto driver = jit::open_host({.threads = 1});
  for (unsigned i = 0; i < 20; ++i) {
    const auto& image = compile_body(
        "QUERN_KERNEL(k, 32, 1, unsigned* out) { if (lane() == 0) *out = " + std::to_string(i % 3) + "; }");
    jit::Loaded loaded = driver->load(image.image, "k", 0);
    unsigned out = 99;
    unsigned* p = &out;
    void* args[] = {&p};
    jit::Launch launch;
    launch.block[0] = 32;
    EXPECT_EQ(driver->launch(loaded, launch, args, 1), 0);
    EXPECT_EQ(out, i % 3);
    driver->unload(loaded);
  }
}

TEST(HostLoad, RefusesWhatIsNotForThisDevice) {
  const auto driver = jit::open_host({});
  const jit::Compiled& image = compile_body("QUERN_KERNEL(k, 32, 1) {}");
  EXPECT_EQ(error_of([&] { driver->load("not an image", "k", 0); }).status(), QUERN_UNSUPPORTED);
  EXPECT_EQ(error_of([&] { driver->load("", "k", 0); }).status(), QUERN_UNSUPPORTED);
  EXPECT_EQ(error_of([&] { driver->load(std::string_view(image.image).substr(0, 700), "k", 0); }).status(),
            QUERN_UNSUPPORTED);
  const Error wrong_warp = error_of([&] { jit::open_host({.warp_size = 64})->load(image.image, "k", 0); });
  EXPECT_EQ(wrong_warp.status(), QUERN_UNSUPPORTED);
  EXPECT_TRUE(has(wrong_warp.text(), {"warp of 32", "is 64"}));
  const Error no_entry = error_of([&] { driver->load(image.image, "missing", 0); });
  EXPECT_EQ(no_entry.status(), QUERN_NOT_FOUND) << "as on GPUs: of a cached image, a reason to compile anew";
  EXPECT_TRUE(has(no_entry.text(), {"missing_kernel", "QUERN_KERNEL"}));
  const Error shared = error_of([&] { driver->load(image.image, "k", 232449); });
  EXPECT_EQ(shared.status(), QUERN_UNSUPPORTED);
  EXPECT_TRUE(has(shared.text(), {"232449", "232448"}));
  const Error threads = error_of([&] { driver->load(compile_body("QUERN_KERNEL(k, 1025, 1) {}").image, "k", 0); });
  EXPECT_EQ(threads.status(), QUERN_UNSUPPORTED);
  EXPECT_TRUE(has(threads.text(), {"1025", "1 to 1024"}));
}

TEST(HostDevice, SaysWhatItIs) {
  const jit::DeviceInfo info = jit::open_host({.warp_size = 64, .threads = 2})->device();
  EXPECT_EQ(info.device_type, 1);
  EXPECT_EQ(info.limits.target.name(), "host64");
  EXPECT_EQ(info.limits.warp_size, 64u);
  EXPECT_EQ(info.limits.shared_per_block, 232448u);
  EXPECT_EQ(info.sm_count, 4u);
  EXPECT_GT(info.memory_bytes, 0u);
  EXPECT_FALSE(info.name.empty());
  EXPECT_EQ(jit::open_host({.threads = 9})->device().sm_count, 9u);
  EXPECT_EQ(error_of([] { jit::open_host({.warp_size = 16}); }).status(), QUERN_INVALID);
  EXPECT_EQ(error_of([] { jit::open_host({.threads = 100000}); }).status(), QUERN_INVALID);
  const auto driver = jit::open_host({});
  EXPECT_FALSE(driver->capturing(nullptr));
  EXPECT_EQ(driver->stream_device_mismatch(nullptr), 0);
  jit::TensorMap map;
  EXPECT_EQ(error_of([&] { driver->encode_tensor_map({}, map); }).status(), QUERN_INVALID);
  const auto wide = jit::open_host({.warp_size = 64});
  EXPECT_EQ(error_of([&] { wide->encode_tensor_map({}, map); }).status(), QUERN_UNSUPPORTED);
}

}  // namespace
}  // namespace quern::host_tests
