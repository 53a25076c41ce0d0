// Chunks of rows, and which rows of x go to the same place.
//
// Where more than kScatterPiece rows go to one place, they are added in pieces, counted from the first of them: each
// piece by itself, then the pieces' sums to what out has. So the order of a place's sums depends on its own rows alone.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rope/vectors.cuh"
#include "scatter/params.cuh"

namespace q {

using To = TO;
inline constexpr int kWidth = WIDTH;  // elements of a chunk

QUERN_DEVICE To* chunk_of_out(const ScatterParams& p, i64 row, i32 chunk) {
  return reinterpret_cast<To*>(p.out + row * p.out_stride) + chunk * kWidth;
}

// Whether `i` is among the sorted rows and goes to `row`.
QUERN_DEVICE bool goes_to(const ScatterParams& p, i32 i, u32 row) {
  return i >= 0 && i < p.count && p.sorted[i] == row;
}
// The first that goes to a row not below `row`.
QUERN_DEVICE i32 first_of(const ScatterParams& p, u32 row) {
  i32 low = 0, high = p.count;
  QUERN_ROLLED while (low < high) {
    const i32 middle = (low + high) / 2;
    if (p.sorted[middle] < row) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

// Where the sum of the piece that begins at `i` is kept: pieces begin at least kScatterPiece apart, but for a place's
// last and the next one's first.
QUERN_DEVICE f32* sum_at(const ScatterParams& p, i32 i, u32 row, i32 chunk) {
  const i64 slot = i64{i / kScatterPiece} * 2 + (goes_to(p, i + kScatterPiece, row) ? 0 : 1);
  return p.sums + (slot * p.chunks.value + chunk) * kWidth;
}

}  // namespace q
