// The run-time arguments of pointwise.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/divisor.cuh"

namespace q {

inline constexpr int kMostDimensions = 6;
// Elements of a tile's side: of single elements, and of vectors.
QUERN_SHARED_CODE constexpr int span_side(int width) { return width > 1 ? 64 : 32; }
inline constexpr int kOperands = 8, kResults = 4, kScalars = 8;

// What is divided by, for index arithmetic of 64 bits and, as common/divisor.cuh has it, of 32.
struct PointwiseExtent {
  i64 value;
  u32 multiplier, shift;
};

// All tensors' strides along a dimension.
struct PointwiseStrides {
  Distance result, operands[kOperands], others[kResults - 1];
};

// Arguments are fetched line by line, of 64 bytes from 16 bytes before the first of them on: what every kernel needs is
// in one, what up to four operands along two dimensions need in the next. Strides in bytes, the innermost dimension
// first, which is 0.
struct PointwiseParams {
  u8* result;
  u8* operands[2];
  i64 vectors;  // in all
  i64 whole;    // along the innermost dimension, of full width
  i32 threads;  // of a block
  i32 single;   // each thread of the grid has one vector at most, and rows have a whole one

  u8* next_operands[2];
  PointwiseExtent innermost;                    // in vectors
  PointwiseStrides strides[kMostDimensions];    // of dimensions 1 to 5, then those of 0
  PointwiseExtent outers[kMostDimensions - 1];  // of dimensions from 1 on

  u8* results[kResults - 1];
  u8* last_operands[kOperands - 4];
  i64 tile;   // vectors that a block takes at a time; elements of a segment
  i64 inner;  // elements along the innermost dimension
  i64 outer;  // and along the next
  f32 scalars[kScalars];
  // For the places that an expression reads: of dimension d as the caller has it, its elements, and those of all
  // dimensions behind it.
  PointwiseExtent own[kMostDimensions], below[kMostDimensions];
};

QUERN_SHARED_CODE constexpr int strides_at(int dimension) {
  return (dimension + kMostDimensions - 1) % kMostDimensions;
}

}  // namespace q
