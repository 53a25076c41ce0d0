// How products of few rows are cut for a device: that it can be launched, and that it leaves few multiprocessors idle.
// SPDX-License-Identifier: Apache-2.0
#include "sources/gemm/plan/split.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace quern::ops::gemm {
namespace {

TEST(Split, FitsTheDevice) {
  std::mt19937 random(1);
  const auto between = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  for (int round = 0; round < 20000; ++round) {
    const FewRows product{between(1, 3), between(1, 400), between(1, 300), 1.0 / (1 << between(0, 3))};
    const int sms = between(1, 160);
    const Machine machine{sms, between(1, sms), between(1, 8)};
    const Split found = split(product, machine);
    const std::int64_t blocks = found.clusters * found.parts * found.peers;
    ASSERT_GE(found.clusters, 1);
    ASSERT_GE(found.parts, 1);
    ASSERT_LE(found.parts, product.k_blocks) << "a part without k blocks";
    ASSERT_TRUE(found.peers == 1 || found.peers == 2);
    ASSERT_LE(found.parts * found.peers, machine.most_blocks);
    ASSERT_LE(blocks, machine.usable);
    ASSERT_LE(found.clusters * found.peers, product.row_tiles * (product.column_tiles + 1)) << "clusters without tiles";
  }
}

// What was fastest there, of all splits, of products of 8 bits.
TEST(Split, ChoosesWhatWasFastestOnAnH200) {
  struct Layer {
    int rows, n, k, parts;
  };
  for (const Layer& layer : {Layer{16, 4096, 7168, 2},
                             {64, 2112, 7168, 4},
                             {64, 24576, 1536, 1},
                             {64, 7168, 16384, 2},
                             {128, 4096, 7168, 3},
                             {128, 7168, 16384, 2}}) {
    const FewRows product{1, (layer.n + 127) / 128, (layer.k + 127) / 128, layer.rows / 128.0};
    const Split found = split(product, {132, 132, 8});
    EXPECT_EQ(found.parts, layer.parts) << layer.rows << " x " << layer.n << " x " << layer.k;
    EXPECT_GE(found.clusters * found.peers, product.column_tiles / 2)
        << layer.rows << " x " << layer.n << " x " << layer.k;
  }
}

TEST(Split, LeavesWholeWhatIsTooShort) {
  EXPECT_EQ(split({1, 1, 3, 0.125}, {132, 132, 8}).parts, 1);
  EXPECT_EQ(split({1, 1, 400, 0.125}, {1, 1, 8}).parts, 1) << "one multiprocessor has nobody to share with";
  EXPECT_GT(split({1, 1, 400, 0.125}, {4, 4, 8}).parts, 1);
}

}  // namespace
}  // namespace quern::ops::gemm
