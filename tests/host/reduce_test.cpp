// common/reduce.cuh at both warp sizes, common/philox.cuh against the known answers of its authors; and that every
// target's compiler takes them.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <random>

#include "sources/common/philox.cuh"
#include "tests/host/kernels.h"

namespace quern::host_tests {
namespace {

constexpr int kThreads = 256, kBins = 1024, kRows = 20;

TEST(Philox, KnownAnswers) {
  struct Answer {
    std::uint64_t seed, low, high;
    std::uint32_t x[4];
  };
  const Answer answers[] = {
      {0, 0, 0, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
      {~0ull, ~0ull, ~0ull, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
      {0x299f31d0a4093822, 0x85a308d3243f6a88, 0x0370734413198a2e, {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
  };
  for (const Answer& answer : answers) {
    const q::Philox got = q::philox(answer.seed, answer.low, answer.high);
    for (int i = 0; i < 4; ++i) EXPECT_EQ(got.x[i], answer.x[i]) << std::hex << answer.seed << " word " << i;
  }
}

TEST(Philox, UniformsStayInside) {
  EXPECT_GT(q::uniform_of(0), 0.0f);
  EXPECT_LT(q::uniform_of(0xffffffffu), 1.0f);
  EXPECT_EQ(q::uniform_of(0x80000000u), 0.5f + 0x1p-24f);
  for (const std::uint64_t n : {1ull, 2ull, 3ull, 1000ull, (1ull << 32) + 5, 1ull << 60, ~0ull}) {
    for (const std::uint64_t r : {0ull, 1ull, 0x123456789abcdefull, 1ull << 63, ~0ull}) {
      const auto exact = static_cast<std::uint64_t>(static_cast<unsigned __int128>(r) * n >> 64);
      EXPECT_EQ(q::scale_to(r, n), exact) << r << " of " << n;
    }
  }
}

class Reduce : public testing::TestWithParam<std::uint32_t> {
 protected:
  void check(const Options& options, std::uint32_t seed) {
    std::mt19937 random(seed);
    std::vector<std::uint32_t> input(kThreads), out(kRows * kThreads, 0xabababab), bins(kBins, 0xabababab);
    const int kind = static_cast<int>(seed % 3);
    for (auto& v : input)
      v = static_cast<std::uint32_t>(kind == 0 ? random() % kBins : kind == 1 ? 100 + random() % 2 : 0);
    const auto wanted = static_cast<std::uint32_t>(1 + random() % 900);
    Kernel kernel(compile(options.warp_size == 64 ? "host64" : "host", "reduce.cuh", read_file("tests/host/reduce.cuh"),
                          "quern_reduce"),
                  "quern_reduce", 0, options);
    const std::uint32_t* in = input.data();
    std::uint32_t *to = out.data(), *to_bins = bins.data();
    ASSERT_EQ(kernel(1, in, wanted, to, to_bins), "");
    std::vector<std::uint32_t> expected_bins(kBins);
    for (int t = 0; t < kThreads; ++t) {
      if (t % 5 != 0) ++expected_bins[input[t]];
      ++expected_bins[7], ++expected_bins[t % 2 == 0 ? 9 : 11];
    }
    EXPECT_EQ(bins, expected_bins);
    int bin = kBins - 1;
    std::uint32_t above = 0;
    while (bin >= 0 && above + expected_bins[bin] < wanted) above += expected_bins[bin--];
    const int warp = static_cast<int>(options.warp_size);
    std::uint32_t total = 0, winners = 0;
    for (const auto v : input) total += v;
    const auto [least, most] = std::minmax_element(input.begin(), input.end());
    std::uint32_t before = 0;
    for (int t = 0; t < kThreads; ++t) {
      const auto row = [&](int r) { return out[r * kThreads + t]; };
      const auto first = input.begin() + t / warp * warp;
      std::uint32_t sum = 0, scan = 0;
      for (int l = 0; l < warp; ++l) sum += first[l], scan += l <= t % warp ? first[l] : 0;
      ASSERT_EQ(row(0), sum);
      ASSERT_EQ(row(1), *std::max_element(first, first + warp));
      ASSERT_EQ(row(2), *std::min_element(first, first + warp));
      ASSERT_EQ(row(3), scan);
      ASSERT_EQ(row(4), total);
      ASSERT_EQ(std::bit_cast<float>(row(5)), static_cast<float>(*most));
      ASSERT_EQ(row(6), total);
      ASSERT_EQ(row(7), *least);
      ASSERT_EQ(row(8), before);
      ASSERT_EQ(row(9), total);
      ASSERT_EQ(static_cast<int>(row(10)), bin);
      ASSERT_EQ(row(11), above);
      ASSERT_EQ(row(12), bin < 0 ? 0 : expected_bins[bin]);
      const std::uint32_t v = input[t];
      const std::uint64_t w = std::uint64_t{v} << 32 | (v & 1);
      ASSERT_EQ(row(13), std::popcount(v) | std::countl_zero(v) << 8 | std::countr_zero(v) << 16);
      ASSERT_EQ(row(14), std::popcount(w) | std::countl_zero(w) << 8 | std::countr_zero(w) << 16);
      winners += row(15) == 0;
      const q::Philox p = q::philox(std::uint64_t{v} << 40 | 5, wanted, t);
      for (int i = 0; i < 4; ++i) ASSERT_EQ(row(16 + i), p.x[i]);
      before += v;
    }
    EXPECT_EQ(winners, 1u) << "one thread alone finds what it expects";
  }
};

TEST_P(Reduce, FairAndEager) {
  for (std::uint32_t seed = 0; seed < 9; ++seed) check({.warp_size = GetParam()}, seed);
}
TEST_P(Reduce, UnfairForManySeeds) {
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    check({.warp_size = GetParam(), .seeded = true, .seed = seed}, static_cast<std::uint32_t>(seed));
  }
}
INSTANTIATE_TEST_SUITE_P(WarpSizes, Reduce, testing::Values(32u, 64u));

class ReduceOn : public testing::TestWithParam<const char*> {};
TEST_P(ReduceOn, Compiles) {
  EXPECT_FALSE(compile(GetParam(), "reduce.cuh", read_file("tests/host/reduce.cuh"), "quern_reduce").image.empty());
}
INSTANTIATE_TEST_SUITE_P(EveryTarget, ReduceOn,
                         testing::Values("sm_80", "sm_89", "sm_90a", "sm_100a", "sm_120a", "gfx90a"));

}  // namespace
}  // namespace quern::host_tests
