// Rows to their places, bound by memory: threads share all rows' chunks, and each has several on their way. Where rows
// may go to one place they come sorted by it, and the last of them, or the first, does the work of all.
// SPDX-License-Identifier: Apache-2.0
#include "scatter/chunks.cuh"

namespace q {

using From = FROM;  // u8 where bytes are copied
inline constexpr bool kCopies = COPIES != 0, kAdds = ADDS != 0, kSorted = SORTED != 0;

using Loaded = Packed<From, kWidth>;
using Stored = Packed<To, kWidth>;

struct Move {
  i64 to;      // row of out; -1: none
  i32 from;    // row of x, or with kAdds and kSorted where the first of them is found
  bool whole;  // all that goes there; else a piece of it
};
QUERN_DEVICE Move move_of(const ScatterParams& p, i32 i) {
  if constexpr (!kSorted) return {row_of_id(p, i), i, true};
  const u32 row = p.sorted[i];
  if (row == kNoRow) return {-1, 0, true};
  if constexpr (!kAdds) return {goes_to(p, i + 1, row) ? -1 : i64{row}, p.positions[i], true};
  if (!goes_to(p, i - 1, row)) return {row, i, !goes_to(p, i + kScatterPiece, row)};
  if (!goes_to(p, i - kScatterPiece, row) || (i - first_of(p, row)) % kScatterPiece != 0) return {-1, 0, true};
  return {row, i, false};
}

QUERN_DEVICE Loaded load_chunk(const ScatterParams& p, i32 row, i32 chunk) {
  return load_packed<From, kWidth>(reinterpret_cast<const From*>(p.x + row * p.x_stride) + chunk * kWidth);
}

// A template, so that bytes, which have no numbers to scale, are not compiled as such.
template <class T>
QUERN_DEVICE Stored stored_of(const Packed<T, kWidth>& loaded, f32 scale) {
  if constexpr (kCopies) {
    return loaded;
  } else {
    f32 x[kWidth];
    widen_packed<T, kWidth>(loaded, x);
    QUERN_UNROLL for (int i = 0; i < kWidth; ++i) x[i] *= scale;
    return narrow_packed<To, kWidth>(x);
  }
}

QUERN_DEVICE void set_chunks(const ScatterParams& p, i64 begin) {
  Loaded held[kScatterAtOnce];
  i64 to[kScatterAtOnce];
  QUERN_UNROLL for (int j = 0; j < kScatterAtOnce; ++j) {
    const i64 at = begin + j * kScatterThreads + thread_index();
    to[j] = -1;
    if (at >= p.chunks_all) continue;
    const i32 row = static_cast<i32>(at) / p.chunks;
    const Move move = move_of(p, row);
    to[j] = move.to;
    if (move.to >= 0) held[j] = load_chunk(p, move.from, static_cast<i32>(at) - row * p.chunks.value);
  }
  QUERN_UNROLL for (int j = 0; j < kScatterAtOnce; ++j) {
    if (to[j] < 0) continue;
    const i32 at = static_cast<i32>(begin + j * kScatterThreads + thread_index());
    store_packed<To, kWidth>(chunk_of_out(p, to[j], at - at / p.chunks * p.chunks.value),
                             stored_of<From>(held[j], p.scale));
  }
}

// What out has first, unless it is a piece's sum; then the rows in the order of their places in x, each by one fused
// multiply-add.
template <class T>
QUERN_DEVICE void add_chunk(const ScatterParams& p, const Move& move, i32 chunk) {
  const u32 row = static_cast<u32>(move.to);
  To* out = chunk_of_out(p, move.to, chunk);
  f32 sum[kWidth];
  QUERN_UNROLL for (int k = 0; k < kWidth; ++k) sum[k] = 0.0f;
  if (move.whole) widen_packed<To, kWidth>(load_packed<To, kWidth>(out), sum);
  bool more = true;
  QUERN_ROLLED for (i32 i = move.from; more; i += kScatterAtOnce) {
    Packed<T, kWidth> held[kScatterAtOnce];
    bool has[kScatterAtOnce];
    QUERN_UNROLL for (int j = 0; j < kScatterAtOnce; ++j) {
      has[j] = kSorted ? goes_to(p, i + j, row) : j == 0;
      if (has[j]) held[j] = load_chunk(p, kSorted ? p.positions[i + j] : i, chunk);
    }
    QUERN_UNROLL for (int j = 0; j < kScatterAtOnce; ++j) {
      if (!has[j]) continue;
      f32 x[kWidth];
      widen_packed<T, kWidth>(held[j], x);
      QUERN_UNROLL for (int k = 0; k < kWidth; ++k) sum[k] = fma(p.scale, x[k], sum[k]);
    }
    more = has[kScatterAtOnce - 1] && i + kScatterAtOnce - move.from < kScatterPiece;
  }
  if (move.whole) {
    store_packed<To, kWidth>(out, narrow_packed<To, kWidth>(sum));
  } else {
    f32* to = sum_at(p, move.from, row, chunk);
    QUERN_UNROLL for (int k = 0; k < kWidth; ++k) to[k] = sum[k];
  }
}

QUERN_DEVICE void scatter(const ScatterParams& p) {
  constexpr i64 kTile = kScatterThreads * (kAdds ? 1 : kScatterAtOnce);
  QUERN_ROLLED for (i64 begin = block_index(0) * kTile; begin < p.chunks_all; begin += block_count(0) * kTile) {
    if constexpr (kAdds) {
      const i64 at = begin + thread_index();
      if (at >= p.chunks_all) continue;
      const i32 row = static_cast<i32>(at) / p.chunks;
      const Move move = move_of(p, row);
      if (move.to >= 0) add_chunk<From>(p, move, static_cast<i32>(at) - row * p.chunks.value);
    } else {
      set_chunks(p, begin);
    }
  }
}

}  // namespace q

QUERN_KERNEL(quern_scatter, q::kScatterThreads, ADDS != 0 ? 4 : 6, QUERN_PARAM q::ScatterParams p) {
  q::launch_next_grid();
  q::wait_for_previous_grid();
  q::scatter(p);
}
