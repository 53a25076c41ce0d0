// How a matrix product kernel divides its work: tile, k block, stages, warps.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "jit/target.h"
#include "sources/gemm/plan/shape.h"

namespace quern::ops::gemm {

struct Tiling {
  int tile_m, tile_n;  // tile_n counts rows of b: with a gate, twice out's columns
  int block_k;         // elements
  int stages;
  int stages_of_a;       // small_m, split_k: k blocks of a, and of block scales, that there is room for
  int column_groups;     // small_m, split_k: warpgroups with different columns of the tile
  int warps_m, warps_n;  // warps of a team
  int teams = 1;         // sliced_k: teams of warps with stages and k blocks of their own
  int blocks_per_sm;
  bool stream_k;    // several blocks of threads may contribute to a tile, through the workspace
  bool continuous;  // the pipeline runs on from tile to tile
  int threads;
  std::uint32_t shared_bytes;
  int most_parts = 8;  // split-K parts of a tile, at most, by the room for received sums
  int stage_room = 0;  // fitted: bytes that stages have, whose number depends on a tile's rows

  // The stages of a tile of fewer rows.
  int stages_of(int rows) const { return std::min(stages, stage_room / ((rows + tile_n) * 128)); }
  int out_tile_n(bool gate) const { return gate ? tile_n / 2 : tile_n; }
  std::uint64_t sums_bytes() const {
    return std::uint64_t{4} * static_cast<unsigned>(tile_m) * static_cast<unsigned>(tile_n);
  }
};

// No tiling where the target has no room for the variant and a pipeline.
std::optional<Tiling> tile(const Shape& shape, const jit::TargetInfo& target);

}  // namespace quern::ops::gemm
