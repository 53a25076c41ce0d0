// How many blocks of threads share a tile of few rows.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

namespace quern::ops::gemm {

// A product whose pace reading sets.
struct FewRows {
  std::int64_t row_tiles, column_tiles, steps;
  double rows_to_columns;  // a's bytes of a step to b's
};
struct Machine {
  int sms, usable;  // multiprocessors, and those that the call may use
  int most_blocks;  // of a cluster
};
struct Split {
  int parts = 1;  // blocks of a cluster that share a tile, each with so many of its steps
  int peers = 1;  // blocks of a cluster with tiles side by side, for which rows are copied once
  std::int64_t clusters = 0;
  double microseconds = 0.0;  // that the model expects it to take
};
// What the model takes.
Split split(const FewRows& product, const Machine& machine);

// Blocks of a cluster with tiles side by side: one or two.
inline constexpr int kMostColumnPeers = 2;
// This split; none where a cluster of it is too large, or some of its blocks would be left without work.
std::optional<Split> split_into(int parts, int peers, const FewRows& product, const Machine& machine);

}  // namespace quern::ops::gemm
