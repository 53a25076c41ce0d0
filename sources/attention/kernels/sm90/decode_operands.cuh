// From stages and queries to the operands of products, in the order in which lanes read them: a product sums over dims
// in any order, as long as queries and keys agree, and columns of results may be any dims.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "attention/kernels/sm90/decode_shape.cuh"

namespace q {

// Two codes, in the low bytes, to two f16.
template <class Code>
QUERN_DEVICE u32 halves_of(u32 codes) {
#ifdef QUERN_NATIVE_FP8
  return NativeFp8<Code>::decode(static_cast<u16>(codes));
#else
  const f32x2 v = unpack_fp8<Code>(static_cast<u16>(codes));
  return pack<f16>(v.x, v.y);
#endif
}
// e5m2 is the upper half of an f16.
template <>
QUERN_DEVICE u32 halves_of<e5m2>(u32 codes) {
  return permute_bytes<0x1404>(codes, 0);
}
// int8: with its sign turned the code is a number from 0 to 255, which stands in the low bits of 1024 and itself.
template <>
QUERN_DEVICE u32 halves_of<i8>(u32 codes) {
  return add_halves(permute_bytes<0x4140>(codes ^ 0x8080u, 0x64646464u), 0xe480e480u);
}

// Four codes to four elements of Product, two by two.
template <class Code>
struct FourOf {
  u32 x[2];
  QUERN_DEVICE explicit FourOf(u32 codes) : x{halves_of<Code>(codes), halves_of<Code>(codes >> 16)} {}
};

// ---- Keys. A lane holds 16 bytes of every 64 of a key: kOwn elements of a group of 4 kOwn dims, kOwn / 4 steps.
inline constexpr int kOwn = 16 / kCacheBytes;
inline constexpr int kGroupsK = kRowBytesK / 64, kStepsOfGroup = kOwn / 4;
static_assert(kGroupsK * kStepsOfGroup == kStepsK);

// Step `step` of a group, of a lane's 16 bytes of keys of the first and of the last eight.
template <class Code>
QUERN_DEVICE OperandB<Product> keys_of(const vec16& first, const vec16& last, int step) {
  if constexpr (sizeof(Code) == 1) {
    const FourOf<Code> a(first.x[step]), b(last.x[step]);
    return {{a.x[0], a.x[1], b.x[0], b.x[1]}};
  } else {
    return {{first.x[2 * step % 4], first.x[(2 * step + 1) % 4], last.x[2 * step % 4], last.x[(2 * step + 1) % 4]}};
  }
}

// Where a lane reads in a pipe's stages, found once: in a loop the compiler would begin each time with the number of
// the thread, and wait for it.
struct LanePlaces {
  SharedArray<u8> keys_even, keys_odd, values_even, values_odd;

  QUERN_DEVICE explicit LanePlaces(u8* stages)
      : keys_even(stages + of_keys(0)),
        keys_odd(stages + of_keys(1)),
        values_even(stages + of_values(0)),
        values_odd(stages + of_values(1)) {}

  // A lane's 16 bytes of group `g` of the key that it has of the first eight, or (`last`) of the last, of the stage
  // that begins so many bytes further on.
  QUERN_DEVICE vec16 key(i32 stage, int g, bool last) const {
    return load_shared_16(g % 2 == 0 ? keys_even : keys_odd, stage + g / 2 * 128 + (last ? 8 * kRowBytesK : 0));
  }
  // Of codes, the lane's 16 bytes of columns 128 c and on of its k-th key.
  QUERN_DEVICE vec16 value(i32 stage, int c, int k) const {
    return load_shared_16(k % 2 == 0 ? values_even : values_odd, stage + c * 128 + k / 2 * 8 * kRowBytesV);
  }

 private:
  QUERN_DEVICE static int of_keys(int g) {
    return swizzled<kRowBytesK>(key_of_column(lane() >> 2), 4 * g + (lane() & 3));
  }
  QUERN_DEVICE static int of_values(int k) {
    return kPipeKeys * kRowBytesK + swizzled<kRowBytesV>((lane() & 3) + 4 * k, key_of_column(lane() >> 2));
  }
};

// Values of codes in a stage, of columns of whole 128s, as a lane reads them.
struct ValueCodes {
  vec16 of_key[kDimV / 128 > 0 ? kDimV / 128 : 1][4];
  QUERN_DEVICE void load(const LanePlaces& places, i32 stage) {
    QUERN_UNROLL for (int c = 0; c < kDimV / 128; ++c) {
      QUERN_UNROLL for (int k = 0; k < 4; ++k) of_key[c][k] = places.value(stage, c, k);
    }
  }
};

// ---- Queries
// A row's queries times a power of two, where they are bf16 that become f16; what its logits are multiplied by.
struct Queries {
  OperandA<Product> steps[kStepsK];
  f32 factor[2];
};

// kOwn elements as pairs of Product, but for bf16 that is still to become f16.
template <class From>
QUERN_DEVICE void load_queries(const From* from, u32 (&to)[kOwn / 2]) {
  if constexpr (sizeof(From) == 1) {
    QUERN_UNROLL for (int i = 0; i < kOwn / 8; ++i) {
      const Codes codes = load_codes(from + i * 8);
      if constexpr (kCoded) {
        QUERN_UNROLL for (int j = 0; j < 2; ++j) {
          const FourOf<From> four(codes.x[j]);
          to[4 * i + 2 * j] = four.x[0], to[4 * i + 2 * j + 1] = four.x[1];
        }
      } else {
        const vec16 eight = widen_codes<From>(codes);
        QUERN_UNROLL for (int j = 0; j < 4; ++j) to[4 * i + j] = eight.x[j];
      }
    }
  } else {
    QUERN_UNROLL for (int i = 0; i < kOwn / 8; ++i) {
      const vec16 eight = load16(from + i * 8);
      QUERN_UNROLL for (int j = 0; j < 4; ++j) to[4 * i + j] = eight.x[j];
    }
  }
}

// f16 has not the range of bf16: a row is taken relative to a power of two, with its largest element below 2^15. What
// that makes vanish is below 2^-38 of it.
QUERN_DEVICE void to_halves(Queries& q) {
  QUERN_UNROLL for (int h = 0; h < 2; ++h) {
    f32 largest = 0.0f;
    QUERN_UNROLL for (int k = 0; k < kStepsK; ++k) {
      QUERN_UNROLL for (int i = h; i < 4; i += 2) {
        const f32x2 v = unpack<Element>(q.steps[k].x[i]);
        largest = fmax(fmax(largest, fabs(v.x)), fabs(v.y));
      }
    }
    largest = reduce_row_max(largest);
    const i32 exponent = static_cast<i32>(bits_of(largest) >> 23);  // with the bias of 127
    const i32 taken = exponent < 40 ? 40 : exponent;
    const f32 scale = f32_of(static_cast<u32>(127 + 127 + 14 - taken) << 23);
    q.factor[h] *= f32_of(static_cast<u32>(taken - 14) << 23);
    QUERN_UNROLL for (int k = 0; k < kStepsK; ++k) {
      QUERN_UNROLL for (int i = h; i < 4; i += 2) {
        const f32x2 v = unpack<Element>(q.steps[k].x[i]);
        q.steps[k].x[i] = pack<f16>(v.x * scale, v.y * scale);
      }
    }
  }
}

// Straight from global memory: a lane's two rows. `factor` is what products of all rows are multiplied by.
QUERN_DEVICE void load_queries(const AttentionParams& p, const Sequence& s, const Piece& piece, f32 factor,
                               Queries& q) {
  const i32 rows = s.q_len * kGroup;
  QUERN_UNROLL for (int h = 0; h < 2; ++h) {
    const i32 r = piece.tile * kRows + row_of(lane(), h);
    const bool inside = r < rows;
    const i64 token = s.q_begin + (inside ? r / kGroup : 0);
    const i32 head = piece.head * kGroup + (inside ? r % kGroup : 0);
    const QueryElement* const from = static_cast<const QueryElement*>(p.queries) + token * p.q_stride_token +
                                     head * p.q_stride_head + (lane() & 3) * kOwn;
    q.factor[h] = factor;
    if (kCodedQueries && p.q_scale)
      q.factor[h] *= p.q_scale[token * p.q_scale_stride_token + head * p.q_scale_stride_head];
    QUERN_UNROLL for (int g = 0; g < kGroupsK; ++g) {
      u32 pairs[kOwn / 2] = {};
      if (inside) load_queries(from + g * 4 * kOwn, pairs);
      QUERN_UNROLL for (int j = 0; j < kStepsOfGroup; ++j) {
        OperandA<Product>& to = q.steps[g * kStepsOfGroup + j];
        to.x[h] = pairs[2 * j], to.x[2 + h] = pairs[2 * j + 1];
      }
    }
  }
  if constexpr (kCoded && !kCodedQueries && !kIsF16<Element>) to_halves(q);
  // The largest logit is sought among products: a factor must not turn their order.
  if constexpr (kCoded || kCodedQueries) {
    QUERN_UNROLL for (int h = 0; h < 2; ++h) {
      const u32 turn = q.factor[h] < 0.0f ? 0x80008000u : 0u;
      QUERN_UNROLL for (int k = 0; k < kStepsK; ++k) q.steps[k].x[h] ^= turn, q.steps[k].x[2 + h] ^= turn;
      // Nor may it make NaN of minus infinity.
      q.factor[h] = fmax(fabs(q.factor[h]), 0x1p-126f);
    }
  }
}

// ---- Values
inline constexpr int kPairsV = kDimV / 16;  // operands of sixteen columns
// Of codes, column n of the eight columns `m` is dim 16 key_of_column(n) + m of 128, and of what is left beyond whole
// 128s dim 8 key_of_column(n) + m: a lane's codes lie side by side.
inline constexpr int kWholeV = kDimV / 128;

// Multiplies weights by a stage's values.
template <class Code>
QUERN_DEVICE void add_codes(const OperandA<f16>& weights, const u32 (&a)[4], i32 pair, Accumulator (&o)[kPairsV]) {
  // a: four codes of each of the lane's keys: two of the first and two of the last eight of the stage.
  const u32 low[2] = {permute_bytes<0x5140>(a[0], a[1]), permute_bytes<0x5140>(a[2], a[3])};
  const u32 high[2] = {permute_bytes<0x7362>(a[0], a[1]), permute_bytes<0x7362>(a[2], a[3])};
  QUERN_UNROLL for (int i = 0; i < 2; ++i) {
    const FourOf<Code> first(i == 0 ? low[0] : high[0]), last(i == 0 ? low[1] : high[1]);
    mma(o[pair + i], weights, OperandB<f16>{{first.x[0], last.x[0], first.x[1], last.x[1]}});
  }
}

template <class Code>
QUERN_DEVICE void multiply_values(const OperandA<Product>& weights, const ValueCodes& codes, const u8* values,
                                  Accumulator (&o)[kPairsV]) {
  const int l = lane(), t = l & 3;
  if constexpr (sizeof(Code) == 1) {
    const int part = key_of_column(l >> 2);
    QUERN_UNROLL for (int c = 0; c < kWholeV; ++c) {
      const vec16(&of_key)[4] = codes.of_key[c];
      QUERN_UNROLL for (int w = 0; w < 4; ++w) {
        const u32 four[4] = {of_key[0].x[w], of_key[1].x[w], of_key[2].x[w], of_key[3].x[w]};
        add_codes<Code>(weights, four, 8 * c + 2 * w, o);
      }
    }
    if constexpr (kDimV % 128 != 0) {
      Codes of_key[4];
      QUERN_UNROLL for (int k = 0; k < 4; ++k) {
        const void* const at = values + swizzled<kRowBytesV>(t + 4 * k, 8 * kWholeV + part / 2) + part % 2 * 8;
        of_key[k] = *static_cast<const Codes*>(at);
      }
      QUERN_UNROLL for (int w = 0; w < 2; ++w) {
        const u32 four[4] = {of_key[0].x[w], of_key[1].x[w], of_key[2].x[w], of_key[3].x[w]};
        add_codes<Code>(weights, four, 8 * kWholeV + 2 * w, o);
      }
    }
  } else {
    const int key = (l >> 3 & 1) * 8 + key_of_column(l & 7);
    QUERN_UNROLL for (int m = 0; m < kPairsV; ++m) {
      OperandB<Product> b;
      load_matrix<true>(b.x, values + swizzled<kRowBytesV>(key, 2 * m + (l >> 4)));
      mma(o[m], weights, b);
    }
  }
}

// One of a lane's rows, half `h`, of sums to a row of f32.
template <int h>
QUERN_DEVICE void store_row(const Accumulator (&o)[kPairsV], f32* row) {
  const int t = lane() & 3;
  if constexpr (kCoded) {
    QUERN_UNROLL for (int e = 0; e < 2; ++e) {  // columns 2 t and 2 t + 1
      const int part = t + 4 * e;
      QUERN_UNROLL for (int m = 0; m < kPairsV; m += 2) {
        const bool whole = m < 8 * kWholeV;
        f32* const to = row + (whole ? m / 8 * 128 + part * 16 + m % 8 * 2 : kWholeV * 128 + part * 8 + m % 8 * 2);
        store16(to, {{bits_of(o[m].x[2 * h + e]), bits_of(o[m].x[4 + 2 * h + e]), bits_of(o[m + 1].x[2 * h + e]),
                      bits_of(o[m + 1].x[4 + 2 * h + e])}});
      }
    }
  } else {
    QUERN_UNROLL for (int m = 0; m < kPairsV; ++m) {
      QUERN_UNROLL for (int i = 0; i < 2; ++i) {
        *reinterpret_cast<f32x2*>(row + 16 * m + 8 * i + 2 * t) = {o[m].x[4 * i + 2 * h], o[m].x[4 * i + 2 * h + 1]};
      }
    }
  }
}

// ---- Values that are not finite
// Whether one of 16 bytes of values is.
QUERN_DEVICE bool all_finite(const vec16& v) {
  if constexpr (!kCoded) {
    return is_finite(v);
  } else {
    constexpr u32 kExponent = kIsE4m3<CacheElement> ? 0x7f7f7f7fu : 0x7c7c7c7cu;
    constexpr u32 kOne = kIsE4m3<CacheElement> ? 0x01010101u : 0x04040404u;
    u32 beyond = 0;
    QUERN_UNROLL for (int i = 0; i < 4; ++i) beyond |= ((v.x[i] & kExponent) + kOne) & 0x80808080u;
    return beyond == 0;
  }
}
// Clears what is not finite in a stage's values, with its neighbours, so that it does not reach rows which do not see
// it; a bit for each of their keys.
QUERN_DEVICE u32 clear_values(u8* values) {
  u32 found = 0;
  QUERN_ROLLED for (int i = lane(); i < kPipeKeys * (kRowBytesV / 16); i += kWarp) {
    const int row = i % kPipeKeys;
    u8* const at = values + swizzled<kRowBytesV>(row, i / kPipeKeys);
    if (all_finite(load16(at))) continue;
    found |= 1u << row;
    store16(at, {});
  }
  found = warp_reduce(found, [](u32 a, u32 b) { return a | b; });
  sync_warp();
  return found;
}

}  // namespace q
