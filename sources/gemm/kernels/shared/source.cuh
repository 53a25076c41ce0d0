// The rows of a and b that a tile is computed from.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gemm/kernels/shared/tile.cuh"

namespace q {

// The row of a for row `line` of the tile; -1 if there is none.
QUERN_DEVICE i32 source_row(const GemmParams& p, const Work& work, i32 line) {
  const i32 row = work.row + line;
  if (row >= work.rows) return -1;
  if constexpr (kGrouping == kContiguous) {
    i32 from = static_cast<i32>(work.first_row) + row;
    if (p.indices) from = p.indices[from];
    return from >= 0 && from < p.a_rows ? from : -1;
  }
  return row;
}
// The row of b for column `line` of the tile; -1 if there is none. With a gate the second half of the tile's columns is
// the up half.
QUERN_DEVICE i32 source_column(const GemmParams& p, const Work& work, i32 line) {
  const i32 half = kGate && line >= kOutTileN ? 1 : 0;
  const i32 column = work.column + line - half * kOutTileN, columns = kGate ? p.n / 2 : p.n;
  return column < columns ? column + half * columns : -1;
}

// The group's coordinate in a tensor map. A matrix that all groups share is the only one in its map.
QUERN_DEVICE i32 group_of_a(const GemmParams& p, const Work& work) {
  return (p.flags & kGroupsOfA) != 0 ? work.group : 0;
}
// Rows of experts that follow one another are those of one matrix.
QUERN_DEVICE i32 group_of_out(const GemmParams& p, const Work& work) {
  return kGrouping == kContiguous && !p.counts ? 0 : work.group;
}
QUERN_DEVICE i32 group_of_b(const GemmParams& p, const Work& work) {
  return (p.flags & kGroupsOfB) != 0 ? work.group : 0;
}

}  // namespace q
