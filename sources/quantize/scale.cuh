// From the largest magnitude to the scale, and from values to codes by it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/kernel.cuh"
#include "quantize/vectors.cuh"

namespace q {

// The largest number of a type is 1.75 * 2^kLargestExponent.
template <class T>
inline constexpr u32 kLargestExponent = 8;  // e4m3: 448
template <>
inline constexpr u32 kLargestExponent<e5m2> = 15;  // 57344
template <class T>
inline constexpr f32 kLargest = 1.75f * static_cast<f32>(1u << kLargestExponent<T>);

// The larger of `largest` and the finite magnitudes of a vector: infinity times 0 and what NaN touches are NaN, which fmax passes
// over.
QUERN_DEVICE f32 largest_magnitude(f32 largest, const Vector& v) {
  QUERN_UNROLL for (int i = 0; i < kElements; ++i) largest = fmax(largest, fabs(fma(v.x[i], 0.0f, v.x[i])));
  return largest;
}

// largest / kLargest, rounded to nearest, or up to a power of two: largest <= 1.75 * 2^(e + k) for the least such e, read off its
// bits. At least 2^-126, the smallest normal number; 1 where there is nothing but zeros.
template <class T>
QUERN_DEVICE f32 scale_of(f32 largest, bool power_of_two) {
  constexpr u32 kLeast = 1u << 23, kDown = kLargestExponent<T> << 23;
  f32 scale = fmax(largest / kLargest<T>, f32_of(kLeast));
  if (power_of_two) {
    const u32 above = (bits_of(largest) + 0x1fffffu) & 0x7f800000u;
    scale = f32_of(above > kDown + kLeast ? above - kDown : kLeast);
  }
  return largest > 0.0f ? scale : 1.0f;
}

// 1 / scale as the sum of two numbers.
struct Divisor {
  f32 high, low;
};
QUERN_DEVICE Divisor divisor_of(f32 scale) {
  const f32 high = rcp(scale), rest = fma(-scale, high, 1.0f), low = high * rest;
  // Of 0 and infinity there is no rest.
  return {high, fabs(rest) < 1.0f ? fma(low, rest, low) : 0.0f};
}

// y / scale, rounded to nearest once: Brisebarre, Muller and Raina, "Accelerating correctly rounded floating-point division when
// the divisor is known in advance", 2004. Infinity and NaN stay what they are.
QUERN_DEVICE Vector divide(const Vector& y, const Divisor& by) {
  Vector quotient;
  QUERN_UNROLL for (int i = 0; i < kElements; ++i) {
    const f32 ratio = fma(y.x[i], by.high, y.x[i] * by.low);
    quotient.x[i] = fabs(y.x[i]) < infinity() ? ratio : y.x[i];
  }
  return quotient;
}

}  // namespace q
