// The run-time arguments of norm_backward's two launches, and the constants that they and the library name alike.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/types.cuh"

namespace q {

// Sums over rows are those of this many parts of them at most, whatever the device: their order is a matter of the
// number of rows alone.
inline constexpr i32 kNormParts = 256;
inline constexpr i32 kNormSumColumns = 32;  // that a block of the second launch takes,
inline constexpr i32 kNormSumThreads = 256;
inline constexpr i32 kNormAloneRounds = 3;  // rounds of rows up to which one block goes through all of them

// Strides in elements.
struct NormBackwardParams {
  const void* dout;    // [rows, n]
  const void* x;       // [rows, n]
  const void* weight;  // [n]
  const void* add;     // [rows, n]
  void* dx;            // [rows, n]; may be null
  // [parts, n] f32; of a kernel for a single part [n], the gradients themselves. Either may be null.
  void* dweight;
  void* dbias;
  i64 dout_stride, x_stride, add_stride, dx_stride;
  i32 rows;
  i32 n;
  i32 parts, each;  // of the rows, and how many each has but for the last one
  f32 eps;
  f32 weight_offset;  // 1 where the norm multiplied by 1 + weight
};

struct NormSumsParams {
  const f32* dweight;  // [parts, n]; may be null
  const f32* dbias;    // [parts, n]; may be null
  void* dweight_out;   // [n]
  void* dbias_out;     // [n]
  i32 parts;
  i32 n;
};

}  // namespace q
