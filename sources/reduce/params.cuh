// The run-time arguments of reduce, and the constants that its kernels and the library name alike.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/divisor.cuh"
#include "common/types.cuh"

namespace q {

enum class Reduction : u8 { sum, mean, max, min, argmax, argmin, l2, dot, logsumexp, any, all, none };

inline constexpr i32 kReduceDims = 6;
inline constexpr i32 kReduceResults = 4;
inline constexpr i32 kReduceThreads = 256;  // of a block, in every way
inline constexpr i32 kFewPieces = 8;        // of a row, which a thread joins
inline constexpr i32 kManyPieces = 128;     // more of a row than these are joined by a block, fewer by a warp

// Dimensions are listed from the one on that is innermost in x; strides are in elements.
struct ReducedDim {
  Divisor extent;
  i64 x, y;
};
struct KeptDim {
  Divisor extent;
  i64 x, y, out[kReduceResults];
};

// What every block needs comes first: arguments are fetched line by line.
struct ReduceParams {
  const void* x;
  const void* y;
  void* out[kReduceResults];
  void* partial;  // [rows, pieces] states
  // By rows the innermost reduced dimension is a segment of a row; `run` are its elements, `steps` the vectors that it
  // is taken in, the segments together having `length` of these. By columns length counts what is reduced.
  i64 run;
  Divisor steps;
  i32 rows;  // results
  i32 length;
  i32 piece, pieces;  // of length, each but the last; and how many there are
  i32 kept_dims, reduced_dims;
  i32 brief;    // by rows: they are of whole vectors and lie evenly, and there are as many blocks as they need
  i32 aligned;  // all vectors are: by columns y's too, by rows at both ends of every segment
  f32 count;    // elements of a row
  KeptDim kept[kReduceDims];
  ReducedDim reduced[kReduceDims];
  f32 scalars[8];
};

}  // namespace q
