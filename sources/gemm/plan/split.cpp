// The model that chooses the split-K of swap_ab.
//
// Its numbers are those of an H200, in units of the time in which all multiprocessors together read a k block of
// weights each, about 0.5 us. A block takes a part of that for a k block, more with more rows; parts exchange their
// sums, which takes longer the more parts there are; and where there are more tiles than clusters that fit the device,
// each round pays for its exchange.
// SPDX-License-Identifier: Apache-2.0
#include "sources/gemm/plan/split.h"

#include <algorithm>

#include "sources/clusters.h"

namespace quern::ops::gemm {
namespace {

// The fewest k blocks of a block.
constexpr std::int64_t kFewestKBlocks = 2;
constexpr double kKBlock = 0.3, kKBlockOfRows = 0.4;  // of a k block; more with as many rows as columns
constexpr double kOfEachPart = 2.0, kOfEachRound = 6.0;
constexpr double kUnit = 0.5, kOfLaunch = 5.0;  // microseconds of a unit; of a launch

std::int64_t div_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// How many clusters of so many blocks fit the device at once.
std::int64_t most_clusters(int blocks, const Machine& machine) {
  const std::int64_t room = ops::most_clusters(blocks, machine.sms);
  return std::min(room, std::int64_t{machine.usable / blocks});
}

}  // namespace

std::optional<Split> split_into(int parts, int peers, const FewRows& product, const Machine& machine) {
  if (parts < 1 || peers < 1 || peers > kMostColumnPeers || peers > product.column_tiles ||
      parts * peers > machine.most_blocks)
    return {};
  if (parts > 1 && product.k_blocks < parts * kFewestKBlocks) return {};
  const std::int64_t most = most_clusters(parts * peers, machine);
  if (most == 0) return {};
  return Split{parts, peers, std::min(product.row_tiles * div_up(product.column_tiles, peers), most), 0.0};
}

Split split(const FewRows& product, const Machine& machine) {
  Split best{1, 1, std::min<std::int64_t>(product.row_tiles * product.column_tiles, machine.usable), 0.0};
  double least = 0.0;
  for (int peers = 1; peers <= kMostColumnPeers; ++peers) {
    const std::int64_t tiles = product.row_tiles * div_up(product.column_tiles, peers);
    for (int parts = 1; parts * peers <= machine.most_blocks; ++parts) {
      const std::optional<Split> candidate = split_into(parts, peers, product, machine);
      if (!candidate) break;
      const std::int64_t rounds = div_up(tiles, most_clusters(parts * peers, machine));
      const double own = static_cast<double>(rounds * div_up(product.k_blocks, parts));
      const double busy = static_cast<double>(candidate->clusters * parts * peers) / machine.sms;
      const double exchanges =
          parts == 1 ? 0.0
                     : kOfEachPart * (parts - 2) + (rounds > 1 ? kOfEachRound * static_cast<double>(rounds) : 0.0);
      const double cost = own * std::max(kKBlock + kKBlockOfRows * product.rows_to_columns, busy) + exchanges;
      if (least == 0.0 || cost < least) best = *candidate, least = cost;
    }
  }
  best.microseconds = kOfLaunch + kUnit * least;
  return best;
}

}  // namespace quern::ops::gemm
