// How a kernel for matrix products cuts its work: tiles, steps, stages, warps.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "jit/target.h"
#include "sources/gemm/plan/shape.h"

namespace quern::ops::gemm {

struct Tiling {
  int tile_m, tile_n;  // tile_n counts rows of b: with a gate, twice out's columns
  int step_k;          // elements
  int stages;
  int steps_of_a;        // of narrow and shared tiles: stages' worth of a, and of block scales, that there is room for
  int column_groups;     // of narrow and shared tiles: warpgroups side by side, each with columns of its own
  int warps_m, warps_n;  // of a team
  int teams = 1;         // of warps, each with stages and some of a tile's steps of its own
  int blocks_per_sm;
  bool shared;      // blocks of threads may share a tile by its steps of k
  bool continuous;  // the pipeline runs on from tile to tile
  int threads;
  std::uint32_t shared_bytes;
  int most_parts = 8;  // blocks of a cluster that may share a tile, by the room for each other's sums

  int out_tile_n(bool gate) const { return gate ? tile_n / 2 : tile_n; }
  std::uint64_t sums_bytes() const {
    return std::uint64_t{4} * static_cast<unsigned>(tile_m) * static_cast<unsigned>(tile_n);
  }
};

// None where the target has no room for the variant and a pipeline.
std::optional<Tiling> tile(const Shape& shape, const jit::TargetInfo& target);

}  // namespace quern::ops::gemm
