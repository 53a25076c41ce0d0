// How logits are compared and weighed.
//
// A token's place in its row's order is one 64-bit number: the logit as a key that orders as the numbers do, above the
// complement of the index. So no two are equal, and of equal logits the lowest index is the largest. Weights are e^(-z)
// in units of 2^-40, z the distance from the largest logit over the temperature: integers, whose sums do not depend on
// an order. Kernels that divide a row differently take the same steps to a weight, so that they draw the same token.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/pointwise.cuh"
#include "common/reduce.cuh"
#include "sample/params.cuh"

namespace q {

inline constexpr f32 kUnits = 0x1p40f;

QUERN_DEVICE u32 key_of(f32 x) {
  const u32 bits = bits_of(x + 0.0f);  // -0 becomes 0: they are equal
  return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}
QUERN_DEVICE f32 value_of(u32 key) { return f32_of(key & 0x80000000u ? key & 0x7fffffffu : ~key); }
// Keys up to this are of -inf, or of nothing: no token.
inline constexpr u32 kDead = 0x007fffffu;

using Place = u64;
QUERN_DEVICE Place place_of(f32 x, i32 index) { return static_cast<u64>(key_of(x)) << 32 | static_cast<u32>(~index); }
QUERN_DEVICE u32 key_at(Place place) { return static_cast<u32>(place >> 32); }
QUERN_DEVICE f32 value_at(Place place) { return value_of(key_at(place)); }
QUERN_DEVICE i32 index_at(Place place) { return static_cast<i32>(~static_cast<u32>(place)); }
QUERN_DEVICE bool is_token(Place place) { return key_at(place) > kDead; }

// 1 / x, rounded correctly where neither is subnormal. rcp() knows the others, in a hundred instructions more.
QUERN_DEVICE f32 inverse_near(f32 x) {
  const f32 first = rcp_approx(x), off = fma(first, x, -1.0f), better = fma(first, -off, first);
  return better == better ? better : first;  // of infinity and 0 there is no better one
}
// 1 / temperature where the row has one; with temperature 0 sums are of temperature 1. Finite, so that 0 times it is 0.
QUERN_DEVICE f32 inverse_of(f32 temperature) {
  return temperature > 0.0f ? fmin(inverse_near(fmax(temperature, 0x1p-100f)), 0x1p100f) : 1.0f;
}
// How far x lies below max, in units of the temperature. Infinities of the same sign lie at no distance.
QUERN_DEVICE f32 distance(f32 max, f32 x, f32 inverse_temperature) {
  return x == max ? 0.0f : (max - x) * inverse_temperature;
}
// -log2 of the share that x has of the largest logit's: `scale` is log2(e) over the temperature. fmin makes the NaN
// that infinities of the same sign leave a 0.
QUERN_DEVICE f32 exponent_of(f32 max, f32 x, f32 scale) { return fmin((x - max) * scale, 0.0f); }
QUERN_DEVICE f32 share_of_largest(f32 max, f32 x, f32 scale) { return exp2(exponent_of(max, x, scale)); }
QUERN_DEVICE u64 to_units(f32 share) { return static_cast<u64>(share * kUnits); }

}  // namespace q
