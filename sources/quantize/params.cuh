// The run-time arguments of quantize, and the constants that its kernels and the library name alike.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/types.cuh"

namespace q {

enum class Front : u8 { none, rmsnorm, layernorm, silu_mul, gelu_mul, gelu_tanh_mul };
// What a kernel does about the scale. A tensor's is found by one launch, `find`, and then given to another.
enum class Scale : u8 { none, given, find, token, group, block };

inline constexpr i32 kGroupColumns = 128;  // that share a scale in a group
inline constexpr i32 kBlockRows = 128;     // that share one in a block, beside its 128 columns

// Strides in elements.
struct QuantizeParams {
  const void* x;         // [rows, n], in front of a product [rows, 2n]
  void* out;             // [rows, n]
  f32* scale;            // [1], [rows], [rows, groups] or [blocks, groups]
  const void* residual;  // [rows, n]
  void* residual_out;    // may be null
  const void* weight;    // [n]
  const void* bias;      // [n]
  void* dense;           // may be null
  u32* counters;  // `find` only: blocks that have finished, and the bits of the largest magnitude. Zero in between
  i64 x_stride, out_stride, residual_stride, residual_out_stride, dense_stride;
  i64 scale_stride_row, scale_stride_group;
  i32 rows;
  i32 n;
  f32 eps;
  f32 weight_offset;  // 1 where norms multiply by 1 + weight
  i32 power_of_two;
  i32 rehearses;  // blocks go through their work once on no row, while the launch before still runs
};

}  // namespace q
