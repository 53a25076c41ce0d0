// The run-time arguments of the kernel of quantized_gemm. Included by the library too.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gemm/params.cuh"

namespace q {

// Scales or zero points of an operand: of each line, or of each line and group of k. Strides are in elements, 0 where
// all lines share one.
struct QuantizedScales {
  const void* data;  // null: there are none
  i64 line, group;
};

// out = epilogue(a b^T). What a, b, out and the epilogue are stands in `product`, with a_row and b_row in bytes; it has
// no scales of its own.
struct QuantizedParams {
  GemmParams product;
  QuantizedScales scale_a, scale_b, zero_b;
  const f32* tensor_scale_a;  // null: 1
  const f32* tensor_scale_b;
};

}  // namespace q
