// Where the choices of a run of tokens stand among the rows sorted by expert, and by token within an expert.
//
// A token has an expert at most once. So a tile of tokens leaves, for each expert, a word with a bit for every token
// that chose it; the bits below a token's own are the choices that stand before its.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/kernel.cuh"
#include "moe_route/params.cuh"

namespace q {

inline constexpr int kThreads = THREADS;
// Tokens of a tile: a thread has one choice of it at most.
inline constexpr i32 kTile = kThreads / kMostTopK < 32 ? kThreads / kMostTopK : 32;

QUERN_DEVICE i32 bits_set(u32 v) {
  v -= v >> 1 & 0x55555555u;
  v = (v & 0x33333333u) + (v >> 2 & 0x33333333u);
  return static_cast<i32>(((v + (v >> 4)) & 0x0f0f0f0fu) * 0x01010101u >> 24);
}

// Places the choices of tokens begin .. end-1; all threads take part. Both arrays are shared: `chosen_by` holds zeros,
// set before a barrier; `next_row`, for each local expert, where the first of them goes, read behind the first barrier
// here.
QUERN_DEVICE void place_choices(const MoeRouteParams& p, i32 begin, i32 end, u32* next_row, u32* chosen_by) {
  const i32 in_tile = thread_index() / p.top_k, j = thread_index() - in_tile * p.top_k;
  QUERN_ROLLED for (i32 tile = begin; tile < end; tile += kTile) {
    const i32 token = tile + in_tile;
    const bool there = in_tile < kTile && token < end;
    const i32 expert = there ? p.ids[token * p.ids_stride + j] - p.first_expert : -1;
    const bool local = expert >= 0 && expert < p.local_experts;
    if (local) atomic_add(chosen_by + expert, u32{1} << in_tile);
    sync_block();
    if (there) {
      u32 row = 0;
      if (local) {
        row = next_row[expert] + static_cast<u32>(bits_set(chosen_by[expert] & ((u32{1} << in_tile) - 1)));
        if (p.indices) p.indices[row] = token;
      }
      if (p.positions) p.positions[token * p.positions_stride + j] = local ? static_cast<i32>(row) : -1;
    }
    sync_block();
    QUERN_ROLLED for (i32 e = thread_index(); e < p.local_experts; e += kThreads) {
      next_row[e] += static_cast<u32>(bits_set(chosen_by[e]));
      chosen_by[e] = 0;
    }
    sync_block();
  }
}

}  // namespace q
