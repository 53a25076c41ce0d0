// The running softmax over the keys of a row (Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018),
// kept in units of log2.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "attention/problem.cuh"

namespace q {

inline constexpr int kHeld = 256 / kWarp;  // elements of a tile that a lane holds

// How far a lane's rows and elements lie from its first: the same for all lanes, so lane 0 answers at compile time. Asked of the lane
// at hand it would be found out only after the loops are unrolled, element by element.
QUERN_DEVICE constexpr int rows_on(int held) { return row_of(0, held) - row_of(0, 0); }
QUERN_DEVICE constexpr int columns_on(int i) { return column_of(0, i) - column_of(0, 0); }

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
struct Softmax {
  f32 max[kRowsHeld];
  f32 sum[kRowsHeld];
};
QUERN_DEVICE Softmax empty_softmax() {
  Softmax s;
  QUERN_UNROLL for (int h = 0; h < kRowsHeld; ++h) s.max[h] = -infinity(), s.sum[h] = 0.0f;
  return s;
}

// Products q.k become logits here, except that a plain scale is left to the exponent's multiply-add.
inline constexpr bool kPlainScale = !CAP && !ALIBI;
QUERN_DEVICE f32 logit(const AttentionParams& p, f32 product, f32 slope, i32 distance) {
  if (kPlainScale) return product;
  f32 s = product * p.scale;
#if CAP
  // tanh(x) = 1 - 2 / (exp(2x) + 1), right at both ends; near 0, where that loses digits, the first terms of its series.
  const f32 x = s * rcp_approx(p.cap), y = x * x;
  const f32 series = x * fma(y, fma(y, fma(y, fma(y, 62.0f / 2835.0f, -17.0f / 315.0f), 2.0f / 15.0f), -1.0f / 3.0f), 1.0f);
  const f32 tanh = y < 0.09f ? series : 1.0f - 2.0f * rcp_approx(exp2(x * (2.0f * kLog2E)) + 1.0f);
  s = p.cap * kLog2E * tanh;
#endif
  return fma(slope, static_cast<f32>(distance), s);
}

// Products become logits, and those of keys that a row does not see -inf.
template <int kTiles>
QUERN_DEVICE void mask_scores(const AttentionParams& p, const Sequence& s, Accumulator (&scores)[kTiles], i32 key, bool masked,
                              const RowContext& rows) {
  if (!kPlainScale) {
    QUERN_UNROLL for (int n = 0; n < kTiles; ++n) {
      QUERN_UNROLL for (int i = 0; i < kHeld; ++i) {
        const int h = held_row(i);
        const i32 position = s.kv_len - s.q_len + (rows.first_row + row_of(lane(), h)) / kGroup;
        scores[n].x[i] = logit(p, scores[n].x[i], rows.slope[h], key + n * 16 + column_of(lane(), i) - position);
      }
    }
  }
  if (masked) {
    u32 from[kRowsHeld], count[kRowsHeld];
    QUERN_UNROLL for (int h = 0; h < kRowsHeld; ++h) {
      const Range seen = visible(p, s, rows.first_row + row_of(lane(), h));
      from[h] = static_cast<u32>(key + column_of(lane(), 0) - seen.first);
      count[h] = static_cast<u32>(seen.last > seen.first ? seen.last - seen.first : 0);
    }
    QUERN_UNROLL for (int n = 0; n < kTiles; ++n) {
      QUERN_UNROLL for (int i = 0; i < kHeld; ++i) {
        const u32 place = from[held_row(i)] + static_cast<u32>(n * 16 + columns_on(i));
        scores[n].x[i] = place < count[held_row(i)] ? scores[n].x[i] : -infinity();
      }
    }
  }
}

// The maximum that exponents are relative to need not be the very maximum: it follows only when it is left behind by more
// than this, so that what was summed before seldom has to be rescaled. 2^8 is far from overflow in every type involved.
inline constexpr f32 kSlack = 8.0f;

// Turns logits into weights relative to the maximum. True when that has changed for one of the lane's rows: what was summed
// before is then to be multiplied by `rescale`.
template <int kTiles>
QUERN_DEVICE bool weigh_scores(const AttentionParams& p, Accumulator (&scores)[kTiles], Softmax& softmax,
                               f32 (&rescale)[kRowsHeld]) {
  const f32 factor = kPlainScale ? p.scale : 1.0f;
  f32 max[kRowsHeld];
  QUERN_UNROLL for (int h = 0; h < kRowsHeld; ++h) max[h] = -infinity();
  QUERN_UNROLL for (int n = 0; n < kTiles; ++n) {
    QUERN_UNROLL for (int i = 0; i < kHeld; ++i) max[held_row(i)] = fmax(max[held_row(i)], scores[n].x[i]);
  }
  bool changed = false;
  f32 base[kRowsHeld];
  QUERN_UNROLL for (int h = 0; h < kRowsHeld; ++h) {
    const f32 before = softmax.max[h], now = reduce_row_max(max[h]) * factor;
    if (now > before + kSlack) softmax.max[h] = now;
    changed |= softmax.max[h] != before;
    base[h] = finite_max(softmax.max[h]);
    rescale[h] = exp2(before - base[h]);
    softmax.sum[h] *= rescale[h];
  }
  QUERN_UNROLL for (int n = 0; n < kTiles; ++n) {
    QUERN_UNROLL for (int i = 0; i < kHeld; ++i) {
      const int h = held_row(i);
      scores[n].x[i] = exp2(fma(scores[n].x[i], factor, -base[h]));
      softmax.sum[h] += scores[n].x[i];
    }
  }
  return changed;
}

// What was summed before the maximum grew.
QUERN_DEVICE void rescale_tiles(Accumulator (&o)[div_up(HEAD_DIM_V, 16)], const f32 (&rescale)[kRowsHeld]) {
  QUERN_UNROLL for (int n = 0; n < kTilesV; ++n) {
    QUERN_UNROLL for (int i = 0; i < kHeld; ++i) o[n].x[i] *= rescale[held_row(i)];
  }
}

}  // namespace q
