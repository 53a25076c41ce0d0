// What the warp-specialised kernel takes of shared memory; seen by the kernel and by the C++ that chooses its tiles.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "attention/params.cuh"

namespace q {

inline constexpr i32 kSpanBytes = 128;
QUERN_SHARED_CODE constexpr i32 spans_of(i32 dim) { return (dim + 63) / 64; }
// Static shared memory, at most: barriers, tasks and the schedule's scratch.
inline constexpr i32 kStaticBytes = 1024;
// Dynamic shared memory: `tiles` tiles of queries, and `stages` blocks of keys and of values.
QUERN_SHARED_CODE constexpr i32 sm90_shared_bytes(i32 dim_k, i32 dim_v, i32 rows, i32 tiles, i32 block, i32 stages) {
  return (tiles * spans_of(dim_k) * rows + stages * block * (spans_of(dim_k) + spans_of(dim_v))) * kSpanBytes;
}
// Keys of a block that one copy brings: of a page, or of part of one.
QUERN_SHARED_CODE constexpr i32 box_keys(i32 page_size, i32 block) { return page_size < block ? page_size : block; }

}  // namespace q
