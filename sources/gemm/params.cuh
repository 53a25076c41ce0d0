// The run-time parameters of a matrix product kernel. Included by the library too.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/divisor.cuh"

namespace q {

inline constexpr i32 kMaxOperands = 8;
inline constexpr i32 kMaxScalars = 8;
inline constexpr i32 kMaxExperts = 1024;  // groups of a grouped product

// The bits of enum quern_group_status.
inline constexpr i32 kBadOffsets = 1, kBadCapacity = 2, kBadIndex = 4;

// An operand of the epilogue, as a view of [group, row, column]. Strides are in elements, 0 along a dimension that the
// operand does not depend on.
struct GemmOperand {
  const void* data;
  i64 group, row, column;
  u32 vectors;  // eight neighbouring columns may be read 16 bytes at a time
  u32 unused;
};

// GemmParams::flags: b may be read before the previous grid has finished; each group has its own matrix a; each group
// has its own matrix b.
inline constexpr u32 kConstantB = 1, kGroupsOfA = 2, kGroupsOfB = 4;

// out[g] = epilogue(a[g] b[g]^T). Groups are the matrices of a batch or the experts of a grouped product. Strides are
// in elements.
//
// Hopper reads parameters by lines of 64 bytes, of which the first has room for 48, and a multiprocessor takes 100 to
// 300 cycles for each line that it has not read yet. So the first line has what finds a block's first tile, the second
// what is seldom needed for that and the shape of clusters, the third what block scales are found by, the fourth where
// results go.
struct GemmParams {
  i32 k;
  i32 m;      // rows of a group, at most
  i32 tiles;  // in all groups, if their rows are known; tiles of cluster multicast peers count as one, as in tiles_m or
              // tiles_n
  i32 tiles_m;
  i32 groups;
  u32 flags;  // kConstantB and others; what fitted_flags() makes
  // Tiles are numbered in panels of panel_height rows of tiles, so that a and b of blocks that run at the same time
  // stay in L2. The last panel may be lower.
  Divisor panel_height;
  Divisor panel_tiles;  // tiles in a panel

  Divisor last_panel_height;
  Divisor group_tiles;  // tiles in a group
  Divisor parts;        // split-K: blocks of a cluster that divide a tile's k blocks
  i32 peers;        // cluster multicast: blocks that share copies of b (sm90/persistent.cuh) or of a (sm90/swap_ab.cuh)
  u32 whole_tiles;  // 0: stream-K, the k blocks of all tiles (or of the last wave) are divided evenly among blocks. 1:
                    // tiles are whole
  i32 tiles_n;
  i64 a_group, b_group;

  const f32* scale_a;  // one for each row (stride 0: one for all rows), or one for each row and 128 of k
  const f32* scale_b;
  i64 scale_a_group, scale_a_row, scale_a_k;
  i64 scale_b_group, scale_b_row, scale_b_k;  // with block scales scale_b_row is the stride of 128 columns

  void* out;  // [groups][m][columns]
  i64 out_group, out_row;
  i32 n;             // rows of b
  u32 out_vectors;   // out is aligned so that eight neighbouring columns can be written at once
  u32 out_mapped;    // out has a tensor map
  u32 power_of_two;  // scales of results are powers of two
  f32* out_scale;    // [groups][m][columns / 128]
  i64 out_scale_group, out_scale_row;

  i64 out_scale_column;
  const void* a;               // [groups][m][k], by strides; a contiguous grouped product has [rows][k]
  const void* b;               // [groups][n][k]
  i64 a_row, a_k, b_row, b_k;  // of each operand's row and k strides one is 1
  const i32* offsets;          // grouped, contiguous: [groups + 1]
  const i32* counts;           // grouped, masked: [groups]; null where there are offsets, by which kernels tell
  const i32* indices;          // grouped, contiguous: which row of a each row of out is made of; may be null
  i32* status;                 // may be null
  f32* partials;               // workspace: partial sums of tiles that several blocks contribute to
  u32* arrived;                // workspace: for each such tile the number of blocks that have written theirs
  GemmOperand operands[kMaxOperands];
  f32 scalars[kMaxScalars];
  i32 a_rows;         // rows of a that an index may name
  i32 out_rows;       // contiguous: rows of out
  Divisor row_tiles;  // tiles in a row of tiles
};

// Rows of a that one TMA copy of a dense tile brings, the height of its box. Rows that do not exist arrive as zeros,
// which takes TMA longer than rows that do; so a tile that has few rows is copied by low boxes, of which those without
// rows are left out. A box is a multiple of eight rows.
inline constexpr i32 kLowBox = 32;
QUERN_SHARED_CODE constexpr i32 box_rows(i32 m, i32 tile_m) {
  constexpr i32 kMostTiles = 8;  // with more of them the last one's rows do not matter
  if (m < tile_m) return static_cast<i32>((static_cast<u32>(m) + 7) / 8 * 8);
  return m % tile_m == 0 || m / tile_m >= kMostTiles ? tile_m : kLowBox;
}
// Rows that the boxes of a tile bring, of which `left` exist from its first on.
QUERN_SHARED_CODE constexpr i32 copied_rows(i32 left, i32 box, i32 tile_m) {
  if (left <= box) return box;
  const i32 rows = (left + (kLowBox - 1)) / kLowBox * kLowBox;
  return rows < tile_m ? rows : tile_m;
}
// Tiles of sm90/fitted.cuh have 128 rows of b and any multiple of 8 rows of a. These heights are divided among kernels,
// since the main loop exists once for each. `most` is a tile's rows of a at most.
inline constexpr i32 kFittedHeights = 30;
QUERN_SHARED_CODE constexpr i32 fitted_height(i32 i) { return 24 + 8 * i; }
QUERN_SHARED_CODE constexpr i32 fitted_least(i32 most) {
  return most <= 96 ? 48 : most <= 144 ? 104 : most <= 192 ? 152 : 200;
}
QUERN_SHARED_CODE constexpr i32 fitted_rows(i32 rows, i32 most) {
  if (rows < fitted_least(most)) return fitted_least(most);
  return rows > most ? most : (rows + 7) / 8 * 8;
}
// The launch says in GemmParams::flags how many rows and stages there are, and how many blocks of a cluster share
// copies of a (peers: 1, 2 or 4) and of b (twins: 1 or 2).
inline constexpr i32 kFittedShift = 8;
QUERN_SHARED_CODE constexpr u32 fitted_flags(i32 rows, i32 stages, i32 peers, i32 twins) {
  return static_cast<u32>(rows | stages << 12 | peers / 2 << 16 | (twins - 1) << 18) << kFittedShift;
}
QUERN_SHARED_CODE constexpr i32 fitted_rows_of(u32 flags) { return static_cast<i32>(flags >> kFittedShift & 0xfff); }
QUERN_SHARED_CODE constexpr i32 fitted_stages_of(u32 flags) {
  return static_cast<i32>(flags >> (kFittedShift + 12) & 0xf);
}
// Of both the logarithm to base 2.
QUERN_SHARED_CODE constexpr i32 fitted_peers_of(u32 flags) {
  return static_cast<i32>(flags >> (kFittedShift + 16) & 3);
}
QUERN_SHARED_CODE constexpr i32 fitted_twins_of(u32 flags) {
  return static_cast<i32>(flags >> (kFittedShift + 18) & 1);
}
// Rows of b that its copies bring.
QUERN_SHARED_CODE constexpr i32 fitted_first_rows(i32 n, i32 first) { return n < first ? (n + 7) / 8 * 8 : first; }

}  // namespace q
