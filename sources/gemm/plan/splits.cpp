// SPDX-License-Identifier: Apache-2.0
#include "sources/gemm/plan/splits.h"

#include <algorithm>

#include "sources/clusters.h"

namespace quern::ops::gemm {
namespace {

// The fewest k blocks of a block.
constexpr std::int64_t kFewestKBlocks = 2;

std::int64_t div_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

}  // namespace

std::int64_t most_clusters_of(int blocks, const Machine& machine) {
  return std::min(ops::most_clusters(blocks, machine.sms), std::int64_t{machine.usable / blocks});
}

std::optional<Split> split_into(int parts, int peers, const Tiles& tiles, const Machine& machine) {
  if (parts < 1 || peers < 1 || peers > kMostColumnPeers || peers > tiles.columns ||
      parts * peers > machine.most_blocks)
    return {};
  if (parts > 1 && tiles.k_blocks < parts * kFewestKBlocks) return {};
  const std::int64_t most = most_clusters_of(parts * peers, machine);
  if (most == 0) return {};
  return Split{parts, peers, std::min(tiles.rows * div_up(tiles.columns, peers), most)};
}

}  // namespace quern::ops::gemm
