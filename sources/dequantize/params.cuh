// The run-time arguments of dequantize, and the constants that its kernel and the library name alike.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/types.cuh"

namespace q {

inline constexpr int kDequantizeThreads = 256;
inline constexpr int kDequantizeVectors = 4;  // that a thread has under way at once

// x = code * scale[row / scale_rows, column / scale_columns]. Strides in elements.
struct DequantizeParams {
  const void* x;     // [rows, n]
  const f32* scale;  // null: 1
  void* out;         // [rows, n]
  i64 x_stride, out_stride, scale_stride_row, scale_stride_column;
  i32 rows;
  i32 n;
  i32 scale_rows;     // rows that share a scale
  i32 scale_columns;  // columns that do; a multiple of 128, or n
};

}  // namespace q
