// What the warp-specialised kernels take of shared memory; seen by the kernel and by the C++ that chooses its tiles.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "attention/params.cuh"

namespace q {

inline constexpr i32 kSpanBytes = 128;
// Of rows of `dim` elements of so many bytes.
QUERN_SHARED_CODE constexpr i32 spans_of(i32 dim, i32 bytes) { return (dim * bytes + kSpanBytes - 1) / kSpanBytes; }
// Static shared memory, at most: barriers, tasks and the schedule's scratch.
inline constexpr i32 kStaticBytes = 1024;
inline constexpr i32 kStreamStaticBytes = 3072;
// Products of 8 bits: blocks of as many keys as a span has, and of their values so many turned ones, whose keys lie
// side by side.
inline constexpr i32 kTurnedKeys = 128, kTurnedStages = 2;
// Dynamic shared memory: `tiles` tiles of queries, `stages` blocks of keys and of values, and what is turned of these.
QUERN_SHARED_CODE constexpr i32 sm90_shared_bytes(i32 dim_k, i32 dim_v, i32 rows, i32 tiles, i32 block, i32 stages,
                                                  i32 bytes) {
  const i32 k = spans_of(dim_k, bytes), v = spans_of(dim_v, bytes);
  return (tiles * k * rows + stages * block * (k + v) + (bytes == 1 ? kTurnedStages * dim_v : 0)) * kSpanBytes;
}
// Blocks of codes on their way to what is multiplied: `copied` of keys and of values, and beside each of `stages`
// blocks the scales of its tokens.
QUERN_SHARED_CODE constexpr i32 sm90_code_bytes(i32 dim_k, i32 dim_v, i32 block, i32 copied, i32 stages,
                                                bool token_scales) {
  return copied * block * (spans_of(dim_k, 1) + spans_of(dim_v, 1)) * kSpanBytes +
         (token_scales ? stages * 2 * block * 4 : 0);
}
// The kernel for wide heads, in blocks of 64 keys: a tile of queries, weights of 64 rows and keys that warpgroups hand
// over, and stages of one span.
inline constexpr i32 kWideStaticBytes = 2048, kWideKeys = 64;
QUERN_SHARED_CODE constexpr i32 wide_sm90_shared_bytes(i32 dim_k, i32 rows, i32 stages) {
  const i32 handovers = rows == 128 ? 2 : 4;
  return (spans_of(dim_k, 2) * rows + handovers * 64 + stages * kWideKeys) * kSpanBytes;
}
// Keys of a block that one copy brings: of a page, or of part of one.
QUERN_SHARED_CODE constexpr i32 box_keys(i32 page_size, i32 block) { return page_size < block ? page_size : block; }

// The decode kernel: kPipes warps copy, each to stages of its own of so many keys, which kReaders warps read in turn.
inline constexpr i32 kPipes = 4, kReaders = 2, kPipeKeys = 16;
inline constexpr i32 kStreamThreads = kPipes * (kReaders + 1) * 32;
// Rows of results that the warps join at once.
inline constexpr i32 kJoinedRows = 8;
QUERN_SHARED_CODE constexpr i32 stream_stage_bytes(i32 dim_k, i32 dim_v, i32 cache_bytes, bool token_scales) {
  return kPipeKeys * ((dim_k + dim_v) * cache_bytes + (token_scales ? 8 : 0));
}
// As many stages as keep memory busy; more would only make their lines wait in L2.
QUERN_SHARED_CODE constexpr i32 stream_stages(i32 dim_k, i32 dim_v, i32 cache_bytes) {
  const i32 stages = (96 << 10) / (kPipes * stream_stage_bytes(dim_k, dim_v, cache_bytes, false));
  return stages < 4 ? 4 : stages > 12 ? 12 : stages / kReaders * kReaders;
}
// Results of all warps; twice where there is room, so that those of a piece are written while others are joined.
QUERN_SHARED_CODE constexpr i32 stream_buffer_bytes(i32 dim_v) {
  return kPipes * kReaders * slot_size(kJoinedRows, dim_v) * 4;
}
QUERN_SHARED_CODE constexpr i32 stream_result_buffers(i32 dim_k, i32 dim_v, i32 stages, i32 cache_bytes,
                                                      bool token_scales) {
  constexpr i32 kShared = 227 << 10;  // what a block of threads has on Hopper
  const i32 loop = kPipes * stages * stream_stage_bytes(dim_k, dim_v, cache_bytes, token_scales);
  return loop + 2 * stream_buffer_bytes(dim_v) + kStreamStaticBytes <= kShared ? 2 : 1;
}
QUERN_SHARED_CODE constexpr i32 stream_shared_bytes(i32 dim_k, i32 dim_v, i32 stages, i32 cache_bytes,
                                                    bool token_scales) {
  return kPipes * stages * stream_stage_bytes(dim_k, dim_v, cache_bytes, token_scales) +
         stream_result_buffers(dim_k, dim_v, stages, cache_bytes, token_scales) * stream_buffer_bytes(dim_v);
}
// A lane reads the keys of a product as 16 bytes of every 64. Values of 8 bits it reads as 16 bytes of every 128, and
// as 8 of what is left.
QUERN_SHARED_CODE constexpr bool streams_take(i32 dim_k, i32 dim_v, i32 cache_bytes) {
  return dim_k * cache_bytes % 64 == 0 && dim_v * cache_bytes % 64 == 0 && dim_v % 32 == 0;
}

}  // namespace q
