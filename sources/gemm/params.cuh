// The run-time arguments of a matrix product. Known to the library as well.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/divisor.cuh"

namespace q {

inline constexpr i32 kMaxOperands = 8;
inline constexpr i32 kMaxScalars = 8;
inline constexpr i32 kMaxExperts = 1024;  // of a grouped product

// enum quern_group_status
inline constexpr i32 kBadOffsets = 1, kBadCapacity = 2, kBadIndex = 4;

// What an epilogue reads beside the accumulator, as a view of [group, row, column]. Strides in elements, 0 where it does not
// depend on one.
struct GemmOperand {
  const void* data;
  i64 group, row, column;
  u32 vectors;  // eight neighbouring columns may be read 16 bytes at a time
  u32 unused;
};

// b may be read before the grid before has finished; each group has a matrix a, or b, of its own.
inline constexpr u32 kConstantB = 1, kGroupsOfA = 2, kGroupsOfB = 4;

// out[g] = epilogue(a[g] b[g]^T). Groups are batches, or the experts of a grouped product. Strides in elements.
//
// Hopper reads parameters by lines of 64 bytes, of which the first has room for 48, and takes 100 to 300 cycles for each that a
// multiprocessor has not read yet. So what finds a block's first tile lies in the first, what seldom has a say there and how blocks of a
// cluster stand in the second, what block scales are found by in the third, where results go in the fourth.
struct GemmParams {
  i32 k;
  i32 m;      // the most rows of a group
  i32 tiles;  // of all groups, where their rows are known; those of peers count as one, here and in tiles_m or tiles_n
  i32 tiles_m;
  i32 groups;
  u32 flags;  // kConstantB and others
  // Tiles of m are taken in panels of so many together, so that their a and b stay in L2; the last panel may be lower.
  Divisor panel_height;
  Divisor panel_tiles;  // how many tiles a panel has

  Divisor last_panel_height;
  Divisor group_tiles;  // how many tiles a group has
  Divisor parts;        // blocks of a cluster that share a tile by its steps of k
  i32 peers;            // blocks of a cluster with operands in common: of b (warpgroups.cuh) or of a (swapped.cuh)
  u32 whole_tiles;      // 1: each tile is one block's. 0: blocks of threads share the k steps of all tiles evenly
  i32 tiles_n;
  i64 a_group, b_group;

  const f32* scale_a;  // one for each row (stride 0: for all), or for each row and 128 of k
  const f32* scale_b;
  i64 scale_a_group, scale_a_row, scale_a_k;
  i64 scale_b_group, scale_b_row, scale_b_k;  // with blocks, scale_b_row counts blocks of 128 columns

  void* out;  // [groups][m][columns]
  i64 out_group, out_row;
  i32 n;              // rows of b
  u32 out_vectors;    // eight neighbouring columns of out may be written at once
  u32 out_mapped;     // out may be written by its tensor map
  u32 power_of_two;   // out_scale
  f32* out_scale;     // [groups][m][columns / 128]
  i64 out_scale_group, out_scale_row;

  i64 out_scale_column;
  const void* a;  // [groups][m][k], by strides; a contiguous grouped product has [rows][k]
  const void* b;  // [groups][n][k]
  i64 a_row, a_k, b_row, b_k;  // of the row and k strides one is 1
  const i32* offsets;  // grouped, contiguous: [groups + 1]
  const i32* counts;   // grouped, masked: [groups]
  const i32* indices;  // grouped, contiguous: which row of a each row of out is made of; may be null
  i32* status;         // may be null
  f32* partials;       // workspace: the tiles that several blocks of threads share
  u32* arrived;        // workspace: a counter for each tile that is shared
  GemmOperand operands[kMaxOperands];
  f32 scalars[kMaxScalars];
  i32 a_rows;         // rows of a that an index may name
  i32 out_rows;       // contiguous: rows of out
  Divisor row_tiles;  // how many tiles a row of tiles has
};

// Rows of a that a tile of few columns copies, a box of its tensor map: whole groups of eight, and no more than there are.
QUERN_SHARED_CODE constexpr i32 small_m_rows(i32 m, i32 tile_m) { return m < tile_m ? static_cast<i32>((static_cast<u32>(m) + 7) / 8 * 8) : tile_m; }

}  // namespace q
