// The run-time arguments of pointwise.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/divisor.cuh"

namespace q {

inline constexpr int kMostDimensions = 6;
// Elements of a tile's side: of single elements, and of vectors.
QUERN_SHARED_CODE constexpr int span_side(int width) { return width > 1 ? 64 : 32; }
inline constexpr int kOperands = 8, kResults = 4, kScalars = 8;

// What is divided by is there twice, for index arithmetic of 32 bits and of 64.
struct PointwiseExtent {
  i64 value;
  Divisor by;
};

// What every kernel needs comes first: arguments are fetched line by line. Strides in bytes, the innermost dimension
// first.
struct PointwiseParams {
  i64 vectors;  // in all
  i64 whole;    // along the innermost dimension, of full width
  i64 tile;     // vectors that a block takes at a time; elements of a segment
  i32 threads;  // of a block
  i32 single;   // each thread of the grid has one vector at most
  u8* results[kResults];
  u8* operands[kOperands];
  i64 inner;  // elements along the innermost dimension
  i64 outer;  // and along the next
  f32 scalars[kScalars];
  i64 result_strides[kResults][kMostDimensions];
  i64 operand_strides[kOperands][kMostDimensions];
  PointwiseExtent extents[kMostDimensions];  // the innermost in vectors
  // For the places that an expression reads: of dimension d as the caller has it, its elements, and those of all
  // dimensions behind it.
  PointwiseExtent own[kMostDimensions], below[kMostDimensions];
};

}  // namespace q
