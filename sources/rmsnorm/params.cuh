// The run-time arguments of rmsnorm, and the constants that its kernel and the library name alike.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/types.cuh"

namespace q {

inline constexpr int kRmsnormVectors = 2;  // that a thread holds of a row at once

// Strides in elements.
struct RmsnormParams {
  const void* x;         // [rows, n]
  const void* residual;  // [rows, n]
  const void* weight;    // [n]
  void* out;             // [rows, n]
  void* residual_out;    // [rows, n]; may be null
  i64 x_stride, residual_stride, out_stride, residual_out_stride;
  i32 rows;
  i32 n;
  f32 eps;
  f32 weight_offset;    // 1 where the norm multiplies by 1 + weight
  i32 constant_weight;  // nothing that may still be running writes weight
  i32 rehearses;        // with constant_weight: blocks go through their work once on no row before they wait
};

}  // namespace q
