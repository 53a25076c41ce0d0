// The running softmax over the keys of a row (Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018),
// kept in units of log2.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "attention/kernels/shared/logit.cuh"

#define QUERN_TILE_ELEMENT ELEMENT
#include "common/registers/tile_sums.cuh"

namespace q {

inline constexpr int kHeld = 256 / kWarp;  // elements of a tile that a lane holds

// How far a lane's rows lie from its first: the same for all lanes, so lane 0 answers at compile time. Asked of the lane at hand it
// would be found out only after the loops are unrolled, element by element.
QUERN_DEVICE constexpr int rows_on(int held) { return row_of(0, held) - row_of(0, 0); }

// What a lane needs to know of the rows that it holds of one tile; the rest is computed where a block is masked.
struct RowContext {
  i32 first_row;  // of the tile, among the KV head's rows
  f32 slope[kRowsHeld];
};
QUERN_DEVICE RowContext row_context(const AttentionParams& p, const Sequence& s, i32 head, i32 first_row) {
  RowContext c;
  c.first_row = first_row;
  QUERN_UNROLL for (int h = 0; h < kRowsHeld; ++h) {
#if ALIBI
    const i32 row = first_row + row_of(lane(), h);
    c.slope[h] = row < s.q_len * kGroup ? p.alibi_slopes[head * kGroup + row % kGroup] * kLog2E : 0.0f;
#else
    c.slope[h] = 0.0f, (void)p, (void)s, (void)head;
#endif
  }
  return c;
}

// max in units of log2; sum is the lane's own share of the row's.
template <int kRowTiles>
struct Softmax {
  f32 max[kRowTiles][kRowsHeld];
  f32 sum[kRowTiles][kRowsHeld];
};
template <int kRowTiles>
QUERN_DEVICE Softmax<kRowTiles> empty_softmax() {
  Softmax<kRowTiles> s;
  QUERN_UNROLL for (int t = 0; t < kRowTiles; ++t) {
    QUERN_UNROLL for (int h = 0; h < kRowsHeld; ++h) s.max[t][h] = -infinity(), s.sum[t][h] = 0.0f;
  }
  return s;
}

// Products become logits, and those of keys that a row does not see -inf. `rows` is of the tiles of rows.
template <int kFirst, int kRowTiles, int kTiles>
QUERN_DEVICE void mask_scores(const AttentionParams& p, const Sequence& s, TileSums<kFirst, kRowTiles, kTiles>& scores, i32 key,
                              bool masked, const RowContext (&rows)[kRowTiles]) {
  if (!kPlainScale) {
    Accumulator x[kRowTiles][kTiles];
    scores.read(x);
    QUERN_UNROLL for (int t = 0; t < kRowTiles; ++t) {
      QUERN_UNROLL for (int n = 0; n < kTiles; ++n) {
        QUERN_UNROLL for (int i = 0; i < kHeld; ++i) {
          const int h = held_row(i);
          const i32 position = s.kv_len - s.q_len + (rows[t].first_row + row_of(lane(), h)) / kGroup;
          x[t][n].x[i] = logit(p, x[t][n].x[i], rows[t].slope[h], key + n * 16 + column_of(lane(), i) - position);
        }
      }
    }
    scores.write(x);
  }
  if (masked) {
    u32 from[kRowTiles][kRowsHeld], count[kRowTiles][kRowsHeld];
    QUERN_UNROLL for (int t = 0; t < kRowTiles; ++t) {
      QUERN_UNROLL for (int h = 0; h < kRowsHeld; ++h) {
        const Range seen = visible(p, s, rows[t].first_row + row_of(lane(), h));
        from[t][h] = static_cast<u32>(key - seen.first);
        count[t][h] = static_cast<u32>(seen.last > seen.first ? seen.last - seen.first : 0);
      }
    }
    scores.keep(from, count);
  }
}

// Turns logits into weights relative to the maximum. True when that has changed for one of the lane's rows: what was summed
// before is then to be multiplied by `rescale`.
template <int kFirst, int kRowTiles, int kTiles>
QUERN_DEVICE bool weigh_scores(const AttentionParams& p, TileSums<kFirst, kRowTiles, kTiles>& scores,
                               Softmax<kRowTiles>& softmax, f32 (&rescale)[kRowTiles][kRowsHeld],
                               OperandA<Element> (&weights)[kTiles][kRowTiles]) {
  const f32 factor = kPlainScale ? p.scale : 1.0f;
  f32 max[kRowTiles][kRowsHeld], base[kRowTiles][kRowsHeld];
  QUERN_UNROLL for (int t = 0; t < kRowTiles; ++t) {
    QUERN_UNROLL for (int h = 0; h < kRowsHeld; ++h) max[t][h] = -infinity();
  }
  scores.maximum(max);
  bool changed = false;
  QUERN_UNROLL for (int t = 0; t < kRowTiles; ++t) {
    QUERN_UNROLL for (int h = 0; h < kRowsHeld; ++h) {
      const f32 before = softmax.max[t][h], now = reduce_row_max(max[t][h]) * factor;
      if (now > before + kSlack) softmax.max[t][h] = now;
      changed |= softmax.max[t][h] != before;
      base[t][h] = finite_max(softmax.max[t][h]);
      rescale[t][h] = exp2(before - base[t][h]);
      softmax.sum[t][h] *= rescale[t][h];
    }
  }
  scores.to_weights(factor, base, softmax.sum, weights);
  return changed;
}

}  // namespace q
