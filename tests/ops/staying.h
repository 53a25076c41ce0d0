// Which tokens min-p, top-k and top-p leave, by a stable sort and sums in fp64.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace quern::test {

struct Filters {
  std::int64_t top_k;  // 0 and less: off
  double top_p, min_p;
  bool joint;
};
// So many of the row's first tokens stay: any number from the least to the most where a share is too close to call.
struct Staying {
  std::size_t least, most;
};

// Of weights in `order`, the largest first. A share that is reached or missed by less than `far` may be either.
inline Staying staying_of(const std::vector<double>& weights, const std::vector<std::int64_t>& order,
                          const Filters& filters, double far) {
  const auto at = [&](std::size_t place) { return weights[static_cast<std::size_t>(order[place])]; };
  const auto sum_of = [&](std::size_t count) {
    double sum = 0;
    for (std::size_t i = 0; i < count; ++i) sum += at(i);
    return sum;
  };
  std::size_t live = 0;
  while (live < order.size() && at(live) > 0) ++live;
  if (live != 0 && filters.min_p > 0) {
    const float least = static_cast<float>(filters.min_p) * static_cast<float>(at(0));
    while (live > 1 && at(live - 1) < static_cast<double>(least)) --live;
  }
  const double whole = sum_of(live);
  if (filters.top_k > 0) live = std::min(live, static_cast<std::size_t>(filters.top_k));
  if (live == 0 || !(filters.top_p < 1)) return {live, live};
  const double wanted = filters.top_p * (filters.joint ? whole : sum_of(live));
  double sum = 0;
  std::size_t kept = 0, least = 0;
  while (kept < live && (kept == 0 || sum < wanted + far)) {
    sum += at(kept), ++kept;
    if (least == 0 && sum >= wanted - far) least = kept;
  }
  return {least == 0 ? kept : least, kept};
}

}  // namespace quern::test
