// A division by what is known before the launch, as kernels do it, beside the machine's own.
// SPDX-License-Identifier: Apache-2.0
#include "sources/divisor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <random>

namespace {

constexpr std::int32_t kMost = std::numeric_limits<std::int32_t>::max();

void expect_quotients(std::int32_t by, std::int32_t n) {
  const q::Divisor divisor = quern::ops::divisor(by);
  EXPECT_EQ(divisor.value, by);
  ASSERT_EQ(n / divisor, n / by) << n << " / " << by;
}

TEST(Divisor, AllSmallOnesWithAllSmallNumbers) {
  for (std::int32_t by = 1; by <= 400; ++by) {
    for (std::int32_t n = 0; n <= 3000; ++n) expect_quotients(by, n);
  }
}

TEST(Divisor, BesideMultiplesAndAtTheEnds) {
  std::mt19937 random(20261122);
  for (int i = 0; i < 200'000; ++i) {
    // As many of each length.
    const std::int32_t by = std::max<std::int32_t>(1, static_cast<std::int32_t>(random() >> (1 + random() % 31)));
    const std::int32_t multiple =
        static_cast<std::int32_t>(random() % (static_cast<std::uint32_t>(kMost / by) + 1)) * by;
    for (const std::int32_t n :
         {multiple, std::max(multiple - 1, 0), static_cast<std::int32_t>(random() >> 1), kMost}) {
      expect_quotients(by, n);
    }
  }
  for (const std::int32_t by : {1, 2, 3, 1 << 30, (1 << 30) - 1, (1 << 30) + 1, kMost - 1, kMost}) {
    for (const std::int32_t n : {0, 1, by - 1, by, kMost - 1, kMost}) expect_quotients(by, n);
  }
}

}  // namespace
