// What the warp-specialised kernels take of shared memory; seen by the kernel and by the C++ that chooses its tiles.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "attention/params.cuh"

namespace q {

inline constexpr i32 kSpanBytes = 128;
QUERN_SHARED_CODE constexpr i32 spans_of(i32 dim) { return (dim + 63) / 64; }
// Static shared memory, at most: barriers, tasks and the schedule's scratch.
inline constexpr i32 kStaticBytes = 1024;
inline constexpr i32 kStreamStaticBytes = 3072;
// Dynamic shared memory: `tiles` tiles of queries, and `stages` blocks of keys and of values.
QUERN_SHARED_CODE constexpr i32 sm90_shared_bytes(i32 dim_k, i32 dim_v, i32 rows, i32 tiles, i32 block, i32 stages) {
  return (tiles * spans_of(dim_k) * rows + stages * block * (spans_of(dim_k) + spans_of(dim_v))) * kSpanBytes;
}
// Keys of a block that one copy brings: of a page, or of part of one.
QUERN_SHARED_CODE constexpr i32 box_keys(i32 page_size, i32 block) { return page_size < block ? page_size : block; }

// The decode kernel: kPipes warps copy, each to stages of its own of so many keys, which kReaders warps read in turn.
inline constexpr i32 kPipes = 4, kReaders = 2, kPipeKeys = 16, kMostStreamStages = 12;
inline constexpr i32 kStreamThreads = kPipes * (kReaders + 1) * 32;
// Rows of results that the warps join at once.
inline constexpr i32 kJoinedRows = 4;
QUERN_SHARED_CODE constexpr i32 stream_stage_bytes(i32 dim_k, i32 dim_v, i32 cache_bytes, bool token_scales) {
  return kPipeKeys * ((dim_k + dim_v) * cache_bytes + (token_scales ? 8 : 0));
}
QUERN_SHARED_CODE constexpr i32 stream_shared_bytes(i32 dim_k, i32 dim_v, i32 stages, i32 cache_bytes,
                                                    bool token_scales) {
  return kPipes * stages * stream_stage_bytes(dim_k, dim_v, cache_bytes, token_scales) +
         kPipes * kReaders * slot_size(kJoinedRows, dim_v) * 4;
}
// A lane reads the keys of a product as 16 bytes of every 64. Values of 8 bits it reads as 16 bytes of every 128, and
// as 8 of what is left.
QUERN_SHARED_CODE constexpr bool streams_take(i32 dim_k, i32 dim_v, i32 cache_bytes) {
  return dim_k * cache_bytes % 64 == 0 && dim_v * cache_bytes % 64 == 0 && dim_v % 32 == 0;
}

}  // namespace q
