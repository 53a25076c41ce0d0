// Mistakes in synchronisation planted one at a time: each must be noticed under an unfair schedule with late copies,
// and the same kernel without it must never be blamed.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstdio>
#include <string>
#include <vector>

#include "jit/sanitizer.h"
#include "tests/host/kernels.h"

namespace quern::host_tests {
namespace {

constexpr std::uint32_t kBlocks = 6;
constexpr std::uint32_t kSharedBytes = 4 * 4 * 128 * 4;

struct Planted {
  const char* name;
  const char* body;  // counts what it finds wrong; BUG is 0 or 1
  friend void PrintTo(const Planted& p, std::ostream* out) { *out << p.name; }
};

// Every thread reads what another has just written, `rounds` times over.
constexpr Planted kReadAfterWrite{"ReadAfterWriteWithoutBarrier", R"(
QUERN_KERNEL(k, 128, 1, const unsigned* input, unsigned* wrong) {
  QUERN_SHARED(unsigned, s, 128);
  const int t = thread_index();
  for (unsigned round = 0; round < 4; ++round) {
    s[t] = t + 1000 * round;
    if (!BUG) sync_block();
    if (s[(t + 37) % 128] != (t + 37) % 128 + 1000 * round) atomic_add(wrong, 1u);
    sync_block();
  }
})"};
constexpr Planted kWriteAfterRead{"WriteAfterReadWithoutBarrier", R"(
QUERN_KERNEL(k, 128, 1, const unsigned* input, unsigned* wrong) {
  QUERN_SHARED(unsigned, s, 128);
  const int t = thread_index();
  for (unsigned round = 0; round < 4; ++round) {
    s[t] = t + 1000 * round;
    sync_block();
    if (s[(t + 37) % 128] != (t + 37) % 128 + 1000 * round) atomic_add(wrong, 1u);
    if (!BUG) sync_block();
  }
})"};
constexpr Planted kWithinWarp{"ReadAfterWriteWithinAWarp", R"(
QUERN_KERNEL(k, 128, 1, const unsigned* input, unsigned* wrong) {
  QUERN_SHARED(unsigned, s, 128);
  const int t = thread_index();
  for (unsigned round = 0; round < 4; ++round) {
    s[t] = t + 1000 * round;
    if (!BUG) sync_warp();
    if (s[t ^ 1] != (t ^ 1) + 1000 * round) atomic_add(wrong, 1u);
    sync_warp();
  }
})"};
constexpr Planted kNamed{"NamedBarrierOfTheWrongWarps", R"(
QUERN_KERNEL(k, 128, 1, const unsigned* input, unsigned* wrong) {
  QUERN_SHARED(unsigned, s, 128);
  const int t = thread_index();
  const int pair = BUG ? warp() & 1 : warp() >> 1;
  for (unsigned round = 0; round < 4; ++round) {
    s[t] = t + 1000 * round;
    sync_named(1 + pair, 64);
    if (s[t ^ 32] != (t ^ 32) + 1000 * round) atomic_add(wrong, 1u);
    sync_named(3 + pair, 64);
  }
})"};
constexpr Planted kReadWithoutWait{"CopyReadWithoutWait", R"(
QUERN_KERNEL(k, 128, 1, const unsigned* input, unsigned* wrong) {
  unsigned* s = reinterpret_cast<unsigned*>(dynamic_shared());
  const int t = thread_index();
  copy_async_16(s + 4 * t, input + 4 * t, true);
  copy_async_commit();
  if (!BUG) copy_async_wait<0>();
  sync_block();
  if (s[t] != input[t]) atomic_add(wrong, 1u);
})"};
constexpr Planted kWithoutCommit{"WaitWithoutCommit", R"(
QUERN_KERNEL(k, 128, 1, const unsigned* input, unsigned* wrong) {
  unsigned* s = reinterpret_cast<unsigned*>(dynamic_shared());
  const int t = thread_index();
  copy_async_4(s + t, input + t, true);
  if (!BUG) copy_async_commit();
  copy_async_wait<0>();
  sync_block();
  if (s[t] != input[t]) atomic_add(wrong, 1u);
})"};
// Three stages in a ring, two groups under way while one is read.
constexpr const char* kPipeline = R"(
#ifndef WAIT
#define WAIT 1
#endif
#ifndef SYNC_AFTER_WAIT
#define SYNC_AFTER_WAIT 1
#endif
#ifndef SYNC_AFTER_READ
#define SYNC_AFTER_READ 1
#endif
QUERN_KERNEL(k, 128, 1, const unsigned* input, unsigned* wrong) {
  unsigned* s = reinterpret_cast<unsigned*>(dynamic_shared());
  const int t = thread_index();
  const int rounds = 6;
  const auto begin = [&](int round) {
    if (round < rounds) copy_async_16(s + 512 * (round % 3) + 4 * t, input + 64 * round + 4 * t, true);
    copy_async_commit();
  };
  begin(0);
  begin(1);
  for (int round = 0; round < rounds; ++round) {
    copy_async_wait<WAIT>();
    if (SYNC_AFTER_WAIT) sync_block();
    const int i = (4 * t + 140) % 512;
    if (s[512 * (round % 3) + i] != input[64 * round + i]) atomic_add(wrong, 1u);
    if (SYNC_AFTER_READ) sync_block();
    begin(round + 2);
  }
})";
const std::string kOffByOneText = std::string("#define WAIT (1 + BUG)\n") + kPipeline;
const std::string kNoSyncAfterWaitText = std::string("#define SYNC_AFTER_WAIT (!BUG)\n#define WAIT 1\n") + kPipeline;
const std::string kNoSyncText =
    std::string("#define SYNC_AFTER_READ (!BUG)\n#define SYNC_AFTER_WAIT (!BUG)\n") + kPipeline;

std::uint32_t count_wrong(const jit::Compiled& image, const Options& options) {
  static const std::vector<unsigned> input = [] {
    std::vector<unsigned> list(1024);
    for (unsigned i = 0; i < list.size(); ++i) list[i] = i * 7919 + 1;
    return list;
  }();
  Kernel kernel(image, "k", kSharedBytes, options);
  unsigned wrong = 0;
  EXPECT_EQ(kernel(kBlocks, input.data(), &wrong), "");
  return wrong;
}

class PlantedBug : public testing::TestWithParam<Planted> {
 protected:
  static const jit::Compiled& image(int bug) {
    return compile_body("#define BUG " + std::to_string(bug) + "\n" + GetParam().body);
  }
};

// In a build with ThreadSanitizer the planted mistakes are data races, which it reports: see sanitizers_test.cpp.
#ifndef QUERN_BUILT_WITH_TSAN
TEST_P(PlantedBug, IsCaughtByEverySeed) {
  constexpr int kSeeds = 25;
  int caught = 0;
  for (int seed = 0; seed < kSeeds; ++seed) {
    caught += count_wrong(image(1), {.seeded = true, .seed = static_cast<std::uint64_t>(seed)}) != 0;
  }
  std::printf("%s: caught with %d of %d seeds\n", GetParam().name, caught, kSeeds);
  EXPECT_EQ(caught, kSeeds);
}
#endif

TEST_P(PlantedBug, ThatIsNotThereIsNeverReported) {
#ifdef QUERN_BUILT_WITH_TSAN
  constexpr int kRuns = 8;  // making the fibers known to it costs a second
#else
  constexpr int kRuns = 120;  // over all kernels here, more than 1 000
#endif
  EXPECT_EQ(count_wrong(image(0), {}), 0u);
  for (int seed = 0; seed < kRuns; ++seed) {
    ASSERT_EQ(count_wrong(image(0), {.seeded = true, .seed = static_cast<std::uint64_t>(seed)}), 0u) << "seed " << seed;
  }
}

INSTANTIATE_TEST_SUITE_P(Host, PlantedBug,
                         testing::Values(kReadAfterWrite, kWriteAfterRead, kWithinWarp, kNamed, kReadWithoutWait,
                                         kWithoutCommit, Planted{"WaitOffByOne", kOffByOneText.c_str()},
                                         Planted{"NoBarrierAfterWait", kNoSyncAfterWaitText.c_str()},
                                         Planted{"StageOverwrittenWhileRead", kNoSyncText.c_str()}),
                         [](const auto& instance) { return std::string(instance.param.name); });

}  // namespace
}  // namespace quern::host_tests
