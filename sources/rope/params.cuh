// How heads are turned: what the library computes once a call, and the kernels read.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/types.cuh"

namespace q {

inline constexpr i32 kMostPairs = 128;  // dimensions that are turned come in pairs

struct Rope {
  f32 factor;         // of cosines and sines
  const void* table;  // [positions, 2 pairs]: cosines, then sines; null where they are computed
  i64 table_stride;   // elements
  i64 table_positions;
  u64 frequency[kMostPairs];  // turns of each pair from one position to the next, in units of 2^-64
};

}  // namespace q
