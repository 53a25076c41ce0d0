// Adds up, for each token, the rows that its experts made of it, each with its weight. The time is that of reading those rows:
// a warp takes one token and a slice of its columns, and has the slices of several choices on their way at once.
// SPDX-License-Identifier: Apache-2.0
#include "common/eight.cuh"
#include "moe_combine/params.cuh"

namespace q {

using X = X_ELEMENT;  // f16, bf16 or f32
using Out = OUT_ELEMENT;
inline constexpr int kThreads = THREADS;
inline constexpr int kAlignment = ALIGNMENT;  // bytes: 16 or 4
inline constexpr int kVectors = 2;            // of eight columns, that a lane takes of a slice
inline constexpr int kAtOnce = sizeof(X) == 4 ? 2 : 4;  // choices whose rows are loaded together
inline constexpr i32 kSlice = kWarp * kVectors * 8;

// Of a row of n elements, the eight from `column` on; zeros behind its end.
template <class T>
QUERN_DEVICE PackedEight<T> load_columns(const T* row, i32 column, i32 n) {
  if (column + 8 <= n) return load_eight<T, kAlignment>(row + column);
  return load_some(row + column, n - column);
}

QUERN_DEVICE void combine_slice(const MoeCombineParams& p, i64 token, i32 begin) {
  i32 column[kVectors];
  PackedEight<Out> added[kVectors];
  Eight sum[kVectors] = {};
  QUERN_UNROLL for (int v = 0; v < kVectors; ++v) {
    column[v] = begin + (v * kWarp + lane()) * 8;
    added[v] = {};
    if (p.add) added[v] = load_columns(static_cast<const Out*>(p.add) + token * p.add_stride, column[v], p.n);
  }
  QUERN_ROLLED for (i32 first = 0; first < p.top_k; first += kWarp) {
    const i32 mine = first + lane();
    i32 position = -1;
    f32 weight = 1.0f;
    if (mine < p.top_k) {
      position = p.positions[token * p.positions_stride + mine];
      if (p.weights) weight = p.weights[token * p.weights_stride + mine];
    }
    // What is left out must not count whatever its weight is.
    if (position < 0 || position >= p.rows) position = -1, weight = 0.0f;
    QUERN_ROLLED for (i32 j = 0; j < kWarp && first + j < p.top_k; j += kAtOnce) {
      PackedEight<X> rows[kAtOnce][kVectors];
      f32 weights[kAtOnce];
      QUERN_UNROLL for (int c = 0; c < kAtOnce; ++c) {
        const i32 at = shuffle(position, j + c);
        weights[c] = shuffle(weight, j + c);
        const X* row = static_cast<const X*>(p.x) + at * p.x_stride;
        QUERN_UNROLL for (int v = 0; v < kVectors; ++v) {
          rows[c][v] = {};
          if (at >= 0) rows[c][v] = load_columns(row, column[v], p.n);
        }
      }
      QUERN_UNROLL for (int c = 0; c < kAtOnce; ++c) {
        QUERN_UNROLL for (int v = 0; v < kVectors; ++v) {
          const Eight row = widen(rows[c][v]);
          QUERN_UNROLL for (int i = 0; i < 8; ++i) sum[v].x[i] = fma(weights[c], row.x[i], sum[v].x[i]);
        }
      }
    }
  }
  Out* out = static_cast<Out*>(p.out) + token * p.out_stride;
  QUERN_UNROLL for (int v = 0; v < kVectors; ++v) {
    const Eight add = widen(added[v]);
    QUERN_UNROLL for (int i = 0; i < 8; ++i) sum[v].x[i] += add.x[i];
    const PackedEight<Out> result = narrow<Out>(sum[v]);
    if (column[v] + 8 <= p.n) {
      store_eight<Out, kAlignment>(out + column[v], result);
    } else {
      store_some(out + column[v], result, p.n - column[v]);
    }
  }
}

// Slices in the order of tokens: neighbours share what they read of positions and weights.
QUERN_DEVICE void combine(const MoeCombineParams& p) {
  constexpr int kWarps = kThreads / kWarp;
  const i64 slices = div_up(p.n, kSlice);
  const i64 first = static_cast<i64>(block_index(0)) * kWarps + warp(), step = static_cast<i64>(block_count(0)) * kWarps;
  const i64 token_step = step / slices, slice_step = step % slices;
  i64 token = first / slices, slice = first % slices;
  QUERN_ROLLED while (token < p.tokens) {
    combine_slice(p, token, static_cast<i32>(slice) * kSlice);
    token += token_step, slice += slice_step;
    if (slice >= slices) slice -= slices, ++token;
  }
}

}  // namespace q

QUERN_KERNEL(quern_moe_combine, THREADS, 3, QUERN_PARAM q::MoeCombineParams p) {
  q::launch_next_grid();
  q::wait_for_previous_grid();
  q::combine(p);
}
