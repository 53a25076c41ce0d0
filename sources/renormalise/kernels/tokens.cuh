// A row's tokens: their order, what they weigh, and their probabilities once it is known which of them stay.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "renormalise/params.cuh"
#include "softmax/kernels/numbers.cuh"

namespace q {

inline constexpr bool kLogits = LOGITS != 0;

// Tokens that can be chosen: with a probability, or a logit above -inf. No other has a key as large as that of the
// least of them.
QUERN_DEVICE u32 key_of_token(f32 x) { return x > (kLogits ? -infinity() : 0.0f) ? key_of_number(x) : 0u; }
QUERN_DEVICE u32 least_key_of_tokens() { return kLogits ? 0x00800000u : 0x80000001u; }

// Weights are in units of 2^-40 of the largest, or a little less: of probabilities they are exact down to 2^-17 of it,
// and of logits e^-z, z the distance from the largest over the temperature.
struct Scale {
  f32 max, factor;  // factor: a power of two, or 1 / temperature

  QUERN_DEVICE static Scale of_probabilities(f32 max) {
    const i32 exponent = static_cast<i32>(bits_of(max) >> 23);  // 0 where it is subnormal
    const i32 scaled = 127 + 40 - (exponent - 127);
    return {max, f32_of(static_cast<u32>(scaled < 254 ? scaled : 254) << 23)};
  }
  // In those units, not rounded down.
  QUERN_DEVICE f32 value(f32 x) const {
    if constexpr (kLogits) {
      return exp_of_minus(at_most(x == max ? 0.0f : (max - x) * factor, 128.0f)) * 0x1p40f;
    } else {
      return x * factor;
    }
  }
  // A key such that tokens of lower ones weigh nothing.
  QUERN_DEVICE u32 least_key() const {
    const f32 value = kLogits ? max - 28.0f * rcp(factor) : max * 0x1p-42f;
    return value <= max ? key_of_number(value) : 0u;
  }
  QUERN_DEVICE u64 weight(f32 x) const { return static_cast<u64>(value(x)); }
  QUERN_DEVICE u64 weight_of_key(u32 key) const { return key != 0 ? weight(number_of_key(key)) : u64{0}; }
};

// Whether a token, whose key is not 0 where there is one, lies at a place of the row's order or before it.
QUERN_DEVICE bool stays(u32 key, i32 index, u64 least) {
  const u32 least_key = static_cast<u32>(least >> 32);
  return key > least_key || (key == least_key && ~static_cast<u32>(index) >= static_cast<u32>(least));
}
QUERN_DEVICE f32 probability_of(const KeptRow& row, f32 x, i32 index) {
  const u32 key = key_of_token(x);
  if (!stays(key, index, row.least)) return 0.0f;
  if constexpr (kLogits) {
    // By the target's instruction: what stays has been decided.
    return exp2(x == row.max ? 0.0f : (x - row.max) * row.factor * kLog2OfE) * (0x1p40f * row.inverse_sum);
  } else {
    return Scale{row.max, row.factor}.value(number_of_key(key)) * row.inverse_sum;
  }
}
// Whether any of the lanes' tokens may stay: mostly none of them does.
template <int count>
QUERN_DEVICE bool any_stays(const KeptRow& row, const f32 (&x)[count]) {
  const f32 least = number_of_key(static_cast<u32>(row.least >> 32));
  bool any = false;
  QUERN_UNROLL for (int i = 0; i < count; ++i) any |= !(x[i] < least);
  return ballot(any) != 0;
}

}  // namespace q
