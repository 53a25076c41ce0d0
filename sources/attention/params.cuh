// The run-time arguments of the attention kernels: one struct, shared by the kernels and by the C++ that fills it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/types.cuh"

namespace q {

// Strides in elements, but for those of pages and tokens. Pointers are on the device; those that do not apply are null.
struct AttentionParams {
  const void* queries;  // [total_q, heads, HEAD_DIM_K]
  const void* keys;     // [pages, page_size, kv_heads, HEAD_DIM_K] or [total_kv, kv_heads, HEAD_DIM_K]
  const void* values;
  void* out;              // [total_q, heads, HEAD_DIM_V]
  f32* lse;               // [total_q, heads]
  const i32* lengths;     // [batch]
  const i32* cu_q;        // [batch + 1]; null: one query a sequence
  const i32* pages;       // a page table's rows, or the indices that page_indptr points into
  const i32* page_indptr; // [batch + 1]; null: rows of `pages_stride`
  const i32* cu_kv;       // [batch + 1], ragged only
  const f32* alibi_slopes;  // [heads]
  const f32* sinks;         // [heads]
  f32* partials;            // slots of kRows * (HEAD_DIM_V + 2) f32
  u32* counters;            // zero between launches
  i64 q_stride_token, q_stride_head;
  i64 k_stride_head, v_stride_head;
  u32 k_page_bytes, k_token_bytes;  // strides in bytes: a 32-bit multiplier with a 64-bit product is one instruction
  u32 v_page_bytes, v_token_bytes;
  i64 out_stride_token, out_stride_head;
  i64 lse_stride_token, lse_stride_head;
  i64 pages_stride;
  i32 batch;
  i32 kv_heads;
  i32 page_size;
  i32 window_left;   // keys j >= position - window_left; kUnbounded: all
  i32 window_right;  // keys j <= position + window_right; 0 is causal
  i32 parts;         // blocks that share the work when it is split
  i32 invariant;     // split each sequence by its own length only
  f32 scale;         // of q.k, with log2(e) in it unless there is a cap
  f32 cap;
};

inline constexpr i32 kUnbounded = 0x3fffffff;
// A batch-invariant split cuts no sequence into more pieces than this.
inline constexpr i32 kInvariantPieces = 16;

}  // namespace q
