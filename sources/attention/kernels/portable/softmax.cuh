// The running softmax over the keys of a row (Milakov and Gimelshein, "Online normalizer calculation for softmax",
// 2018), kept in units of log2.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "attention/kernels/shared/custom_mask.cuh"
#include "attention/kernels/shared/logit.cuh"

#define QUERN_TILE_ELEMENT ELEMENT
#include "common/registers/tile_sums.cuh"

namespace q {

inline constexpr int kHeld = 256 / kWarp;  // elements of a tile that a lane holds

// How far a lane's rows lie from its first: the same for all lanes, so lane 0 answers at compile time. Asked of the
// lane at hand it would be found out only after the loops are unrolled, element by element.
QUERN_DEVICE constexpr int rows_on(int held) { return row_of(0, held) - row_of(0, 0); }

// What a lane needs to know of the rows that it holds of one tile; the rest is computed where a block is masked.
struct RowContext {
  i32 first_row;  // of the tile, among the KV head's rows
  f32 slope[kRowsHeld];
  f32 q_scale[kRowsHeld];  // with kCodedQueries
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
    c.q_scale[h] = 1.0f;
    if constexpr (kCodedQueries) {
      const i32 r = first_row + row_of(lane(), h);
      if (p.q_scale && r < s.q_len * kGroup) {
        c.q_scale[h] = p.q_scale[(s.q_begin + r / kGroup) * p.q_scale_stride_token +
                                 (head * kGroup + r % kGroup) * p.q_scale_stride_head];
      }
    }
  }
  return c;
}

// What the keys of a piece have in common.
struct PieceContext {
  f32 scale;  // of products of queries and keys, with log2(e) in it unless there is a cap
  CustomMask mask;
};
QUERN_DEVICE PieceContext piece_context(const AttentionParams& p, const Sequence& s, i32 head) {
  f32 scale = p.scale;
  if (kCoded && !kTokenScales && p.k_scale) scale *= p.k_scale[head * p.k_scale_stride_head];
  return {scale, custom_mask(p, s)};
}

// max in units of log2; sum is the lane's own share of the row's.
template <int kRowTiles>
struct Softmax {
  f32 max[kRowTiles][kRowsHeld];
  f32 sum[kRowTiles][kRowsHeld];
  f32 values;  // with kTokenScales: the sums of values are to be multiplied by it, a power of two or 0
};
template <int kRowTiles>
QUERN_DEVICE Softmax<kRowTiles> empty_softmax() {
  Softmax<kRowTiles> s;
  QUERN_UNROLL for (int t = 0; t < kRowTiles; ++t) {
    QUERN_UNROLL for (int h = 0; h < kRowsHeld; ++h) s.max[t][h] = -infinity(), s.sum[t][h] = 0.0f;
  }
  s.values = 0.0f;
  return s;
}

// Whether some of `keys` keys from `key` on are hidden from some row, of rows that all see those of `all`.
QUERN_DEVICE bool is_masked(const PieceContext& piece, const Range& all, i32 key, i32 keys) {
  return key < all.first || key + keys > all.last || (kCustomMask && key + keys > piece.mask.first);
}

// Products become logits, and those of keys that a row does not see -inf. `rows` is of the tiles of rows; `k_scales`
// are those of the keys, in shared memory, with kTokenScales.
template <int kFirst, int kRowTiles, int kTiles>
QUERN_DEVICE void mask_scores(const AttentionParams& p, const Sequence& s, const PieceContext& piece,
                              TileSums<kFirst, kRowTiles, kTiles>& scores, i32 key, bool masked,
                              const RowContext (&rows)[kRowTiles], const f32* k_scales) {
  if constexpr (kCodedQueries) {
    f32 factors[kRowTiles][kRowsHeld];
    QUERN_UNROLL for (int t = 0; t < kRowTiles; ++t) {
      QUERN_UNROLL for (int h = 0; h < kRowsHeld; ++h) factors[t][h] = rows[t].q_scale[h];
    }
    scores.multiply_rows(factors);
  }
  if constexpr (kTokenScales) {
    Accumulator x[kRowTiles][kTiles];
    scores.read(x);
    QUERN_UNROLL for (int n = 0; n < kTiles; ++n) {
      QUERN_UNROLL for (int i = 0; i < kHeld; ++i) {
        const f32 scale = k_scales[n * 16 + column_of(lane(), i)];
        QUERN_UNROLL for (int t = 0; t < kRowTiles; ++t) x[t][n].x[i] *= scale;
      }
    }
    scores.write(x);
  } else {
    (void)k_scales;
  }
  if (!kPlainScale) {
    Accumulator x[kRowTiles][kTiles];
    scores.read(x);
    QUERN_UNROLL for (int t = 0; t < kRowTiles; ++t) {
      QUERN_UNROLL for (int n = 0; n < kTiles; ++n) {
        QUERN_UNROLL for (int i = 0; i < kHeld; ++i) {
          const int h = held_row(i);
          const i32 position = s.kv_len - s.q_len + (rows[t].first_row + row_of(lane(), h)) / kGroup;
          x[t][n].x[i] =
              logit(p, piece.scale, x[t][n].x[i], rows[t].slope[h], key + n * 16 + column_of(lane(), i) - position);
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
  if constexpr (kCustomMask) {
    if (masked && key + kTiles * 16 > piece.mask.first) {
      Accumulator x[kRowTiles][kTiles];
      scores.read(x);
      QUERN_UNROLL for (int t = 0; t < kRowTiles; ++t) {
        QUERN_UNROLL for (int n = 0; n < kTiles; ++n) {
          u32 bits[kRowsHeld];
          QUERN_UNROLL for (int h = 0; h < kRowsHeld; ++h) {
            const i32 row = rows[t].first_row + row_of(lane(), h);
            bits[h] = row < s.q_len * kGroup ? mask_bits(piece.mask, row / kGroup, key + n * 16) : 0u;
          }
          QUERN_UNROLL for (int i = 0; i < kHeld; ++i) {
            if ((bits[held_row(i)] >> column_of(lane(), i) & 1) == 0) x[t][n].x[i] = -infinity();
          }
        }
      }
      scores.write(x);
    }
  }
}

// Rows that see one of the keys whose values were not finite come to NaN: `bad` has a bit for each of them, from `key`
// on.
template <int kRowTiles>
QUERN_DEVICE void spoil_rows(const AttentionParams& p, const Sequence& s, const PieceContext& piece, u64 bad, i32 key,
                             const RowContext (&rows)[kRowTiles], Softmax<kRowTiles>& softmax) {
  QUERN_ROLLED for (i32 j = key; bad != 0; bad >>= 1, ++j) {
    if ((bad & 1) == 0) continue;
    QUERN_UNROLL for (int t = 0; t < kRowTiles; ++t) {
      QUERN_UNROLL for (int h = 0; h < kRowsHeld; ++h) {
        if (sees(p, s, piece.mask, rows[t].first_row + row_of(lane(), h), j)) softmax.sum[t][h] = nan();
      }
    }
  }
}

// The weights of a block of keys, each times the scale of its values, as operands; the sums over a row are of the
// weights alone. The scales are taken relative to a power of two, which follows when they outgrow it: a weight of f16
// must neither overflow nor vanish. What was summed before is then to be multiplied by `shrink`; true when that is
// not 1.
template <int kFirst, int kRowTiles, int kTiles>
QUERN_DEVICE bool scaled_weights(TileSums<kFirst, kRowTiles, kTiles>& scores, f32 factor,
                                 const f32 (&base)[kRowTiles][kRowsHeld], Softmax<kRowTiles>& softmax,
                                 const f32* v_scales, f32& shrink, OperandA<Element> (&weights)[kTiles][kRowTiles]) {
  f32 scales[kTiles][kHeld], largest = 0.0f;
  QUERN_UNROLL for (int n = 0; n < kTiles; ++n) {
    QUERN_UNROLL for (int i = 0; i < kHeld; ++i) {
      scales[n][i] = v_scales[n * 16 + column_of(lane(), i)];
      if (fabs(scales[n][i]) < infinity()) largest = fmax(largest, scales[n][i]);
    }
  }
  largest = reduce_row_max(largest);
  shrink = 1.0f;
  const f32 before = softmax.values;
  if (largest > 16.0f * before) {
    const u32 exponent = (bits_of(largest) & 0x7f800000u) + 0x00800000u;  // of the power of two above it
    softmax.values = f32_of(exponent < 0x7e000000u ? exponent : 0x7e000000u);
    shrink = before / softmax.values;
  }
  const f32 inverse = softmax.values > 0.0f ? f32_of(0x7f000000u - bits_of(softmax.values)) : 0.0f;
  Accumulator x[kRowTiles][kTiles];
  scores.read(x);
  QUERN_UNROLL for (int t = 0; t < kRowTiles; ++t) {
    QUERN_UNROLL for (int n = 0; n < kTiles; ++n) {
      QUERN_UNROLL for (int i = 0; i < kHeld; ++i) {
        const int h = held_row(i);
        const f32 weight = exp2(fma(x[t][n].x[i], factor, -base[t][h]));
        softmax.sum[t][h] += weight;
        // A key that is not seen counts nothing, whatever its scale is.
        x[t][n].x[i] = weight == 0.0f ? 0.0f : weight * (scales[n][i] * inverse);
      }
      weights[n][t] = to_operand<Element>(x[t][n]);
    }
  }
  return shrink != 1.0f;
}

// Whether other warps have keys of the same rows at the same time: by default none.
struct NoOthers {
  static constexpr bool kThere = false;
};

// Turns logits into weights relative to the maximum. True when that has changed for one of the lane's rows: what was
// summed before is then to be multiplied by `rescale`. `v_scales` are those of the values, in shared memory, with
// kTokenScales. Where there are others, others(max) makes the maxima of the rows those of all warps.
template <int kFirst, int kRowTiles, int kTiles, class Others = NoOthers>
QUERN_DEVICE bool weigh_scores(const PieceContext& piece, TileSums<kFirst, kRowTiles, kTiles>& scores,
                               Softmax<kRowTiles>& softmax, f32 (&rescale)[kRowTiles][kRowsHeld],
                               OperandA<Element> (&weights)[kTiles][kRowTiles], const f32* v_scales,
                               const Others& others = {}) {
  const f32 factor = kPlainScale ? piece.scale : 1.0f;
  f32 max[kRowTiles][kRowsHeld], base[kRowTiles][kRowsHeld];
  QUERN_UNROLL for (int t = 0; t < kRowTiles; ++t) {
    QUERN_UNROLL for (int h = 0; h < kRowsHeld; ++h) max[t][h] = -infinity();
  }
  scores.maximum(max);
  if constexpr (Others::kThere) {
    QUERN_UNROLL for (int t = 0; t < kRowTiles; ++t) {
      QUERN_UNROLL for (int h = 0; h < kRowsHeld; ++h) max[t][h] = reduce_row_max(max[t][h]);
    }
    others(max);
  } else {
    (void)others;
  }
  bool changed = false;
  QUERN_UNROLL for (int t = 0; t < kRowTiles; ++t) {
    QUERN_UNROLL for (int h = 0; h < kRowsHeld; ++h) {
      const f32 before = softmax.max[t][h], now = (Others::kThere ? max[t][h] : reduce_row_max(max[t][h])) * factor;
      if (now > before + kSlack) softmax.max[t][h] = now;
      changed |= softmax.max[t][h] != before;
      base[t][h] = finite_max(softmax.max[t][h]);
      rescale[t][h] = exp2(before - base[t][h]);
      softmax.sum[t][h] *= rescale[t][h];
    }
  }
  if constexpr (kTokenScales) {
    f32 shrink;
    changed |= scaled_weights(scores, factor, base, softmax, v_scales, shrink, weights);
    QUERN_UNROLL for (int t = 0; t < kRowTiles; ++t) {
      QUERN_UNROLL for (int h = 0; h < kRowsHeld; ++h) rescale[t][h] *= shrink;
    }
  } else {
    (void)v_scales;
    scores.to_weights(factor, base, softmax.sum, weights);
  }
  return changed;
}

// What the sums of values are to be multiplied by in the end.
template <int kFirst, int kRowTiles, int kTiles>
QUERN_DEVICE void finish_values(const Softmax<kRowTiles>& softmax, TileSums<kFirst, kRowTiles, kTiles>& values) {
  if constexpr (kTokenScales) {
    f32 factors[kRowTiles][kRowsHeld];
    QUERN_UNROLL for (int t = 0; t < kRowTiles; ++t) {
      QUERN_UNROLL for (int h = 0; h < kRowsHeld; ++h) factors[t][h] = softmax.values;
    }
    values.multiply_rows(factors);
  } else {
    (void)softmax, (void)values;
  }
}

}  // namespace q
