// The run-time arguments of merge_state.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/types.cuh"

namespace q {

// Strides in elements.
struct MergeStateParams {
  const void* out_a;  // [rows, heads, dim]
  const void* out_b;
  void* out;
  const f32* lse_a;  // [rows, heads]
  const f32* lse_b;
  f32* lse;  // may be null
  i64 a_stride_row, a_stride_head, b_stride_row, b_stride_head, out_stride_row, out_stride_head;
  i64 lse_a_stride_row, lse_a_stride_head, lse_b_stride_row, lse_b_stride_head, lse_stride_row, lse_stride_head;
  i64 groups;  // of 8 elements, in all
  i32 heads;
  i32 dim;
};

}  // namespace q
