// The run-time arguments of copy.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/divisor.cuh"

namespace q {

inline constexpr int kCopyDimensions = 6, kCopyParts = 16;

// What is divided by, for index arithmetic of 64 bits and, as common/divisor.cuh has it, of 32.
struct CopyExtent {
  i64 value;
  u32 multiplier, shift;
};

// What every block needs comes first: arguments are fetched line by line. Strides in bytes, the innermost dimension
// first, which counts elements; of the extents it is in vectors, and the outermost is not needed.
struct CopyPart {
  const u8* from;  // null: filled
  u8* to;
  i64 vectors;     // in all
  i64 whole;       // along the innermost dimension, of full width
  i64 first_tile;  // tiles of the parts before this one
  i32 repeated;    // one element is read for all along the innermost dimension
  i32 left;        // elements along it behind the last whole vector
  i64 from_strides[kCopyDimensions], to_strides[kCopyDimensions];
  CopyExtent extents[kCopyDimensions - 1];
};

// As many parts as the kernel is made for are passed.
struct CopyParams {
  i64 tiles;   // of all parts
  i32 tile;    // vectors that a block takes at a time
  i32 single;  // no part is filled, and each thread of the grid has one vector at most
  u64 fill;    // an element's bits
  CopyPart parts[kCopyParts];
};

// k is contiguous in `from`, l in `to`; tiles are numbered k first, then l, then along the other dimensions.
struct TransposeParams {
  const u8* from;
  u8* to;
  i64 k, l;          // extents
  i64 from_l, to_k;  // bytes
  i32 tiles;
  Divisor tiles_k, tiles_l;
  Divisor outer[kCopyDimensions - 2];
  i64 from_outer[kCopyDimensions - 2], to_outer[kCopyDimensions - 2];
};

}  // namespace q
