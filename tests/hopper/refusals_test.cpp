// What the `host` target says of instruments used wrongly: each is an error of the launch, in words.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

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
};
void PrintTo(const Mistake& mistake, std::ostream* out) { *out << mistake.name; }

class HopperMistake : public testing::TestWithParam<Mistake> {};

TEST_P(HopperMistake, IsNamed) {
  if (on_cuda()) GTEST_SKIP() << "a GPU does not say";
  const Mistake& mistake = GetParam();
  for (const bool seeded : {false, true}) {
    Machine machine({seeded, 5});
    std::vector<float> tensor(4096);
    const Memory device(tensor);
    void* global = device.data();
    jit::TensorMap map = encoded(machine, dense(jit::kTensorF32, 4, device.data(), {64, 64}, {32, 8}, 3));
    const std::string text = run(machine, "mistakes.cuh", {{"BODY", mistake.body}},
                                 {mistake.cluster, mistake.cluster, 16384}, {&global, &map});
    for (const char* part : mistake.says)
      EXPECT_NE(text.find(part), std::string::npos) << part << " is not in: " << text;
  }
}

#define INIT "if (t == 0) mbarrier_init(b[0], 1); sync_block(); "
const Mistake kMistakes[] = {
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
    {"ClusterWaitAlone", "cluster_wait();", {"without a cluster_arrive"}, 2},
    {"ClusterArriveTwice", "cluster_arrive(); cluster_arrive();", {"cluster_arrive twice"}, 2},
    {"ClusterBarrierOfOneBlock",
     INIT "if (cluster_rank() == 0) sync_cluster(); else mbarrier_wait(b[0], 0);",
     {"deadlock", "threads 0-127 of rank 0: in cluster_wait with 128 of 256 threads arrived",
      "threads 0-127 of rank 1: in mbarrier_wait"},
     2},
};
#undef INIT
INSTANTIATE_TEST_SUITE_P(Mistakes, HopperMistake, testing::ValuesIn(kMistakes),
                         [](const testing::TestParamInfo<Mistake>& mistake) {
                           return std::string(mistake.param.name);
                         });

// What a fair run has no occasion to see.
TEST(HopperMistakes, WorkLeftBehind) {
  if (on_cuda()) GTEST_SKIP() << "a GPU does not say";
  const auto left = [](const char* body) {
    std::string all;
    for (std::uint64_t seed = 0; seed < 10; ++seed) {
      Machine machine({true, seed});
      const Memory device(std::vector<float>(4096));
      void* global = device.data();
      jit::TensorMap map = encoded(machine, dense(jit::kTensorF32, 4, device.data(), {64, 64}, {32, 8}, 3));
      all += run(machine, "mistakes.cuh", {{"BODY", body}}, {1, 1, 16384}, {&global, &map});
    }
    return all;
  };
  EXPECT_NE(left("if (t == 0) { mbarrier_init(b[0], 1); mbarrier_arrive_expect(b[0], 1024);"
                 "tma_load(tile_shared(), map, b[0], CacheHint::normal, 0, 0); }")
                .find("a bulk load is still under way"),
            std::string::npos);
  EXPECT_NE(left("if (t == 0) { tma_store(map, tile_shared(), CacheHint::normal, 0, 0); tma_commit(); }")
                .find("a bulk store has not yet read its shared memory"),
            std::string::npos);
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
