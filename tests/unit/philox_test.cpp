// Philox 4x32-10 against the answers that come with its definition (Salmon, Moraes, Dror and Shaw, "Parallel random
// numbers: as easy as 1, 2, 3", 2011; kat_vectors of Random123), and what is made of its bits.
// SPDX-License-Identifier: Apache-2.0
#include "sources/common/philox.cuh"

#include <gtest/gtest.h>

namespace q {
namespace {

void expect_answer(u64 seed, u64 low, u64 high, const u32 (&answer)[4]) {
  const Philox given = philox(seed, low, high);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(given.x[i], answer[i]) << i;
}

TEST(Philox, GivesTheKnownAnswers) {
  constexpr u64 kOnes = ~u64{0};
  expect_answer(0, 0, 0, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  expect_answer(kOnes, kOnes, kOnes, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  expect_answer(0x299f31d0a4093822, 0x85a308d3243f6a88, 0x0370734413198a2e,
                {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST(Philox, UniformsLieBetweenNoughtAndOneAndAreNeither) {
  EXPECT_EQ(uniform_of(0), 0x1p-24f);
  EXPECT_EQ(uniform_of(511), 0x1p-24f);
  EXPECT_EQ(uniform_of(512), 3 * 0x1p-24f);
  EXPECT_EQ(uniform_of(~u32{0}), 1.0f - 0x1p-24f);
}

TEST(Philox, ScalingIsTheHighHalfOfTheProduct) {
  for (const u64 r : {u64{0}, u64{1}, ~u64{0}, u64{0x123456789abcdef0}, u64{0xfedcba9876543210}}) {
    for (const u64 n : {u64{1}, u64{2}, u64{3}, u64{1000003}, ~u64{0}, u64{1} << 63})
      EXPECT_EQ(scale_to(r, n), static_cast<u64>(static_cast<unsigned __int128>(r) * n >> 64)) << r << ' ' << n;
  }
}

}  // namespace
}  // namespace q
