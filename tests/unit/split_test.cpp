// How tiles of few rows are divided among the blocks of clusters: what is offered can be launched.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <random>

#include "sources/gemm/plan/splits.h"

namespace quern::ops::gemm {
namespace {

TEST(Split, FitsTheDevice) {
  std::mt19937 random(1);
  const auto between = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  int possible = 0;
  for (int round = 0; round < 20000; ++round) {
    const Tiles tiles{between(1, 3), between(1, 400), between(1, 300)};
    const int sms = between(1, 160), parts = between(0, 9), peers = between(0, 3);
    const Machine machine{sms, between(1, sms), between(1, 8)};
    const std::optional<Split> found = split_into(parts, peers, tiles, machine);
    if (!found) continue;
    ++possible;
    ASSERT_EQ(found->parts, parts);
    ASSERT_EQ(found->peers, peers);
    ASSERT_GE(found->clusters, 1);
    ASSERT_LE(2 * parts, parts > 1 ? tiles.k_blocks : 2) << "a part with fewer than two k blocks";
    ASSERT_TRUE(peers == 1 || peers == 2);
    ASSERT_LE(parts * peers, machine.most_blocks);
    ASSERT_LE(found->clusters * parts * peers, machine.usable);
    ASSERT_LE(found->clusters * peers, tiles.rows * (tiles.columns + 1)) << "clusters without tiles";
  }
  EXPECT_GT(possible, 1000);
}

TEST(Split, LeavesWholeWhatIsTooShort) {
  EXPECT_FALSE(split_into(2, 1, {1, 1, 3}, {132, 132, 8}));
  EXPECT_FALSE(split_into(2, 1, {1, 1, 400}, {1, 1, 8})) << "one multiprocessor has nobody to share with";
  EXPECT_TRUE(split_into(2, 1, {1, 1, 400}, {4, 4, 8}));
}

}  // namespace
}  // namespace quern::ops::gemm
