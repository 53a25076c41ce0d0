// What a scale is found from, and values divided by it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/kernel.cuh"
#include "quantize/vectors.cuh"

namespace q {

// The larger of `largest` and the finite magnitudes of a vector: infinity times 0 and what NaN touches are NaN, which fmax passes
// over.
QUERN_DEVICE f32 largest_magnitude(f32 largest, const Vector& v) {
  QUERN_UNROLL for (int i = 0; i < kElements; ++i) largest = fmax(largest, fabs(fma(v.x[i], 0.0f, v.x[i])));
  return largest;
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
// the divisor is known in advance", 2004. Where the two parts cancel or are no numbers, the first alone is right.
QUERN_DEVICE Vector divide(const Vector& y, const Divisor& by) {
  Vector quotient;
  QUERN_UNROLL for (int i = 0; i < kElements; ++i) {
    const f32 value = y.x[i];
    const bool ordinary = value != 0.0f && fabs(value) < infinity();
    quotient.x[i] = ordinary ? fma(value, by.high, value * by.low) : value * by.high;
  }
  return quotient;
}

}  // namespace q
