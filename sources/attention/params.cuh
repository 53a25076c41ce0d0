// The run-time arguments of the attention kernels: one struct, shared by the kernels and by the C++ that fills it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/types.cuh"

namespace q {

// Strides in elements, but for those of the cache. Pointers are on the device; those that do not apply are null.
struct AttentionParamsOfAll {
  const void* queries;  // [total_q, heads, HEAD_DIM_K]
  const void* keys;     // [pages, page_size, kv_heads, HEAD_DIM_K] or [total_kv, kv_heads, HEAD_DIM_K]
  const void* values;
  void* out;                // [total_q, heads, HEAD_DIM_V]
  f32* lse;                 // [total_q, heads]
  const i32* lengths;       // [batch]
  const i32* cu_q;          // [batch + 1]; null: one query a sequence
  const i32* pages;         // a page table's rows, or the indices that page_indptr points into
  const i32* page_indptr;   // [batch + 1]; null: rows of `pages_stride`
  const i32* cu_kv;         // [batch + 1], ragged only
  const f32* alibi_slopes;  // [heads]
  const f32* sinks;         // [heads]
  const f32* q_scale;       // of queries of 8 bits; null: 1
  const f32* k_scale;       // of a cache of 8 bits; null: 1
  const f32* v_scale;
  const u8* mask;          // rows of bits
  const i32* mask_indptr;  // [batch + 1], bytes
  const i32* mask_keys;    // [batch]
  f32* partials;           // slots of slot_floats each
  u32* counters;           // zero between launches
  i64 q_stride_token, q_stride_head;
  i64 k_stride_head, v_stride_head;  // bytes
  u32 k_page_bytes, k_token_bytes;   // strides in bytes: a 32-bit multiplier with a 64-bit product is one instruction
  u32 v_page_bytes, v_token_bytes;
  i64 out_stride_token, out_stride_head;
  i64 lse_stride_token, lse_stride_head;
  i64 pages_stride;
  i64 q_scale_stride_token, q_scale_stride_head;
  // A scale of the tensor or of a head has strides of 0 for pages and tokens, that of the tensor for heads too.
  i64 k_scale_stride_page, k_scale_stride_token, k_scale_stride_head;
  i64 v_scale_stride_page, v_scale_stride_token, v_scale_stride_head;
  i32 batch;
  i32 kv_heads;
  i32 page_size;
  i32 window_left;   // keys j >= position - window_left; kUnbounded: all
  i32 window_right;  // keys j <= position + window_right; 0 is causal
  i32 slot_rows;     // no tile has more rows in use
  i32 slot_floats;   // slot_size(slot_rows, HEAD_DIM_V)
  i32 parts;         // blocks that share the work when it is split
  i32 invariant;     // split each sequence by its own length only
  f32 scale;         // of q.k, with log2(e) in it unless there is a cap
  f32 cap;
  i32 side_by_side;   // of parts: as many as are a multiple of the heads, where there are so many
  i32 constant_past;  // what lies in front of this call's tokens, and where, may be read before the launch before ends
};
struct AttentionParams : AttentionParamsOfAll {
  // Of results of 8 bits: kernels of others need not read these, which take a line of parameters of their own.
  f32* out_scale;
  i64 out_scale_stride_token, out_scale_stride_group;
};

// Results of 8 bits share a scale by so many of a head.
inline constexpr i32 kScaleGroup = 128;

inline constexpr i32 kUnbounded = 0x3fffffff;
// A batch-invariant split cuts the tiles of one KV head of a sequence into no more pieces than this.
inline constexpr i32 kInvariantPieces = 16;

// Elements from row to row in shared memory: whole steps of 16, and an odd number of 16 bytes, so that eight rows lie
// in different banks.
QUERN_SHARED_CODE constexpr i32 shared_pitch(i32 dim) { return ((dim + 15) / 16 * 2 | 1) * 8; }

// f32 from row to row of a partial result: eight rows lie in different banks of shared memory.
QUERN_SHARED_CODE constexpr i32 slot_pitch(i32 dim_v) { return dim_v + 8; }
// f32 of a partial result: `rows` rows, then their maxima and sums, in whole 16 bytes.
QUERN_SHARED_CODE constexpr i32 slot_size(i32 rows, i32 dim_v) { return (rows * (slot_pitch(dim_v) + 2) + 3) / 4 * 4; }

// A cache's rows as they are copied to shared memory: of 16 bits as they are multiplied; of 8 bits (`cache_bytes` 1) as
// they lie, in whole 16 bytes, to be widened from there.
QUERN_SHARED_CODE constexpr i32 cached_row_bytes(i32 dim, i32 cache_bytes) {
  return cache_bytes == 1 ? (dim + 15) / 16 * 16 : shared_pitch(dim) * 2;
}
// `keys` keys and values, and behind those of 8 bits their scales, which only some kernels use.
QUERN_SHARED_CODE constexpr i32 stage_bytes(i32 dim_k, i32 dim_v, i32 keys, i32 cache_bytes) {
  return keys * (cached_row_bytes(dim_k, cache_bytes) + cached_row_bytes(dim_v, cache_bytes)) +
         (cache_bytes == 1 ? keys * 8 : 0);
}
// Where keys and values of 8 bits go when they are widened.
QUERN_SHARED_CODE constexpr i32 widened_bytes(i32 dim_k, i32 dim_v, i32 keys, i32 cache_bytes) {
  return cache_bytes == 1 ? keys * (shared_pitch(dim_k) + shared_pitch(dim_v)) * 2 : 0;
}

// Bytes of one warp's stages in the decode kernel, where its results go afterwards.
QUERN_SHARED_CODE constexpr i32 decode_warp_bytes(i32 dim_k, i32 dim_v, i32 stages, i32 cache_bytes) {
  const i32 copies = stages * stage_bytes(dim_k, dim_v, 16, cache_bytes) + widened_bytes(dim_k, dim_v, 16, cache_bytes);
  const i32 results = slot_size(16, dim_v) * 4;
  return copies > results ? copies : results;
}
QUERN_SHARED_CODE constexpr i32 decode_shared_bytes(i32 dim_k, i32 dim_v, i32 warps, i32 stages, i32 cache_bytes) {
  return 16 * shared_pitch(dim_k) * 2 + warps * decode_warp_bytes(dim_k, dim_v, stages, cache_bytes);
}
// Queries, stages and a few bytes beside them of the prefill kernel; its results go to the same place.
inline constexpr i32 kSourceBytes = 48;
QUERN_SHARED_CODE constexpr i32 prefill_shared_bytes(i32 dim_k, i32 dim_v, i32 rows, i32 block, i32 stages,
                                                     i32 cache_bytes) {
  const i32 loop = rows * shared_pitch(dim_k) * 2 + widened_bytes(dim_k, dim_v, block, cache_bytes) +
                   stages * stage_bytes(dim_k, dim_v, block, cache_bytes) + kSourceBytes;
  const i32 results = slot_size(rows, dim_v) * 4;
  return loop > results ? loop : results;
}

// The kernel for wide heads: warps that share rows stand in teams, and share out keys and columns among themselves.
inline constexpr i32 kTeamWarps = 4;
// Of one warp's results, `columns` at a time.
QUERN_SHARED_CODE constexpr i32 wide_result_bytes(i32 rows, i32 columns) { return slot_size(rows, columns) * 4; }
// Where the keys and values of two blocks lie.
QUERN_SHARED_CODE constexpr i32 wide_places_bytes(i32 block) { return 2 * 2 * block * 8; }
// One stage: `columns` of the columns of a block of keys or values, and where queries are not held those of the
// queries.
QUERN_SHARED_CODE constexpr i32 wide_stage_bytes(i32 rows, i32 block, i32 columns, bool hold) {
  return (block + (hold ? 0 : rows)) * shared_pitch(columns) * 2;
}
QUERN_SHARED_CODE constexpr i32 wide_shared_bytes(i32 dim_k, i32 rows, i32 row_tiles, i32 block, i32 columns,
                                                  i32 stages, bool hold) {
  const i32 beside = wide_places_bytes(block) + rows * shared_pitch(block) * 2 + kTeamWarps * rows * 4;
  const i32 loop = (hold ? rows * shared_pitch(dim_k) * 2 : 0) + stages * wide_stage_bytes(rows, block, columns, hold);
  const i32 warps = rows / (16 * row_tiles) * kTeamWarps;
  const i32 results = warps * wide_result_bytes(16 * row_tiles, columns / kTeamWarps);
  return beside + (loop > results ? loop : results);
}

}  // namespace q
