// The run-time arguments of top_k's kernels.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/types.cuh"

namespace q {

inline constexpr i32 kMostTopK = 2048;

struct TopKParams {
  const void* x;                            // [rows, n]
  const i32* lengths;                       // [rows]; may be null
  i32* ids;                                 // [rows, k]
  void* values;                             // [rows, k]; may be null
  i64 x_stride, ids_stride, values_stride;  // in elements
  i32 rows, n, k;
  i32 sorted, narrow_values;  // truth values; narrow: as x's elements
};

}  // namespace q
