// Adds up, for each token, the rows that its experts made of it, each with its weight. The time is that of reading
// those rows: a warp takes one token and a slice of its columns, and has the slices of several choices on their way at
// once.
// SPDX-License-Identifier: Apache-2.0
#include "common/eight.cuh"
#include "moe_combine/params.cuh"

namespace q {

using X = X_ELEMENT;  // f16, bf16 or f32
using Out = OUT_ELEMENT;
inline constexpr int kThreads = THREADS;
inline constexpr int kAlignment = ALIGNMENT;            // bytes: 16 or 4
inline constexpr int kVectors = 2;                      // of eight columns, that a lane takes of a slice
inline constexpr int kAtOnce = sizeof(X) == 4 ? 2 : 4;  // choices whose rows are loaded together
inline constexpr i32 kSlice = kWarp * kVectors * 8;

// A choice's row; -1 where it is left out.
QUERN_DEVICE i32 row_of_choice(const MoeCombineParams& p, i64 token, i32 choice) {
  const i32 row = p.positions[token * p.positions_stride + choice];
  return row >= 0 && row < p.rows ? row : -1;
}
QUERN_DEVICE f32 weight_of_choice(const MoeCombineParams& p, i64 token, i32 choice) {
  return p.weights ? p.weights[token * p.weights_stride + choice] : 1.0f;
}

// All of a slice that eight columns at a time can take.
QUERN_DEVICE void combine_slice(const MoeCombineParams& p, i64 token, i32 begin) {
  i32 column[kVectors];
  bool inside[kVectors];
  Eight sum[kVectors] = {};
  QUERN_UNROLL for (int v = 0; v < kVectors; ++v) {
    column[v] = begin + (v * kWarp + lane()) * 8;
    inside[v] = column[v] + 8 <= p.n;
  }
  QUERN_ROLLED for (i32 first = 0; first < p.top_k; first += kWarp) {
    const i32 mine = first + lane();
    const i32 my_row = mine < p.top_k ? row_of_choice(p, token, mine) : -1;
    // What is left out must not count whatever its weight is.
    const f32 my_weight = my_row >= 0 ? weight_of_choice(p, token, mine) : 0.0f;
    QUERN_ROLLED for (i32 j = 0; j < kWarp && first + j < p.top_k; j += kAtOnce) {
      PackedEight<X> part[kAtOnce][kVectors];
      f32 weight[kAtOnce];
      QUERN_UNROLL for (int c = 0; c < kAtOnce; ++c) {
        const i32 row = shuffle(my_row, j + c);
        weight[c] = shuffle(my_weight, j + c);
        const X* from = static_cast<const X*>(p.x) + row * p.x_stride;
        QUERN_UNROLL for (int v = 0; v < kVectors; ++v) {
          part[c][v] = {};
          if (row >= 0 && inside[v]) part[c][v] = load_eight<X, kAlignment>(from + column[v]);
        }
      }
      QUERN_UNROLL for (int c = 0; c < kAtOnce; ++c) {
        QUERN_UNROLL for (int v = 0; v < kVectors; ++v) {
          const Eight x = widen(part[c][v]);
          QUERN_UNROLL for (int i = 0; i < 8; ++i) sum[v].x[i] = fma(weight[c], x.x[i], sum[v].x[i]);
        }
      }
    }
  }
  QUERN_UNROLL for (int v = 0; v < kVectors; ++v) {
    if (!inside[v]) continue;
    if (p.add) {
      const Eight add =
          widen(load_eight<Out, kAlignment>(static_cast<const Out*>(p.add) + token * p.add_stride + column[v]));
      QUERN_UNROLL for (int i = 0; i < 8; ++i) sum[v].x[i] += add.x[i];
    }
    store_eight<Out, kAlignment>(static_cast<Out*>(p.out) + token * p.out_stride + column[v], narrow<Out>(sum[v]));
  }
}

// The last columns of a row, fewer than eight: a lane each.
QUERN_DEVICE void combine_rest(const MoeCombineParams& p, i64 token) {
  const i32 column = p.n / 8 * 8 + lane();
  if (column >= p.n) return;
  f32 sum = 0.0f;
  QUERN_ROLLED for (i32 j = 0; j < p.top_k; ++j) {
    const i32 row = row_of_choice(p, token, j);
    if (row >= 0)
      sum = fma(weight_of_choice(p, token, j), to_f32(static_cast<const X*>(p.x)[row * p.x_stride + column]), sum);
  }
  if (p.add) sum += to_f32(static_cast<const Out*>(p.add)[token * p.add_stride + column]);
  static_cast<Out*>(p.out)[token * p.out_stride + column] = from_f32<Out>(sum);
}

// Slices in the order of tokens: neighbours share what they read of positions and weights.
QUERN_DEVICE void combine(const MoeCombineParams& p) {
  constexpr u32 kWarps = kThreads / kWarp;
  const u32 slices = static_cast<u32>(div_up(p.n, kSlice)), step = static_cast<u32>(block_count(0)) * kWarps;
  const u32 first = static_cast<u32>(block_index(0)) * kWarps + static_cast<u32>(warp());
  const u32 token_step = step / slices, slice_step = step % slices;
  u32 token = first / slices, slice = first % slices;
  QUERN_ROLLED while (token < static_cast<u32>(p.tokens)) {
    const i32 begin = static_cast<i32>(slice) * kSlice;
    combine_slice(p, token, begin);
    if (p.n % 8 != 0 && begin + kSlice > p.n) combine_rest(p, token);
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
