// How products of few rows are cut for a device: that it can be launched, and that it leaves few multiprocessors idle.
// SPDX-License-Identifier: Apache-2.0
#include "sources/gemm/split.h"

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
    ASSERT_LE(found.parts, product.steps) << "a block without steps";
    ASSERT_TRUE(found.peers == 1 || found.peers == 2);
    ASSERT_LE(found.parts * found.peers, machine.most_blocks);
    ASSERT_LE(blocks, machine.usable);
    ASSERT_LE(found.clusters * found.peers, product.row_tiles * (product.column_tiles + 1)) << "clusters without tiles";
  }
}

// On an H200: what the busiest block reads, over an even share.
TEST(Split, IsEvenOnAnH200) {
  struct Layer {
    int n, k;
  };
  for (const Layer& layer : {Layer{4096, 7168}, {2112, 7168}, {24576, 1536}, {7168, 16384}, {7168, 2048}, {57344, 8192}, {8192, 28672}, {10240, 8192}}) {
    for (const int rows : {16, 64, 128}) {
      const FewRows product{1, (layer.n + 127) / 128, (layer.k + 127) / 128, rows / 128.0};
      const Split found = split(product, {132, 132, 8});
      const auto up = [](std::int64_t a, std::int64_t b) { return (a + b - 1) / b; };
      const std::int64_t busiest = up(up(product.column_tiles, found.peers), found.clusters) * up(product.steps, found.parts);
      const double even = static_cast<double>(product.column_tiles * product.steps) / 132;
      EXPECT_LE(static_cast<double>(busiest), 2.0 * even) << rows << " x " << layer.n << " x " << layer.k;
      EXPECT_EQ(found.peers, rows == 128 ? 2 : 1) << "rows that weigh as much as the weights are copied once for two";
    }
  }
}

TEST(Split, LeavesWholeWhatIsTooShort) {
  EXPECT_EQ(split({1, 1, 3, 0.125}, {132, 132, 8}).parts, 1);
  EXPECT_EQ(split({1, 1, 400, 0.125}, {1, 1, 8}).parts, 1) << "one multiprocessor has nobody to share with";
  EXPECT_GT(split({1, 1, 400, 0.125}, {4, 4, 8}).parts, 1);
}

}  // namespace
}  // namespace quern::ops::gemm
