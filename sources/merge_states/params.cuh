// The run-time arguments of merge_states.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/divisor.cuh"

namespace q {

// Strides in elements.
struct MergeStatesParams {
  const void* parts;  // [count, rows, heads, dim]
  const f32* lses;    // [count, rows, heads]
  void* out;
  f32* lse;  // may be null
  i64 part_stride, part_stride_row, part_stride_head;
  i64 lses_stride, lses_stride_row, lses_stride_head;
  i64 out_stride_row, out_stride_head, lse_stride_row, lse_stride_head;
  i32 groups;  // of 8 elements, in all
  i32 count;   // parts
  Divisor heads;
  Divisor groups_per_row;
};

}  // namespace q
