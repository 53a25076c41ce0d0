// The sums of pieces to what out has, in their order, for places with more than one. Each is found by the first of its
// rows whose number is a multiple of a piece's length.
// SPDX-License-Identifier: Apache-2.0
#include "scatter/chunks.cuh"

namespace q {

QUERN_DEVICE void finish_chunk(const ScatterParams& p, i32 found, i32 chunk) {
  const u32 row = p.sorted[found];
  if (row == kNoRow || goes_to(p, found - kScatterPiece, row)) return;
  const i32 first = first_of(p, row);
  if (!goes_to(p, first + kScatterPiece, row)) return;
  const i32 end = first_of(p, row + 1);
  To* out = chunk_of_out(p, row, chunk);
  f32 sum[kWidth];
  widen_packed<To, kWidth>(load_packed<To, kWidth>(out), sum);
  QUERN_FOUR_AT_ONCE for (i32 i = first; i < end; i += kScatterPiece) {
    const f32* piece = sum_at(p, i, row, chunk);
    QUERN_UNROLL for (int k = 0; k < kWidth; ++k) sum[k] += piece[k];
  }
  store_packed<To, kWidth>(out, narrow_packed<To, kWidth>(sum));
}

QUERN_DEVICE void finish(const ScatterParams& p) {
  const i64 all = i64{div_up(p.count, kScatterPiece)} * p.chunks.value, step = i64{block_count(0)} * kScatterThreads;
  QUERN_ROLLED for (i64 at = i64{block_index(0)} * kScatterThreads + thread_index(); at < all; at += step) {
    const i32 piece = static_cast<i32>(at) / p.chunks;
    finish_chunk(p, piece * kScatterPiece, static_cast<i32>(at) - piece * p.chunks.value);
  }
}

}  // namespace q

QUERN_KERNEL(quern_scatter_finish, q::kScatterThreads, 4, QUERN_PARAM q::ScatterParams p) {
  q::launch_next_grid();
  q::wait_for_previous_grid();
  q::finish(p);
}
