// How many blocks of threads divide a tile of few rows (split-K) or share copies (cluster multicast).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

namespace quern::ops::gemm {

// A product of few rows, bound by reading.
struct FewRows {
  std::int64_t row_tiles, column_tiles, k_blocks;
  double rows_to_columns;  // a's bytes of a k block divided by b's
};
struct Machine {
  int sms, usable;  // multiprocessors, and those that the call may use
  int most_blocks;  // blocks of a cluster, at most
};
struct Split {
  int parts = 1;  // split-K: blocks of a cluster that divide a tile's k blocks
  int peers = 1;  // cluster multicast: blocks with neighbouring tiles, for which rows are copied once
  std::int64_t clusters = 0;
  double microseconds = 0.0;  // the expected time
};
// The split that the model finds best.
Split split(const FewRows& product, const Machine& machine);

// Peers in a cluster, at most.
inline constexpr int kMostColumnPeers = 2;
// This split, or none where its cluster is too large or some of its blocks would have no work.
std::optional<Split> split_into(int parts, int peers, const FewRows& product, const Machine& machine);

}  // namespace quern::ops::gemm
