// The run-time arguments of scatter.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/divisor.cuh"
#include "common/integers.cuh"

namespace q {

inline constexpr i32 kScatterAtOnce = 4;    // chunks that a thread has on their way
inline constexpr u32 kNoRow = 0x7fffffffu;  // what is passed over, among rows that are sorted
inline constexpr i32 kScatterThreads = 256;
inline constexpr i32 kScatterPiece = 64;  // rows of one place that are added by one thread after the other

struct ScatterParams {
  const u8* x;
  u8* out;
  i64 x_stride, out_stride;  // bytes between rows
  Integers ids;
  i64 first, rows;  // out's
  i64 padding;
  u32* sorted;     // [count]: the rows of out that x's go to, ascending; null: as ids are
  i32* positions;  // [count]: which of x's they are
  f32* sums;       // [2 count / piece, n]: of the pieces of places that have more than one
  i32 count;
  i32 pads;        // `padding` counts
  i32 chunks_all;  // of all rows
  Divisor chunks;  // of a row
  f32 scale;
};

// The row of out that row i of x goes to; -1: none.
QUERN_SHARED_CODE inline i64 row_of_id(const ScatterParams& p, i64 i) {
  const i64 id = integer_at(p.ids, i), row = id - p.first;
  return row < 0 || row >= p.rows || (p.pads && id == p.padding) ? -1 : row;
}

}  // namespace q
