// The run-time arguments of moe_combine.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/types.cuh"

namespace q {

// Strides in elements, from row to row.
struct MoeCombineParams {
  const void* x;         // [rows, n]
  const i32* positions;  // [tokens, top_k]
  const f32* weights;    // [tokens, top_k]; may be null
  const void* add;       // [tokens, n]; may be null, may be out
  void* out;             // [tokens, n]
  i64 x_stride, positions_stride, weights_stride, add_stride, out_stride;
  i32 rows, tokens, top_k, n;
};

}  // namespace q
