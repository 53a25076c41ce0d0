// How many blocks of threads divide a tile of a dense product (split-K) or share copies (cluster multicast).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

namespace quern::ops::gemm {

struct Tiles {
  std::int64_t rows, columns, k_blocks;  // rows and columns of tiles, and the k blocks of each
};
struct Machine {
  int sms, usable;  // multiprocessors, and those that the call may use
  int most_blocks;  // blocks of a cluster, at most
};
struct Split {
  int parts = 1;  // split-K: blocks of a cluster that divide a tile's k blocks
  int peers = 1;  // cluster multicast: blocks with neighbouring tiles, for which rows are copied once
  std::int64_t clusters = 0;
};
// Peers in a cluster, at most.
inline constexpr int kMostColumnPeers = 2;
// How many clusters of so many blocks fit the device at once, as far as the call may use it.
std::int64_t most_clusters_of(int blocks, const Machine& machine);
// This split, or none where its cluster is too large or some of its blocks would have no work.
std::optional<Split> split_into(int parts, int peers, const Tiles& tiles, const Machine& machine);

}  // namespace quern::ops::gemm
