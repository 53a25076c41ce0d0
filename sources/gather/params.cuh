// The run-time arguments of gather.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/divisor.cuh"
#include "common/integers.cuh"

namespace q {

inline constexpr i32 kGatherAtOnce = 2;  // chunks that a thread has on their way at most

struct GatherParams {
  const u8* table;
  u8* out;
  i64 table_stride, out_stride;  // bytes between rows
  Integers ids;
  i64 first, rows;  // the table's
  i64 padding;
  i32 pads;        // `padding` counts
  i32 chunks_all;  // of all results
  i32 tile;        // of a block
  i32 single;      // each thread of the grid, of blocks of `tile`, has one at most
  Divisor chunks;  // of a row
  f32 scale;
};

}  // namespace q
