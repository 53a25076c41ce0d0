// The model that chooses how many blocks of threads share a tile.
//
// Times are counted in steps of one multiprocessor. All of them together read at the memory's pace; what a split changes is how
// evenly the work lies on them, of which about half can be made up for, as those that have more to do find the memory less busy;
// the exchange of sums; and what is read from L2 beside the weights, which it gives half as fast again as the memory.
// SPDX-License-Identifier: Apache-2.0
#include "sources/gemm/split.h"

#include <algorithm>

namespace quern::ops::gemm {
namespace {

// A block has at least so many steps.
constexpr std::int64_t kFewestSteps = 2;
constexpr double kUneven = 0.5, kExchange = 2.0, kOfEachPart = 0.25;
constexpr double kOfL2 = 1.5;

std::int64_t div_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// Clusters lie within one of the groups of multiprocessors that the hardware has, which are of 16 and more.
std::int64_t most_clusters(int blocks, const Machine& machine) {
  constexpr int kGroup = 16;
  const int sms = machine.sms;
  const std::int64_t all = blocks == 1 ? sms : std::int64_t{std::max(sms / kGroup, 1)} * (std::min(sms, kGroup) / blocks);
  return std::min(all, std::int64_t{machine.usable / blocks});
}

}  // namespace

Split split(const FewRows& product, const Machine& machine) {
  Split best{1, 1, std::min<std::int64_t>(product.row_tiles * product.column_tiles, machine.usable)};
  const double even = static_cast<double>(product.row_tiles * product.column_tiles * product.steps) / machine.usable;
  double least = 0.0;
  for (int peers = 1; peers <= 2; ++peers) {
    if (peers > product.column_tiles) break;
    const std::int64_t tiles = product.row_tiles * div_up(product.column_tiles, peers);
    const double slow = std::max(1.0, (1.0 + product.rows_to_columns / peers) / kOfL2);
    for (int parts = 1; parts * peers <= machine.most_blocks; ++parts) {
      const std::int64_t most = most_clusters(parts * peers, machine);
      if (most == 0 || (parts > 1 && product.steps < parts * kFewestSteps)) break;
      const std::int64_t rounds = div_up(tiles, most);
      const double own = static_cast<double>(rounds * div_up(product.steps, parts));
      const double cost = slow * (even + kUneven * own) + (parts > 1 ? kExchange + kOfEachPart * parts : 0.0);
      if (least == 0.0 || cost < least) best = {parts, peers, std::min(tiles, most)}, least = cost;
    }
  }
  return best;
}

}  // namespace quern::ops::gemm
