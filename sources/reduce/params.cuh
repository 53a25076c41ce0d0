// The run-time arguments of reduce, and the constants that its kernels and the library name alike.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/divisor.cuh"
#include "common/types.cuh"

namespace q {

enum class Reduction : u8 { sum, mean, max, min, argmax, argmin, l2, dot, logsumexp, any, all, none };

inline constexpr i32 kReduceDims = 6;
inline constexpr i32 kReduceResults = 4;
inline constexpr i32 kReduceThreads = 256;  // of a block, in every way but that of few elements, which has
inline constexpr i32 kReduceFewThreads = 128;
inline constexpr i32 kFewPieces = 8;     // of a row, which a thread joins
inline constexpr i32 kManyPieces = 128;  // more of a row than these are joined by a block, fewer by a warp

inline constexpr i32 kReduceOnce = 1, kReduceOneByOne = 2;

// Dimensions are listed from the one on that is innermost in x; strides are in elements.
struct ReducedDim {
  Divisor extent;
  i64 x, y;
};
struct KeptDim {
  Divisor extent;
  i64 x, y, out[kReduceResults];
};

// Arguments are fetched line by line, of 64 bytes from 16 bytes before the first of them on: what every block needs is
// in one, and each kept dimension has one.
struct ReduceParams {
  const void* x;
  void* out;
  i32 rows;  // results
  // By rows the innermost reduced dimension is a segment of a row; `run` are its elements, `steps` the vectors that it
  // is taken in, the segments together having `length` of these. By columns length counts what is reduced.
  i32 length;
  // By rows that are of whole vectors and lie evenly: kReduceOnce where there are as many blocks as they need,
  // kReduceOneByOne where these go from one row, or piece, to the next; else 0.
  i32 brief;
  i32 pieces;  // of length
  f32 count;   // elements of a row
  i32 kept_dims;
  const void* y;

  KeptDim kept[kReduceDims];
  ReducedDim reduced[kReduceDims];

  void* others[kReduceResults - 1];  // further results
  void* partial;                     // [rows, pieces] states
  i64 run;
  Divisor steps;
  i32 piece;  // of length, each but the last
  Divisor by_pieces;
  i32 reduced_dims;
  i32 aligned;  // all vectors are: by columns y's too, by rows at both ends of every segment
  f32 scalars[8];
};

}  // namespace q
