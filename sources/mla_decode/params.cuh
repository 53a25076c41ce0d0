// The run-time arguments of the kernels of MLA decode: one struct, shared by the kernels and by the C++ that fills it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/divisor.cuh"
#include "common/types.cuh"

namespace q {

// An item that was cut into pieces, for the kernel that joins them. A count below 2: there is nothing to join.
struct MlaCut {
  i32 count;
  i32 first_slot;  // slot_of_piece() has the others
  i32 slot_step;
  i32 q_begin;    // the first query token of the item's sequence
  i32 rows;       // of the sequence: query tokens times heads
  i32 first_row;  // of the item, among them
};

// Pointers are on the device; those that do not apply are null. Strides are in elements unless they say bytes.
struct MlaParams {
  const void* q;       // [total_q, heads, D_LATENT]
  const void* q_rope;  // [total_q, heads, D_ROPE]
  const u8* latent;    // [pages, page_size, D_LATENT]
  const u8* rope;      // [pages, page_size, D_ROPE]
  const f32* cache_scale;
  void* out;               // [total_q, heads, D_LATENT]
  f32* lse;                // [total_q, heads]
  const i32* lengths;      // [batch]
  const i32* cu_q;         // [batch + 1]; null: one query a sequence
  const i32* pages;        // a page table's rows, or the indices that page_indptr points into
  const i32* page_indptr;  // [batch + 1]; null: rows of pages_stride
  const i32* indices;      // [total_q, top_k]
  const f32* sinks;        // [heads]
  u32* status;             // enum quern_mla_status is or-ed into it
  f32* partials;           // slots of slot_floats each
  u32* counters;           // zeros, of pairs of pieces; zeros again after every launch
  MlaCut* cuts;
  i64 q_stride_token, q_stride_head;
  i64 q_rope_stride_token, q_rope_stride_head;
  i64 out_stride_token, out_stride_head;
  i64 lse_stride_token, lse_stride_head;
  i64 latent_page_bytes, latent_token_bytes;
  i64 rope_page_bytes, rope_token_bytes;
  i64 scale_stride_page, scale_stride_token;
  i64 pages_stride, indices_stride;
  i32 batch;
  i32 heads;
  i32 total_q;
  i32 max_q_len;
  i32 page_size;
  i32 pool_pages;
  i32 listed_pages;  // entries of a row of the page table, or of all of page_indices
  i32 max_keys;      // of a sequence
  i32 top_k;
  i32 window_left;   // keys j >= position - window_left; kUnbounded: all
  i32 window_right;  // keys j <= position + window_right; 0 is causal
  i32 parts;         // runs of units that the work is cut into
  i32 side_by_side;  // tiles of rows that as many neighbouring blocks of threads take at the same time
  i32 most_groups;   // of a sequence: groups of that many tiles
  i32 most_pieces;   // of an item of a batch-invariant call; 1: it is never cut
  i32 joined;        // items of up to so many pieces are joined by the kernel that makes them: 1 (none) or 2
  i32 invariant;     // cut each sequence by its own length only
  i32 cut_count;     // entries of `cuts`
  i32 slot_floats;   // of a partial result: rows * (D_LATENT + 2)
  Divisor by_heads, by_page_size, by_parts, by_side;
  f32 scale;  // of q.k, with log2(e) in it unless there is a cap
  f32 cap;
};

inline constexpr i32 kUnbounded = 0x3fffffff;

// A batch-invariant call cuts a sequence of so many keys into this many pieces.
inline constexpr i32 kInvariantKeys = 4096;
inline constexpr i32 kInvariantPieces = 8;
QUERN_SHARED_CODE constexpr i32 invariant_pieces(i32 keys) {
  const i32 pieces = (keys + kInvariantKeys - 1) / kInvariantKeys;
  return pieces < 1 ? 1 : pieces < kInvariantPieces ? pieces : kInvariantPieces;
}

// f32 of a partial result: the rows' sums, not yet divided, then their maxima and the sums of their weights.
QUERN_SHARED_CODE constexpr i32 partial_floats(i32 rows, i32 d_latent) { return rows * (d_latent + 2); }

// What the portable kernel keeps in shared memory, in bytes and in this order: the queries, the keys as they are copied
// (each stage), the keys as numbers (quantised caches only: else a stage is that), logits, weights, and a few numbers a
// row and a key.
enum class CacheKind : i32 { plain, e4m3_tensor, e4m3_token, rows656 };
// Elements from row to row: an odd number of 16 bytes, so that eight rows lie in different banks.
QUERN_SHARED_CODE constexpr i32 tile_pitch(i32 columns) { return (columns / 8 | 1) * 8; }
QUERN_SHARED_CODE constexpr i32 raw_row_bytes(CacheKind kind, i32 columns) {
  return kind == CacheKind::rows656 ? 656 : kind == CacheKind::plain ? tile_pitch(columns) * 2 : columns;
}
struct PortableLayout {
  i32 queries, stages, stage_bytes, numbers, logits, weights, rows, keys, end;
};
QUERN_SHARED_CODE constexpr i32 logit_pitch(i32 block) { return block + 4; }
QUERN_SHARED_CODE constexpr PortableLayout portable_layout(CacheKind kind, i32 columns, i32 rows, i32 block,
                                                           i32 stages) {
  const i32 tile = block * tile_pitch(columns) * 2;
  PortableLayout l{};
  l.queries = 0;
  l.stages = rows * tile_pitch(columns) * 2;
  l.stage_bytes = block * raw_row_bytes(kind, columns);
  l.numbers = l.stages + stages * l.stage_bytes;
  l.logits = l.numbers + (kind == CacheKind::plain ? 0 : tile);
  l.weights = l.logits + rows * logit_pitch(block) * 4;
  l.rows = l.weights + rows * tile_pitch(block) * 2;
  l.keys = l.rows + rows * 3 * 4;      // maximum, sum, rescale
  l.end = l.keys + 2 * block * 6 * 4;  // two addresses, position, scale; of two blocks
  return l;
}

// What the kernel of 64 rows has in shared memory, in bytes: the queries, and two blocks of 64 keys; each is nine tiles
// of 64 rows of 128 bytes, swizzled. Behind them a few numbers a row, barriers, and what the warp that schedules tells
// the others.
inline constexpr i32 kRows64Keys = 128;       // that an item's price and pieces are counted in
inline constexpr i32 kRows64Threads = 384;    // two warpgroups that multiply, one that copies and schedules,
inline constexpr i32 kGather64Threads = 512;  // two where keys are widened, with four numbers a thread of their own
inline constexpr i32 kGather64Lookups = 256 * 4 * 4;
inline constexpr i32 kRows64Tile = 64 * 128, kRows64Matrix = 9 * kRows64Tile;
inline constexpr i32 kRows64Numbers = 4 * 64 * 4, kRows64Told = 512;
inline constexpr i32 kRows64SharedBytes = 3 * kRows64Matrix + kRows64Numbers + kRows64Told;

// What the kernel for few rows has in shared memory: slots of half a block of keys as they lie in the cache, queries of
// 8 bits, weights, numbers, and what the others are told.
inline constexpr i32 kFewKeys = 128, kFewSlots = 5;
// Warpgroups that multiply: of a cache of 8 bits one more, since queries are not in their registers. Another copies.
inline constexpr i32 kFewMostGroups = 3;
QUERN_SHARED_CODE constexpr i32 few_groups(bool plain) { return plain ? 2 : kFewMostGroups; }
QUERN_SHARED_CODE constexpr i32 few_threads(bool plain) { return (few_groups(plain) + 1) * 128; }
inline constexpr i32 kFewSlotBytes = kFewKeys / 2 * 576;
inline constexpr i32 kFewExchange = kFewSlots * kFewSlotBytes, kFewWeights = kFewExchange + 27 * 1024;
inline constexpr i32 kFewNumbers = kFewExchange + 33 * 1024;  // what is given away lies over both
inline constexpr i32 kFewTold = kFewNumbers + ((9 * kFewMostGroups + 1) * 16 + kFewSlots * kFewKeys / 2) * 4;
inline constexpr i32 kFewToldBytes = 512, kFewSharedBytes = kFewTold + kFewToldBytes;

}  // namespace q
