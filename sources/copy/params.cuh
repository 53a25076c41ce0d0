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

// The innermost dimension counts elements, its extent vectors. The outermost's is not needed.
struct CopyDim {
  Distance from, to;
  CopyExtent extent;
};

// Dimensions the innermost first.
struct CopyPart {
  const u8* from;  // null: filled
  u8* to;
  i64 vectors;   // in all
  i64 whole;     // along the innermost dimension, of full width
  i32 repeated;  // one element is read for all along the innermost dimension
  i32 left;      // elements along it behind the last whole vector
  CopyDim dims[kCopyDimensions];
};

// As many parts as the kernel is made for are passed. Arguments are fetched line by line, of 64 bytes from 16 bytes
// before the first of them on: what every block needs of a part is in one, and a line has two dimensions.
struct CopyParams {
  i32 tile;    // vectors that a block takes at a time
  i32 single;  // each thread of the grid, of blocks of `tile`, has one vector at most, no part is filled, and each part
               // has a whole vector in its rows
  CopyPart first;
  i64 tiles;                   // of all parts
  u64 fill;                    // an element's bits
  i64 first_tile[kCopyParts];  // tiles of the parts before each
  CopyPart others[kCopyParts - 1];
};

inline constexpr int kCopySide = 32;  // of a tile of few elements, along both dimensions

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

// Where a tile's outer dimensions begin on both sides, and its numbers along k and l.
struct TilePlace {
  const u8* from;
  u8* to;
  i32 k, l;
};
template <int outer_dims>
QUERN_SHARED_CODE constexpr TilePlace place_of_tile(const TransposeParams& p, i32 number) {
  const i32 rest = number / p.tiles_k;
  i32 left = rest / p.tiles_l;
  TilePlace place{p.from, p.to, number - rest * p.tiles_k.value, rest - left * p.tiles_l.value};
  for (int d = 0; d < outer_dims; ++d) {
    const i32 next = left / p.outer[d];
    const i64 at = left - next * p.outer[d].value;
    place.from += at * p.from_outer[d], place.to += at * p.to_outer[d];
    left = next;
  }
  return place;
}

}  // namespace q
