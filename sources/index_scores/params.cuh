// The run-time arguments of the kernels of index_scores, and what they keep in shared memory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/divisor.cuh"

namespace q {

// Pointers are on the device; those that do not apply are null. Strides are in elements: those of q and k in bytes.
struct IndexParams {
  const u8* q;         // [total_q, heads, D]
  const f32* q_scale;  // [1] or [total_q, heads]
  const f32* weights;  // [total_q, heads]
  const u8* k;         // [pages, page_size, D]; ragged: [total_kv, D]
  const f32* k_scale;  // [1], or k's shape without D
  f32* out;            // [total_q, columns]
  const i32* lengths;  // [batch]
  const i32* cu_q;     // [batch + 1]; null: one query a sequence
  const i32* pages;    // a page table's rows, or the indices that page_indptr points into
  const i32* page_indptr;
  const i32* cu_kv;  // ragged: [batch + 1]
  u32* status;       // enum quern_mla_status is or-ed into it
  i64 q_token, q_head;
  i64 q_scale_token, q_scale_head;
  i64 weights_token, weights_head;
  i64 k_page, k_place;
  i64 k_scale_page, k_scale_place;
  i64 out_token, pages_stride;
  i32 total_q, batch, heads;
  i32 columns;    // of out: no sequence has more keys
  i32 max_q_len;  // of a sequence
  Divisor page_size;
  i32 pool_pages;    // ragged: rows of k
  i32 listed_pages;  // entries of a row of the page table, or of all of page_indices
  i32 chunk;         // keys of an item, whole blocks of keys
  i32 chunks;        // items of a tile of queries
  Divisor slots;     // tiles of queries, those that hold none included
  i32 causal;
  i32 leave_masked;
};

// Elements from row to row of the portable kernel's tiles of 16 bits: an odd number of 16 bytes, so that eight rows lie
// in different banks.
QUERN_SHARED_CODE constexpr i32 index_pitch(i32 d) { return (d / 8 | 1) * 8; }
// Bytes in shared memory, in this order: queries, keys, weights, scores, scales of the keys.
struct IndexLayout {
  i32 keys, weights, scores, scales, end;
};
QUERN_SHARED_CODE constexpr IndexLayout index_layout(i32 d, i32 rows, i32 tokens, i32 keys) {
  IndexLayout l{};
  l.keys = rows * index_pitch(d) * 2;
  l.weights = l.keys + keys * index_pitch(d) * 2;
  l.scores = l.weights + rows * 4;
  l.scales = l.scores + tokens * keys * 4;
  l.end = l.scales + keys * 4;
  return l;
}

// The kernel for Hopper: blocks of so many keys, each a stage, with their scales; two buffers of queries and weights.
// `tokens` are those of a block of threads, 8 for all of its warpgroups together. A further warpgroup copies.
inline constexpr i32 kIndexKeys = 64;
QUERN_SHARED_CODE constexpr i32 index_groups(i32 tokens) { return tokens == 8 ? 4 : 2; }
QUERN_SHARED_CODE constexpr i32 index_hopper_threads(i32 tokens) { return (index_groups(tokens) + 1) * 128; }
QUERN_SHARED_CODE constexpr i32 index_stages(i32 tokens) { return tokens == 8 ? 8 : 12; }
QUERN_SHARED_CODE constexpr i32 index_hopper_bytes(i32 tokens) {
  // With 16 bytes for each stage's and each buffer's barriers, and what tiles are aligned to.
  return 2 * tokens * 64 * (128 + 4) + index_stages(tokens) * (kIndexKeys * (128 + 4) + 16) + 2 * 16 + 1024;
}

}  // namespace q
