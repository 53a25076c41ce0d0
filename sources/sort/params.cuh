// The run-time arguments of sort's kernels.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/divisor.cuh"

namespace q {

inline constexpr i32 kDigits = 256;       // of 8 bits
inline constexpr i32 kSortThreads = 512;  // of a tile's block
inline constexpr i32 kMostSortGroup = 8;
inline constexpr i32 kFewKeys = 128;  // and up to so many are a warp's, which compares them

struct SortParams {
  const void* keys;
  void* keys_out;      // may be null: not wanted
  const void* values;  // null: where in its segment each key stands
  void* values_out;
  const i32* offsets;  // null: segments are rows of n
  u32* counts;         // [digits][tiles]: how often; then, how often in the tiles before of the same segment
  u32* totals;         // [segments][digits]
  i64 keys_stride, keys_out_stride, values_stride, values_out_stride;  // elements between rows
  i32 segments, n;
  i32 tiles;          // of all segments
  i32 tile;           // keys of one
  Divisor row_tiles;  // without offsets: tiles of a row
  i32 group;          // tiles that a block counts
  i32 shift;          // of the digit
  i32 descending;
};

}  // namespace q
