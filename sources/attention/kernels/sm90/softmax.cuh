// The running softmax of a consumer's rows over blocks of keys, on the accumulators of the product of queries and keys.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "attention/kernels/shared/custom_mask.cuh"
#include "attention/kernels/shared/logit.cuh"
#include "attention/kernels/sm90/operands.cuh"
#include "common/whole.cuh"

namespace q {

using Scores = f32[kBlock / 2];

// Weights of e4m3 have few binary orders of magnitude, up to 448 = 2^8.8: those of the maximum of before are 2^kLift,
// and it may lag behind by what is left. Where it is looked for in every block it may lag behind by little.
inline constexpr bool kTwoOfEights = kEights && TWO_WEIGHTS != 0;
inline constexpr f32 kLift = !kEights ? 0.0f : kTwoOfEights ? 6.0f : 7.0f;
inline constexpr f32 kLag = !kEights ? kSlack : kTwoOfEights ? 8.8f - kLift : 1.0f;
// Where weights come to no more, none of them is larger than it may be: 2^kSlack, or less than 2^(kLift + kLag).
inline constexpr f32 kLargestSum = kEights ? 440.0f : 256.0f;
static_assert(kSlack == 8.0f);

// Where weights of some keys are made by one warpgroup and used by another, those that come from different ones are
// relative to different maxima: whole numbers, so that what one has rounded is changed to the other's without a further
// error.
#ifndef WHOLE_MAXIMA
#define WHOLE_MAXIMA 0
#endif
inline constexpr bool kWholeMaxima = WHOLE_MAXIMA != 0;

// Keys have one scale, of the tensor or the head, that logits take in.
inline constexpr bool kScaledKeys = kCoded && !kTokenScales;

// Scales of a block's tokens, in shared memory: of keys, and kBlock further on of values. `first` is that of the
// thread's first column.
struct TokenScales {
  SharedArray<f32> all;
  i32 first;
  f32 largest;  // of the values

  // Of the columns of elements i and i + 1, i a multiple of 4, which elements i + 2 and i + 3 have too.
  QUERN_DEVICE f32x2 of_keys(int i) const { return at(first + i * 2); }
  QUERN_DEVICE f32x2 of_values(int i) const { return at(first + kBlock + i * 2); }

 private:
  QUERN_DEVICE f32x2 at(i32 place) const {
    f32 v[2];
    load_shared(v, all, place);
    return {v[0], v[1]};
  }
};

// Of a thread's two rows: the maximum in units of log2, and sums of weights in two parts, each an independent chain.
struct RowSoftmax {
  bool seek = true;   // the maximum in the next block, too: of a row of the warp there is none yet or, of e4m3, it has
                      // just been outgrown
  f32 values = 0.0f;  // with kTokenScales: the sums of values are to be multiplied by it, a power of two or 0
  f32 max[2] = {-infinity(), -infinity()};
  f32 sum[2][2] = {{0.0f, 0.0f}, {0.0f, 0.0f}};
};

// What products of codes of a row are multiplied by.
QUERN_DEVICE f32 row_factor(const AttentionParams& p, const Sequence& s, i32 head, i32 row) {
  f32 factor = p.scale;
  if (p.k_scale) factor *= p.k_scale[head * p.k_scale_stride_head];
  if (kEights && p.q_scale && row < s.q_len * kGroup) {
    factor *= p.q_scale[(s.q_begin + row / kGroup) * p.q_scale_stride_token +
                        (head * kGroup + row % kGroup) * p.q_scale_stride_head];
  }
  return factor;
}

// What a thread needs to know of its rows.
struct Rows {
  i32 first;  // the thread's first row among those of the KV head; the other one comes 8 later
  f32 slope[2];
  f32 factor[2];                    // of products; with log2(e) in it unless there is a cap
  bool turned[2] = {false, false};  // the sign of products
  CustomMask mask;

  QUERN_DEVICE Rows(const AttentionParams& p, const Sequence& s, i32 head, i32 first_row)
      : first(first_row), mask(custom_mask(p, s)) {
    QUERN_UNROLL for (int h = 0; h < 2; ++h) {
      factor[h] = p.scale;
      if constexpr (kScaledKeys) {
        const f32 scale = row_factor(p, s, head, first + 8 * h);
        // The largest logit is sought among products: a factor must not turn their order, nor make NaN of minus
        // infinity.
        turned[h] = scale < 0.0f;
        factor[h] = fmax(fabs(scale), 0x1p-126f);
      }
#if ALIBI
      const i32 row = first + 8 * h;
      slope[h] = row < s.q_len * kGroup ? p.alibi_slopes[head * kGroup + row % kGroup] * kLog2E : 0.0f;
#else
      slope[h] = 0.0f, (void)p, (void)s, (void)head;
#endif
    }
  }
};

// Logits of keys that the custom mask hides from a row become minus infinity.
QUERN_DEVICE void keep_bits(const Sequence& s, const Rows& rows, int thread, i32 key, Scores& x) {
  QUERN_UNROLL for (int n = 0; n < kBlock / 16; ++n) {
    u32 bits[2];
    QUERN_UNROLL for (int h = 0; h < 2; ++h) {
      const i32 row = rows.first + 8 * h;
      bits[h] = row < s.q_len * kGroup ? mask_bits(rows.mask, row / kGroup, key + n * 16) : 0u;
    }
    QUERN_UNROLL for (int i = 8 * n; i < 8 * n + 8; ++i) {
      if ((bits[half_of(i)] >> (accumulator_column(thread, i) - 16 * n) & 1) == 0) x[i] = -infinity();
    }
  }
}

// Products take in the scales of their keys.
QUERN_DEVICE void scale_scores(const TokenScales& scales, Scores& x) {
  QUERN_UNROLL for (int i = 0; i < kBlock / 2; i += 4) {
    const f32x2 two = scales.of_keys(i);
    QUERN_UNROLL for (int h = 0; h < 2; ++h) x[i + 2 * h] *= two.x, x[i + 2 * h + 1] *= two.y;
  }
}

// Scales of values are taken relative to a power of two, which follows when they outgrow it: a weight of f16 must
// neither overflow nor vanish. What was summed before is then to be multiplied by what is returned, else 1.
QUERN_DEVICE f32 follow_scales(const TokenScales& scales, RowSoftmax& softmax) {
  const f32 before = softmax.values;
  if (!(scales.largest > 16.0f * before)) return 1.0f;
  const u32 exponent = (bits_of(scales.largest) & 0x7f800000u) + 0x00800000u;  // of the power of two above it
  softmax.values = f32_of(exponent < 0x7e000000u ? exponent : 0x7e000000u);
  return before / softmax.values;
}
QUERN_DEVICE f32 inverse_of_values(const RowSoftmax& softmax) {
  return softmax.values > 0.0f ? f32_of(0x7f000000u - bits_of(softmax.values)) : 0.0f;
}

// Products become logits, and those of keys that a row does not see minus infinity.
QUERN_DEVICE void mask_scores(const AttentionParams& p, const Sequence& s, const Rows& rows, int thread, i32 key,
                              bool masked, Scores& x) {
  if (kScaledKeys && (rows.turned[0] || rows.turned[1])) {
    QUERN_UNROLL for (int i = 0; i < kBlock / 2; ++i) x[i] = rows.turned[half_of(i)] ? -x[i] : x[i];
  }
  if constexpr (!kPlainScale) {
    QUERN_UNROLL for (int i = 0; i < kBlock / 2; ++i) {
      const int h = half_of(i);
      const i32 position = s.kv_len - s.q_len + (rows.first + 8 * h) / kGroup;
      x[i] = logit(p, rows.factor[h], x[i], rows.slope[h], key + accumulator_column(thread, i) - position);
    }
  }
  if (masked) {
    i32 from[2], to[2];
    QUERN_UNROLL for (int h = 0; h < 2; ++h) {
      const Range seen = visible(p, s, rows.first + 8 * h);
      from[h] = seen.first - key, to[h] = seen.last - key;
    }
    keep_columns(x, thread, from, to);
    if constexpr (kCustomMask) {
      if (key + kBlock > rows.mask.first) keep_bits(s, rows, thread, key, x);
    }
  }
}

// What logits in hand are multiplied by. One factor for all rows stays out of registers.
QUERN_DEVICE f32 factor_of(const AttentionParams& p, const Rows& rows, int h) {
  return !kPlainScale ? 1.0f : kEights ? rows.factor[h] : kScaledKeys ? rows.factor[0] : p.scale;
}

// Turns logits into weights relative to the maximum. True when that has changed for one of the thread's rows: what was
// summed before is then to be multiplied by `rescale`. Weights take in the scales of values where `scales` are given.
QUERN_DEVICE bool weigh_scores(const AttentionParams& p, const Rows& rows, Scores& x, RowSoftmax& softmax,
                               f32 (&rescale)[2], const TokenScales* scales = nullptr) {
  f32 factor[2];
  QUERN_UNROLL for (int h = 0; h < 2; ++h) factor[h] = factor_of(p, rows, h);
  f32 most[2] = {-infinity(), -infinity()}, base[2];
  maximum(x, most);
  bool changed = false;
  QUERN_UNROLL for (int h = 0; h < 2; ++h) {
    const f32 before = softmax.max[h], now = quad_max(most[h]) * factor[h];
    if (now > before + kLag) softmax.max[h] = kWholeMaxima ? ceil(now) : now;
    changed |= softmax.max[h] != before;
    base[h] = finite_max(softmax.max[h]) - kLift;
    rescale[h] = exp2(before - finite_max(softmax.max[h]));
    QUERN_UNROLL for (int part = 0; part < 2; ++part) softmax.sum[h][part] *= rescale[h];
  }
  QUERN_UNROLL for (int i = 0; i < kBlock / 2; ++i) {
    const int h = half_of(i);
    x[i] = exp2(fma(x[i], factor[h], -base[h]));
    softmax.sum[h][i & 1] += x[i];
  }
  if constexpr (kTokenScales) {
    const f32 shrink = follow_scales(*scales, softmax), inverse = inverse_of_values(softmax);
    QUERN_UNROLL for (int i = 0; i < kBlock / 2; i += 4) {
      f32x2 two = scales->of_values(i);
      two.x *= inverse, two.y *= inverse;
      QUERN_UNROLL for (int h = 0; h < 2; ++h) x[i + 2 * h] *= two.x, x[i + 2 * h + 1] *= two.y;
    }
    changed |= shrink != 1.0f;
    rescale[0] *= shrink, rescale[1] *= shrink;
  } else {
    (void)scales;
  }
  return changed;
}

// The same, with weights as operands of their own, so that logits stay what they are: weights are first taken relative
// to the maximum of before, and the logits' maximum is looked for only where sums tell that it may have grown by more
// than it may lag behind, or where there is none yet. Of weights of 16 bits, which take in the scales of values where
// `scales` are given, what comes is the same as if it were always looked for; of e4m3 it depends on the warp's other
// rows, too, which are always the same.
template <int steps>
QUERN_DEVICE bool weigh_into(const AttentionParams& p, const Rows& rows, const Scores& x, RowSoftmax& softmax,
                             f32 (&rescale)[2], u32 (&weights)[steps][4], const TokenScales* scales = nullptr) {
  f32 factor[2];
  QUERN_UNROLL for (int h = 0; h < 2; ++h) factor[h] = factor_of(p, rows, h);
  f32 shrink = 1.0f, inverse = 1.0f;
  if constexpr (kTokenScales) shrink = follow_scales(*scales, softmax), inverse = inverse_of_values(softmax);
  bool changed = false, sought = softmax.seek;
  rescale[0] = rescale[1] = 1.0f;
  bool outgrown = false;
  f32 sum[2][2];
  QUERN_ROLLED for (;;) {
    f32 base[2];
    if (sought) {
      f32 most[2] = {-infinity(), -infinity()};
      maximum(x, most);
      QUERN_UNROLL for (int h = 0; h < 2; ++h) {
        const f32 before = softmax.max[h], now = quad_max(most[h]) * factor[h];
        outgrown |= now > before + kLag;
        // Of e4m3 all rows of the warp follow at once, since the others would soon be the next to outgrow theirs.
        if (now > before + (kTwoOfEights ? 0.0f : kLag)) softmax.max[h] = now;
        changed |= softmax.max[h] != before;
        rescale[h] = exp2(before - finite_max(softmax.max[h]));
      }
    }
    QUERN_UNROLL for (int h = 0; h < 2; ++h) base[h] = finite_max(softmax.max[h]) - kLift;
    const auto weight = [&](int i) { return exp2(fma(x[i], factor[half_of(i)], -base[half_of(i)])); };
    bool few;  // no weight is larger than a sum that it is in; a NaN is looked at again, too
    if constexpr (kEights) {
      f32 largest = 0.0f;
      QUERN_UNROLL for (int step = 0; step < steps; ++step) {
        QUERN_UNROLL for (int h = 0; h < 2; ++h) {
          f32 eight = 0.0f;
          QUERN_UNROLL for (int r = h; r < 4; r += 2) {
            const int first = 16 * step + (r >> 1) * 8 + h * 2;
            const f32 w[4] = {weight(first), weight(first + 1), weight(first + 4), weight(first + 5)};
            const f32 four = (w[0] + w[1]) + (w[2] + w[3]);
            eight = r == h ? four : eight + four;
            weights[step][r] = pack_four_fp8<Weight>(w[0], w[1], w[2], w[3]);
          }
          largest = fmax(largest, eight);
          sum[h][step & 1] = step < 2 ? eight : sum[h][step & 1] + eight;
        }
      }
      few = largest <= kLargestSum;
    } else {
      QUERN_UNROLL for (int i = 0; i < kBlock / 2; i += 2) {
        const int h = half_of(i);
        const f32 first = weight(i), second = weight(i + 1);
        sum[h][0] = i < 4 ? first : sum[h][0] + first;
        sum[h][1] = i < 4 ? second : sum[h][1] + second;
        if constexpr (kTokenScales) {
          const f32x2 two = scales->of_values(i / 4 * 4);
          weights[i / 8][i / 2 % 4] = pack<Element>(first * (two.x * inverse), second * (two.y * inverse));
        } else {
          weights[i / 8][i / 2 % 4] = pack<Element>(first, second);
        }
      }
      few = sum[0][0] + sum[0][1] <= kLargestSum && sum[1][0] + sum[1][1] <= kLargestSum;
    }
    if (sought) {
      const bool none = softmax.max[0] == -infinity() || softmax.max[1] == -infinity();
      softmax.seek = any_lane(none || (kTwoOfEights && outgrown));
      break;
    }
    if (!any_lane(!few)) break;
    sought = true;
  }
  QUERN_UNROLL for (int h = 0; h < 2; ++h) {
    QUERN_UNROLL for (int part = 0; part < 2; ++part) softmax.sum[h][part] =
        fma(softmax.sum[h][part], rescale[h], sum[h][part]);
  }
  if constexpr (kTokenScales) {
    changed |= shrink != 1.0f;
    rescale[0] *= shrink, rescale[1] *= shrink;
  } else {
    (void)scales, (void)shrink, (void)inverse;
  }
  return changed;
}

}  // namespace q
