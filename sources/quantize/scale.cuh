// What a scale is found from, and values divided by it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/kernel.cuh"
#include "quantize/vectors.cuh"

namespace q {

// The larger of `largest` and the magnitudes of a vector. fmax passes over NaN.
QUERN_DEVICE f32 largest_magnitude(f32 largest, const Vector& v) {
  QUERN_UNROLL for (int i = 0; i < kElements; ++i) largest = fmax(largest, fabs(v.x[i]));
  return largest;
}
// The same without infinities: times 0 they are NaN, as is what NaN touches.
QUERN_DEVICE f32 largest_finite(f32 largest, const Vector& v) {
  QUERN_UNROLL for (int i = 0; i < kElements; ++i) largest = fmax(largest, fabs(fma(v.x[i], 0.0f, v.x[i])));
  return largest;
}

// What some vectors' magnitudes tell: the largest finite one, and whether there is no infinity among them.
struct Magnitude {
  f32 largest;
  bool finite;
};
// Infinities are rare: what they cost is paid where there are any.
template <int kVectors>
QUERN_DEVICE Magnitude magnitude_of(const Vector (&y)[kVectors]) {
  f32 largest = 0.0f;
  QUERN_UNROLL for (int v = 0; v < kVectors; ++v) largest = largest_magnitude(largest, y[v]);
  const bool finite = largest < infinity();
  if (!finite) {
    largest = 0.0f;
    QUERN_UNROLL for (int v = 0; v < kVectors; ++v) largest = largest_finite(largest, y[v]);
  }
  return {largest, finite};
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

QUERN_DEVICE u32 sign_of(f32 x) { return bits_of(x) & 0x80000000u; }

// y / scale, rounded to nearest once: Brisebarre, Muller and Raina, "Accelerating correctly rounded floating-point
// division when the divisor is known in advance", 2004. Two zeros of either sign may come together there: the sign is
// put in afterwards. `plain`: no y is infinite, the scale is a positive number, and y / scale far from overflow.
QUERN_DEVICE Vector divide(const Vector& y, const Divisor& by, bool plain) {
  Vector quotient;
  if (plain) {
    QUERN_UNROLL for (int i = 0; i < kElements; ++i) {
      const f32 value = y.x[i];
      quotient.x[i] = f32_of(bits_of(fma(value, by.high, value * by.low)) | sign_of(value));
    }
  } else {
    QUERN_UNROLL for (int i = 0; i < kElements; ++i) {
      const f32 value = y.x[i], rough = value * by.high, exact = fma(value, by.high, value * by.low);
      // Too large, the second part may have overflown with a sign of its own.
      quotient.x[i] = fabs(exact) < infinity() ? f32_of(bits_of(fabs(exact)) | sign_of(rough)) : rough;
    }
  }
  return quotient;
}
// The same where the scale was found with y among others, without a question that has two ways: where values of several
// scales are one after the other, such ways cost more than they save.
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
