// Frequencies against the probabilities that they are of.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "tests/ops/device.h"

namespace quern::test {

// How many draws: what a few seconds of `host` allow.
inline std::int64_t many() {
  if (const char* given = std::getenv("QUERN_TEST_MANY")) return std::max(std::atoll(given), 100LL);
  return on_cuda() ? 1000000 : 500;
}

// The chi-square quantile of 1 - 10^-6 (Wilson and Hilferty, "The distribution of chi-square", 1931; good to a
// percent).
inline double quantile(std::int64_t freedom) {
  const double k = static_cast<double>(freedom), t = 2.0 / (9.0 * k);
  return k * std::pow(1.0 - t + 4.7534 * std::sqrt(t), 3.0) * 1.01 + 2.0;
}
// Outcomes that are expected less than five times are taken together.
inline void expect_distributed(const std::vector<double>& p, const std::vector<std::int64_t>& seen,
                               const std::string& what) {
  std::int64_t n = 0;
  for (const std::int64_t s : seen) n += s;
  double statistic = 0, rest = 0, rest_seen = 0;
  std::int64_t cells = 0;
  for (std::size_t i = 0; i < p.size(); ++i) {
    const double e = p[i] * static_cast<double>(n), s = static_cast<double>(seen[i]);
    EXPECT_TRUE(p[i] > 0 || seen[i] == 0) << what << ": token " << i << " has no probability";
    if (e < 5) {
      rest += e, rest_seen += s;
    } else {
      statistic += (s - e) * (s - e) / e, ++cells;
    }
  }
  if (rest >= 5) statistic += (rest_seen - rest) * (rest_seen - rest) / rest, ++cells;
  if (cells < 2) return;
  EXPECT_LE(statistic, quantile(cells - 1)) << what << ", of " << n;
}

}  // namespace quern::test
