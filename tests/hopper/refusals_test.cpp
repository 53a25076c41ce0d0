// What the `host` target says of instruments used wrongly: each is an error of the launch, in words. A GPU faults at
// some, and does wrong things at others.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>

#include "jit/error.h"
#include "tests/hopper/device.h"
#include "tests/support/error_of.h"

namespace quern::hopper_tests {
namespace {

struct Mistake {
  const char* name;
  const char* body;
  std::vector<const char*> says;
  std::uint32_t cluster = 1;
  bool faults = false;   // on a GPU
  bool by_seed = false;  // told in a seeded run alone
};
void PrintTo(const Mistake& mistake, std::ostream* out) { *out << mistake.name; }

class HopperMistake : public testing::TestWithParam<Mistake> {};

// What comes of it, by a kernel with a map of 64 rows of 64 f32 in boxes of 8 rows of `width`, swizzled by 128 bytes.
std::string outcome(const char* body, std::uint32_t cluster, Schedule schedule, std::uint32_t width = 32) {
  Machine machine(schedule);
  const Memory device(std::vector<float>(4096));
  void* global = device.data();
  jit::TensorMap map = encoded(machine, dense(jit::kTensorF32, 4, device.data(), {64, 64}, {width, 8}, 3));
  return run(machine, "mistakes.cuh", {{"BODY", body}}, {cluster, cluster, 16384}, {&global, &map});
}

// In a process of its own, for which the fault is the end of CUDA.
void expect_fault(const Mistake& mistake) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        const std::string text = outcome(mistake.body, mistake.cluster, {});
        std::fprintf(stderr, "the launch said: %s\n", text.c_str());
        std::_Exit(text.find("CUDA_ERROR_ILLEGAL_INSTRUCTION") != std::string::npos ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
}

TEST_P(HopperMistake, IsNamed) {
  const Mistake& mistake = GetParam();
  if (on_cuda() && !mistake.faults) GTEST_SKIP() << "a GPU does not say";
  if (on_cuda()) return expect_fault(mistake);
  // What a GPU is to run later must not fail there for want of compiling.
  if (mistake.faults) {
    EXPECT_GT(compile("sm_90a", "mistakes.cuh", {{"BODY", mistake.body}}).image.size(), 1000u);
  }
  for (const bool seeded : {false, true}) {
    if (mistake.by_seed && !seeded) continue;
    const std::string text = outcome(mistake.body, mistake.cluster, {seeded, 5});
    for (const char* part : mistake.says)
      EXPECT_NE(text.find(part), std::string::npos) << part << " is not in: " << text;
  }
}

#define INIT "if (t == 0) { mbarrier_init(b[0], 1); fence_mbarrier_init(); } sync_block(); "
#define LOAD(at)                                                                                                     \
  INIT "if (t == 0) { mbarrier_arrive_expect(b[0], 1024); tma_load(tile_shared(), map, b[0], CacheHint::normal, " at \
       "); } mbarrier_wait(b[0], 0);"
#define WRITE(how, at) \
  "if (t == 0) { " how "(map, tile_shared(), CacheHint::normal, " at "); tma_commit(); tma_wait<0>(); }"
#define FILL "reinterpret_cast<volatile u32*>(tile_shared())[t] = static_cast<u32>(t + round); "
#define STORE "sync_block(); " WRITE("tma_store", "0, 0") " sync_block(); "
#define PRODUCT "f32 d[4] = {}; const u64 x = matrix_descriptor(tile_shared(), k_major_layout(Swizzle::bytes128)); "
#define MULTIPLY "wgmma<bf16>(d, x, x, round > 0); wgmma_commit(); wgmma_wait<0>(d); "
// Each block writes a tile and tells the other, which reads it.
#define EXCHANGE(arrive)                                                                           \
  "if (t == 0) mbarrier_init(b[0], 1); sync_cluster(); const u32 to = cluster_rank() ^ 1; "        \
  "for (u32 round = 0; round < 3; ++round) { " FILL "sync_block(); if (t == 0) " arrive            \
  "(b[0], to); mbarrier_wait_cluster(b[0], round & 1);"                                            \
  "[[maybe_unused]] const u32 v = load_cluster<u32>(cluster_address(tile_shared() + 4 * t, to)); " \
  "cluster_arrive_relaxed(); cluster_wait(); }"
// A load that counts on b[0].
#define COUNTED                                                                                                       \
  "if (t == 0) { mbarrier_arrive_expect(b[0], 1024); tma_load(tile_shared(), map, b[0], CacheHint::normal, 0, 0); } " \
  "mbarrier_wait(b[0], 0);"
// A meeting of the cluster that orders nothing, and an arrival on the other block's barrier.
#define MEET "sync_block(); cluster_arrive_relaxed(); cluster_wait(); "
#define MEET_AND_TELL \
  MEET "if (t == 0) mbarrier_arrive_remote_relaxed(b[0], cluster_rank() ^ 1); mbarrier_wait_cluster(b[0], 0);"
const Mistake kMistakes[] = {
    {"StoreWithoutAFence",
     "for (int round = 0; round < 2; ++round) { " FILL STORE "}",
     {"a bulk store of shared address 0x", "after the last fence_async()"}},
    {"StoreWithAFenceBeforeTheWrites",
     "for (int round = 0; round < 2; ++round) { fence_async(); sync_block(); " FILL STORE "}",
     {"after the last fence_async()"}},
    // Half of the threads, the later ones, rely on the others' fence.
    {"StoreWithoutTheFenceOfAWarp",
     "for (int round = 0; round < 2; ++round) { if (t < 64) { " FILL
     "fence_async(); } sync_block(); if (t >= 64) { " FILL "} " STORE "}",
     {"after the last fence_async()"}},
    {"ProductWithoutAFence",
     PRODUCT "for (int round = 0; round < 2; ++round) { " FILL "sync_block(); wgmma_fence(); " MULTIPLY
             "sync_block(); }",
     {"wgmma: A at shared address 0x", "after the last fence_async()"},
     1,
     false,
     true},
    {"ProductWithAFenceBeforeTheWrites",
     PRODUCT "for (int round = 0; round < 2; ++round) { fence_async(); sync_block(); " FILL
             "sync_block(); wgmma_fence(); " MULTIPLY "sync_block(); }",
     {"wgmma: A at shared address 0x", "after the last fence_async()"},
     1,
     false,
     true},
    {"AccumulatorsChangedWithoutAFence",
     PRODUCT "wgmma_fence(); for (int round = 0; round < 2; ++round) { " MULTIPLY "d[1] = 3; }",
     {"wgmma: its accumulators were changed", "no wgmma_fence came after that"},
     1,
     false,
     true},
    {"OperandChangedWithoutAFence",
     PRODUCT "u32 a[4] = {}; wgmma_fence(); for (u32 round = 0; round < 2; ++round) { a[2] = round;"
             "wgmma<bf16>(d, a, x, false); wgmma_commit(); wgmma_wait<0>(d); }",
     {"wgmma: its operand in registers was changed", "no wgmma_fence came after that"},
     1,
     false,
     true},
    {"RelaxedArrivalAfterWriting",
     EXCHANGE("mbarrier_arrive_remote_relaxed"),
     {"a cluster address: it reads shared address 0x", "of rank ", "since it last released its memory to the cluster"},
     2,
     false,
     true},
    {"BarrierThatACopyNeedNotSee",
     "if (t == 0) mbarrier_init(b[0], 1); sync_block(); " COUNTED,
     {"a bulk load of the barrier at shared address 0x", "has not called fence_mbarrier_init() since"}},
    {"BarrierFencedByAnotherThread",
     "if (t == 0) mbarrier_init(b[0], 1); sync_block(); if (t == 32) fence_mbarrier_init(); sync_block(); " COUNTED,
     {"a bulk load of the barrier at shared address 0x", "has not called fence_mbarrier_init() since"}},
    {"BarrierInitialisedAgainAfterItsFence",
     INIT "if (t == 0) { mbarrier_invalidate(b[0]); mbarrier_init(b[0], 1); } sync_block(); " COUNTED,
     {"a bulk load of the barrier at shared address 0x", "has not called fence_mbarrier_init() since"}},
    {"BarrierThatAnotherBlockNeedNotSee",
     "if (t == 0) mbarrier_init(b[0], 1); " MEET_AND_TELL,
     {"mbarrier_arrive_remote of the barrier at shared address 0x", "has not called fence_mbarrier_init() since"},
     2},
    {"BarrierThatASentWordNeedNotSee",
     "if (t == 0) { mbarrier_init(b[0], 1); mbarrier_arrive_expect(b[0], 512); } " MEET
     "const u32 to = cluster_rank() ^ 1; "
     "store_async(cluster_address(tile_shared() + t * 4, to), 1u, cluster_address(&b[0], to)); "
     "mbarrier_wait_cluster(b[0], 0);",
     {"store_async of the barrier at shared address 0x", "has not called fence_mbarrier_init() since"},
     2},
    {"BarrierNotInitialised",
     "mbarrier_arrive(b[0]);",
     {"mbarrier_arrive of the barrier at shared address 0x", "not initialised"}},
    {"BarrierOverwritten",
     INIT "if (t == 1) b[0].state = 0; sync_block(); mbarrier_wait(b[0], 0);",
     {"not initialised, or was overwritten"}},
    {"TooManyArrivals",
     INIT "if (t == 0) { mbarrier_expect(b[0], 16); mbarrier_arrive(b[0]); mbarrier_arrive(b[0]); }",
     {"thread 0 (warp 0, lane 0)", "all the arrivals of its phase have come already"}},
    {"TooManyBytes", INIT "if (t == 0) mbarrier_expect(b[0], 1 << 20);", {"mbarrier_expect", "1048575 bytes"}},
    {"NoArrivals", "mbarrier_init(b[0], 0);", {"mbarrier_init", "1 to 1048575"}},
    {"PhaseOfTwo", INIT "mbarrier_wait(b[0], 2);", {"parity is 0 or 1"}},
    {"NeverArrived",
     INIT "mbarrier_wait(b[0], 0);",
     {"deadlock", "threads 0-127: in mbarrier_wait for phase 0 of the barrier at shared address 0x",
      "in phase 0 with 0 of 1 arrivals and 0 bytes to land"}},
    {"PolledForEver", INIT "while (!mbarrier_try_wait(b[0], 0)) {}", {"polled without end", "mbarrier_try_wait"}},
    {"BarrierNotInSharedMemory",
     "Mbarrier mine; mbarrier_init(mine, 1);",
     {"mbarrier_init", "do not lie in the block's shared memory"}},
    {"TileMisaligned",
     INIT "if (t == 0) tma_load(tile_shared() + 16, map, b[0], CacheHint::normal, 0, 0);",
     {"a bulk load", "must be a multiple of 128"}},
    {"TileBeyondTheEnd",
     INIT "if (t == 0) tma_load(tile_shared() + 16384 - 128, map, b[0], CacheHint::normal, 0, 0);",
     {"a bulk load: 1024 bytes at", "do not lie in the block's shared memory"}},
    {"CoordinateMissing",
     INIT "if (t == 0) tma_load(tile_shared(), map, b[0], CacheHint::normal, 0);",
     {"another number of dimensions"}},
    {"NotATensorMap",
     INIT "TensorMap none{}; if (t == 0) tma_load(tile_shared(), none, b[0], CacheHint::normal, 0, 0);",
     {"not a tensor map of this target"}},
    {"LoadFromWithin16Bytes", LOAD("1, 0"), {"a bulk load: the innermost coordinate"}, 1, true},
    {"LoadFromWithin16BytesOutside", LOAD("-1, 0"), {"a bulk load: the innermost coordinate"}, 1, true},
    {"StoreFromWithin16Bytes", WRITE("tma_store", "2, 0"), {"a bulk store: the innermost coordinate"}, 1, true},
    {"StoreThatBeginsOutside", WRITE("tma_store", "0, -1"), {"a bulk store: a coordinate is negative"}, 1, true},
    {"StoreThatBeginsOutsideItsRow", WRITE("tma_store", "-4, 0"), {"a bulk store: a coordinate is negative"}, 1, true},
    {"AddThatBeginsOutside", WRITE("tma_add", "0, -1"), {"a bulk add: a coordinate is negative"}, 1, true},
    {"PlainCopyOfOddLength",
     INIT "if (t == 0) bulk_load(tile_shared(), global, 24, b[0], CacheHint::normal);",
     {"multiple of 16"}},
    {"PlainCopyMisaligned",
     INIT "if (t == 0) bulk_load(tile_shared(), global + 4, 16, b[0], CacheHint::normal);",
     {"global address must be a multiple of 16"}},
    {"DescriptorLeadsOutside",
     "f32 d[4]; wgmma_fence(); const u64 x = matrix_descriptor(tile_shared(), matrix_layout(Swizzle::bytes128, 16, "
     "65536));"
     "wgmma<bf16>(d, x, x, false); wgmma_commit(); wgmma_wait<0>(d);",
     {"wgmma: ", "leads to shared address", "stride 65536", "swizzle of 128 bytes"}},
    {"DescriptorWithStrayBits",
     "f32 d[4]; wgmma_fence(); const u64 x = matrix_descriptor(tile_shared(), k_major_layout(Swizzle::bytes128));"
     "wgmma<bf16>(d, x, x | 1ull << 49, false); wgmma_commit(); wgmma_wait<0>(d);",
     {"bits set that must be zero"}},
    {"NoFence",
     "f32 d[4]; const u64 x = matrix_descriptor(tile_shared(), k_major_layout(Swizzle::bytes128));"
     "wgmma<bf16>(d, x, x, false); wgmma_commit(); wgmma_wait<0>(d);",
     {"no wgmma_fence"}},
    {"WarpsDisagree",
     "f32 d[4]; wgmma_fence(); const u64 x = matrix_descriptor(tile_shared(), k_major_layout(Swizzle::bytes128));"
     "wgmma<bf16>(d, x, advanced(x, warp() * 32), false); wgmma_commit(); wgmma_wait<0>(d);",
     {"the warps of a warpgroup disagree", "descriptors differ"}},
    {"LanesDisagree",
     "f32 d[4]; wgmma_fence(); const u64 x = matrix_descriptor(tile_shared(), k_major_layout(Swizzle::bytes128));"
     "wgmma<bf16>(d, x, x, lane() == 3); wgmma_commit(); wgmma_wait<0>(d);",
     {"the lanes of a warp disagree", "accumulates"}},
    {"OneWarpOnly",
     "f32 d[4]; wgmma_fence(); const u64 x = matrix_descriptor(tile_shared(), k_major_layout(Swizzle::bytes128));"
     "if (warp() == 2) { wgmma<bf16>(d, x, x, false); wgmma_commit(); wgmma_wait<0>(d); }",
     {"deadlock", "threads 64-95: in wgmma_wait for the other warps"}},
    {"ProductNotWaitedFor",
     "static f32 d[128][4]; wgmma_fence(); const u64 x = matrix_descriptor(tile_shared(), "
     "k_major_layout(Swizzle::bytes128));"
     "if (warp() < 3) wgmma<bf16>(d[t], x, x, false);",
     {"a product is still under way"}},
    {"RegistersOfHalfAWarpgroup",
     "if (warp() < 2) registers_shrink<40>();",
     {"have changed their registers 1 and 0 times"}},
    {"RegistersDiffer",
     "if (warp() < 2) registers_shrink<40>(); else registers_shrink<48>();",
     {"registers_shrink", "disagree: "}},
    {"RegistersTheWrongWay",
     "registers_shrink<40>(); registers_shrink<48>();",
     {"registers_shrink: 48 asked for, 40 held"}},
    {"NamedBarrierBeyondTheLast", "arrive_named(16, 128);", {"arrive_named of barrier 16; allowed are 1 to 15"}},
    {"RankBeyondTheCluster", "cluster_address(tile_shared(), 2);", {"cluster_address: rank 2 of a cluster of 2"}, 2},
    {"AccessBeyondAnothersMemory",
     "load_cluster<u32>(cluster_address(tile_shared(), 1) + 16384);",
     {"4 bytes at 0x", "rank 1"},
     2},
    {"BlockThatHasReturned",
     "if (cluster_rank() == 1) return; for (int i = 0; i < 100000; ++i) "
     "load_cluster<u32>(cluster_address(tile_shared(), 1));"
     "while (true) load_volatile(global), load_cluster<u32>(cluster_address(tile_shared(), 1));",
     {"all threads of the block of rank 1 have returned"},
     2},
    {"MulticastBeyondTheCluster",
     INIT "if (t == 0) tma_load_multicast(tile_shared(), map, b[0], 5, CacheHint::normal, 0, 0);",
     {"ranks 0x5 of a cluster of 2"},
     2},
    {"OtherBlocksBarrierNotYetInitialised",
     "if (cluster_rank() == 0) mbarrier_arrive_remote(b[0], 1);",
     {"of rank 1: it is not initialised"},
     2},
    {"StoreCountedByAnotherBlock",
     INIT "sync_cluster(); if (t == 0) store_async(cluster_address(tile_shared(), 1), 1u, cluster_address(&b[0], 0));"
          "sync_cluster();",
     {"store_async: it goes to the block of rank 1 and counts on a barrier of that of rank 0"},
     2},
    {"StoreCountedByNoBarrier",
     INIT
     "sync_cluster(); const u32 to = cluster_rank() ^ 1;"
     "if (t == 0) store_async(cluster_address(tile_shared(), to), 1u, cluster_address(&b[1], to)); sync_cluster();",
     {"store_async of the barrier at shared address 0x", "not initialised"},
     2},
    {"StoreMisaligned",
     INIT "sync_cluster(); const u32 to = cluster_rank() ^ 1;"
          "if (t == 0) store_async(cluster_address(tile_shared() + 8, to), vec16{}, cluster_address(&b[0], to));"
          "sync_cluster();",
     {"store_async: 16 bytes at 0x"},
     2},
    {"StoreToTheBlockItself",
     INIT "if (t == 0) store_async(cluster_address(tile_shared(), 0), 1u, cluster_address(&b[0], 0));",
     {"store_async: it goes to the block that it comes from, of rank 0; allowed is another of the cluster"}},
    {"ClusterWaitAlone", "cluster_wait();", {"without a cluster_arrive"}, 2},
    {"ClusterArriveTwice", "cluster_arrive(); cluster_arrive();", {"cluster_arrive twice"}, 2},
    {"ClusterBarrierOfOneBlock",
     INIT "if (cluster_rank() == 0) sync_cluster(); else mbarrier_wait(b[0], 0);",
     {"deadlock", "threads 0-127 of rank 0: in cluster_wait with 128 of 256 threads arrived",
      "threads 0-127 of rank 1: in mbarrier_wait"},
     2},
};
INSTANTIATE_TEST_SUITE_P(Mistakes, HopperMistake, testing::ValuesIn(kMistakes),
                         [](const testing::TestParamInfo<Mistake>& mistake) {
                           return std::string(mistake.param.name);
                         });

// The same, done right.
TEST(HopperMistakes, NoneWhereFencesAreInPlace) {
  const char* const right[][2] = {
      {PRODUCT "for (int round = 0; round < 3; ++round) { " FILL "fence_async(); sync_block(); wgmma_fence(); " MULTIPLY
               "sync_block(); }",
       "1"},
      {PRODUCT "for (int round = 0; round < 3; ++round) { wgmma_fence(); " MULTIPLY "d[1] = 3; }", "1"},
      {PRODUCT "wgmma_fence(); for (int round = 0; round < 3; ++round) { " MULTIPLY "}", "1"},
      {EXCHANGE("mbarrier_arrive_remote"), "2"},
      // What is written beside a word that another block reads is no matter to it.
      {"volatile u32* own = reinterpret_cast<volatile u32*>(tile_shared()); if (t == 0) own[0] = 1; sync_cluster();"
       "const u32 there = cluster_address(tile_shared(), cluster_rank() ^ 1);"
       "if (t == 0) { [[maybe_unused]] const u32 v = load_cluster<u32>(there); } sync_cluster();"
       "if (t == 0) own[1] = 2; cluster_arrive_relaxed(); cluster_wait();"
       "if (t == 0) { [[maybe_unused]] const u32 v = load_cluster<u32>(there); } sync_cluster();",
       "2"},
  };
  for (const auto& [body, cluster] : right) {
    for (const bool seeded : {false, true})
      EXPECT_EQ(outcome(body, static_cast<std::uint32_t>(*cluster - '0'), {seeded, 5}), "") << body;
  }
}

// Barriers whose initialisation is seen where they are reached.
TEST(HopperMistakes, ABarrierThatWasFencedIsNone) {
  struct Right {
    const char* body;
    std::uint32_t cluster;
  };
  const Right all[] = {
      {INIT COUNTED, 1},
      {"if (t == 0) { mbarrier_init(b[0], 1); fence_async(); } sync_block(); " COUNTED, 1},
      {"if (t == 0) { mbarrier_init(b[0], 1); fence_mbarrier_init(); } " MEET_AND_TELL, 2},
      {"if (t == 0) mbarrier_init(b[0], 1); sync_cluster(); " MEET_AND_TELL, 2},
      // The block's own threads need none.
      {"if (t == 0) mbarrier_init(b[0], 128); sync_block(); mbarrier_arrive(b[0]); mbarrier_wait(b[0], 0);", 1},
  };
  for (const Right& each : all) {
    EXPECT_EQ(outcome(each.body, each.cluster, {}), "") << each.body;
    for (std::uint64_t seed = 0; seed < 5; ++seed)
      EXPECT_EQ(outcome(each.body, each.cluster, {true, seed}), "") << each.body;
  }
}

#undef MEET_AND_TELL
#undef MEET
#undef COUNTED
#undef EXCHANGE
#undef MULTIPLY
#undef PRODUCT
#undef STORE
#undef FILL
#undef WRITE
#undef LOAD
#undef INIT

// What a fair run has no occasion to see.
TEST(HopperMistakes, WorkLeftBehind) {
  if (on_cuda()) GTEST_SKIP() << "a GPU does not say";
  const auto left = [](const char* body, std::uint32_t cluster = 1) {
    std::string all;
    for (std::uint64_t seed = 0; seed < 10; ++seed) all += outcome(body, cluster, {true, seed});
    return all;
  };
  EXPECT_NE(left("if (t == 0) { mbarrier_init(b[0], 1); fence_mbarrier_init(); mbarrier_arrive_expect(b[0], 1024);"
                 "tma_load(tile_shared(), map, b[0], CacheHint::normal, 0, 0); }")
                .find("a bulk load is still under way"),
            std::string::npos);
  EXPECT_NE(left("if (t == 0) mbarrier_init(b[0], 1); sync_cluster();"
                 "if (t == 0 && cluster_rank() == 0) store_async(cluster_address(tile_shared(), 1), 1u, "
                 "cluster_address(&b[0], 1)); sync_cluster();",
                 2)
                .find("an asynchronous store is still under way"),
            std::string::npos);
  EXPECT_NE(left("if (t == 0) { tma_store(map, tile_shared(), CacheHint::normal, 0, 0); tma_commit(); }")
                .find("a bulk store has not yet read its shared memory"),
            std::string::npos);
}

TEST(HopperMistakes, SwizzledBoxesNarrowerThanTheirSwizzle) {
  if (on_cuda()) GTEST_SKIP() << "a GPU does not say";
  const std::string text = outcome("if (t == 0) tma_store(map, tile_shared(), CacheHint::normal, 0, 0);", 1, {}, 16);
  EXPECT_NE(text.find("as wide as its swizzle"), std::string::npos) << text;
}

TEST(HopperMistakes, LaunchesWithImpossibleClusters) {
  if (on_cuda()) GTEST_SKIP() << "the driver's own words, there";
  Machine machine;
  void* global = nullptr;
  jit::TensorMap map{};
  const auto launch = [&](std::uint32_t blocks, std::uint32_t cluster) {
    return run(machine, "mistakes.cuh", {{"BODY", ""}}, {blocks, cluster, 0}, {&global, &map});
  };
  EXPECT_EQ(launch(16, 16), "");
  EXPECT_NE(launch(3, 2).find("clusters of (2, 1, 1), which do not divide its grid of (3, 1, 1)"), std::string::npos);
  EXPECT_NE(launch(32, 32).find("allowed are 1 to 16 blocks"), std::string::npos);
}

TEST(HopperTensorMaps, WhatTheDriverRefuses) {
  using test::error_of;
  Machine machine;
  const Memory memory(65536);
  const auto refused = [&](const auto& change) {
    jit::TensorMapDesc desc = dense(jit::kTensorBF16, 2, memory.data(), {64, 64}, {64, 8}, 3);
    change(desc);
    const Error error = error_of([&] { encoded(machine, desc); });
    EXPECT_EQ(error.status(), QUERN_INVALID) << error.text();
    return error.text();
  };
  refused([&](jit::TensorMapDesc& d) { d.address = memory.data() + 8; });
  refused([](jit::TensorMapDesc& d) { d.stride[0] = 24; });
  refused([](jit::TensorMapDesc& d) { d.box[0] = 128; });  // wider than the swizzle
  refused([](jit::TensorMapDesc& d) { d.box[1] = 257; });
  refused([](jit::TensorMapDesc& d) { d.box[1] = 0; });
  refused([](jit::TensorMapDesc& d) { d.extent[1] = 0; });
  refused([](jit::TensorMapDesc& d) { d.rank = 0; });
  refused([](jit::TensorMapDesc& d) { d.rank = 6; });
  refused([](jit::TensorMapDesc& d) { d.swizzle = 0, d.box[0] = 4; });  // 8 bytes
}

}  // namespace
}  // namespace quern::hopper_tests
