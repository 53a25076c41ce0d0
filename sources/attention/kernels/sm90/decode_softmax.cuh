// The running softmax of a reader's rows over stages of keys.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "attention/kernels/sm90/decode_operands.cuh"

namespace q {

// Weights of f16 are taken 2^kLift times as large as they are summed up relative to the maximum: those that are small
// beside it do not vanish. With what the maximum may lag behind, and a token's scale relative to the power of two, they
// stay below 2^16.
inline constexpr f32 kLift = !kCoded ? 0.0f : kTokenScales ? 3.0f : 6.0f;

// Of a lane's two rows: the maximum in units of log2, and the lane's own share of the sum of weights.
struct RowSoftmax {
  f32 max[2] = {-infinity(), -infinity()};
  f32 sum[2] = {0.0f, 0.0f};
  f32 values = 0.0f;  // with kTokenScales: the sums of values are to be multiplied by it, a power of two or 0
};

// What a lane needs to know of its rows, and of all keys of a piece.
struct RowContext {
  i32 first;  // the lane's first row among those of the KV head; the other one comes 8 later
  f32 slope[2];
  CustomMask mask;

  QUERN_DEVICE RowContext(const AttentionParams& p, const Sequence& s, const Piece& piece)
      : first(piece.tile * kRows + row_of(lane(), 0)), mask(custom_mask(p, s)) {
    QUERN_UNROLL for (int h = 0; h < 2; ++h) {
#if ALIBI
      const i32 row = first + 8 * h;
      slope[h] = row < s.q_len * kGroup ? p.alibi_slopes[piece.head * kGroup + row % kGroup] * kLog2E : 0.0f;
#else
      slope[h] = 0.0f;
#endif
    }
  }
};

// Products become logits, and those of keys that a row does not see minus infinity. `scales` are those of the stage's
// keys with kTokenScales.
QUERN_DEVICE void mask_scores(const AttentionParams& p, const Sequence& s, const RowContext& rows,
                              const f32 (&factor)[2], i32 key, bool masked, const f32* scales, Accumulator& x) {
  if constexpr (kTokenScales) {
    QUERN_UNROLL for (int i = 0; i < 8; ++i) x.x[i] *= scales[key_of_score(i)];
  } else {
    (void)scales;
  }
  if constexpr (!kPlainScale) {
    QUERN_UNROLL for (int i = 0; i < 8; ++i) {
      const int h = held_row(i);
      const i32 position = s.kv_len - s.q_len + (rows.first + 8 * h) / kGroup;
      x.x[i] = logit(p, factor[h], x.x[i], rows.slope[h], key + key_of_score(i) - position);
    }
  }
  if (!masked) return;
  QUERN_UNROLL for (int h = 0; h < 2; ++h) {
    const Range seen = visible(p, s, rows.first + 8 * h);
    const u32 count = static_cast<u32>(seen.last > seen.first ? seen.last - seen.first : 0);
    u32 bits = 0xffffu;
    if constexpr (kCustomMask) {
      const i32 row = rows.first + 8 * h;
      if (key + kPipeKeys > rows.mask.first)
        bits = row < s.q_len * kGroup ? mask_bits(rows.mask, row / kGroup, key) : 0u;
    }
    QUERN_UNROLL for (int i = 0; i < 8; ++i) {
      if (held_row(i) != h) continue;
      const bool stays = static_cast<u32>(key + key_of_score(i) - seen.first) < count &&
                         (!kCustomMask || (bits >> key_of_score(i) & 1) != 0);
      x.x[i] = stays ? x.x[i] : -infinity();
    }
  }
}

// Each weight times the scale of its value. The scales are taken relative to a power of two, which follows when they
// outgrow it: a weight of f16 must neither overflow nor vanish. Returns what was summed before is to be multiplied by.
QUERN_DEVICE f32 scale_weights(const f32* scales, RowSoftmax& softmax, Accumulator& x) {
  f32 own[4], largest = 0.0f;  // of the lane's four keys
  QUERN_UNROLL for (int k = 0; k < 4; ++k) {
    own[k] = scales[(lane() & 3) + 4 * k];
    const f32 size = fabs(own[k]);
    if (size < infinity()) largest = fmax(largest, size);
  }
  largest = reduce_row_max(largest);
  const f32 before = softmax.values;
  f32 shrink = 1.0f;
  if (largest > 16.0f * before) {
    const u32 exponent = (bits_of(largest) & 0x7f800000u) + 0x00800000u;  // of the power of two above it
    softmax.values = f32_of(exponent < 0x7e000000u ? exponent : 0x7e000000u);
    shrink = before / softmax.values;
  }
  const f32 inverse = softmax.values > 0.0f ? f32_of(0x7f000000u - bits_of(softmax.values)) : 0.0f;
  QUERN_UNROLL for (int i = 0; i < 8; ++i) {
    const f32 scale = own[(i >> 2) * 2 + (i & 1)];
    // A key that is not seen counts nothing, whatever its scale is.
    x.x[i] = x.x[i] == 0.0f ? 0.0f : x.x[i] * (scale * inverse);
  }
  return shrink;
}

// Turns logits into weights relative to the maximum. True when that has changed for one of the lane's rows: what was
// summed before is then to be multiplied by `rescale`. `scales` are those of the stage's values with kTokenScales.
QUERN_DEVICE bool weigh_scores(const f32 (&factor)[2], const f32* scales, Accumulator& x, RowSoftmax& softmax,
                               f32 (&rescale)[2]) {
  f32 base[2];
  bool changed = false;
  QUERN_UNROLL for (int h = 0; h < 2; ++h) {
    const f32 most = reduce_row_max(fmax(fmax(x.x[2 * h], x.x[2 * h + 1]), fmax(x.x[2 * h + 4], x.x[2 * h + 5])));
    const f32 before = softmax.max[h], now = kPlainScale ? most * factor[h] : most;
    if (now > before + kSlack) softmax.max[h] = now;
    changed |= softmax.max[h] != before;
    base[h] = finite_max(softmax.max[h]) - kLift;
    rescale[h] = exp2(before - finite_max(softmax.max[h]));
    softmax.sum[h] *= rescale[h];
  }
  QUERN_UNROLL for (int i = 0; i < 8; ++i) {
    const int h = held_row(i);
    x.x[i] = exp2(fma(x.x[i], kPlainScale ? factor[h] : 1.0f, -base[h]));
    softmax.sum[h] += x.x[i];
  }
  if constexpr (kTokenScales) {
    const f32 shrink = scale_weights(scales, softmax, x);
    changed |= shrink != 1.0f;
    QUERN_UNROLL for (int h = 0; h < 2; ++h) rescale[h] *= shrink;
  } else {
    (void)scales;
  }
  return changed;
}

// Rows that see one of the keys whose values were not finite come to NaN: `bad` has a bit for each of them, from `key`
// on.
QUERN_DEVICE void spoil_rows(const AttentionParams& p, const Sequence& s, const RowContext& rows, u32 bad, i32 key,
                             RowSoftmax& softmax) {
  QUERN_ROLLED for (i32 j = key; bad != 0; bad >>= 1, ++j) {
    if ((bad & 1) == 0) continue;
    QUERN_UNROLL for (int h = 0; h < 2; ++h) {
      if (sees(p, s, rows.mask, rows.first + 8 * h, j)) softmax.sum[h] = nan();
    }
  }
}

}  // namespace q
