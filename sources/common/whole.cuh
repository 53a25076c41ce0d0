// Whole numbers in expressions: rounding to them, and integers of 64 bits whose every operation is defined. Sums,
// differences and products wrap around.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/kernel.cuh"

namespace q {

// A byte that is true where it is not 0.
struct boolean {
  u8 bits;
};

// ---- Numbers that are whole. From 2^23 on all are, NaN is left as it is, and what becomes 0 keeps its sign.
QUERN_DEVICE f32 signed_like(f32 magnitude, f32 sign) {
  return f32_of((bits_of(magnitude) & 0x7fffffffu) | (bits_of(sign) & 0x80000000u));
}
QUERN_DEVICE f32 trunc(f32 x) { return fabs(x) < 0x1p23f ? signed_like(static_cast<f32>(static_cast<i32>(x)), x) : x; }
QUERN_DEVICE f32 floor(f32 x) {
  const f32 t = trunc(x);
  return t > x ? t - 1.0f : t;
}
QUERN_DEVICE f32 ceil(f32 x) {
  const f32 t = trunc(x);
  return t < x ? signed_like(t + 1.0f, x) : t;
}
// To nearest, ties to even.
QUERN_DEVICE f32 round(f32 x) { return fabs(x) < 0x1p23f ? signed_like(fabs(x) + 0x1p23f - 0x1p23f, x) : x; }

// ---- Integers
QUERN_DEVICE i64 whole_sum(i64 a, i64 b) { return static_cast<i64>(static_cast<u64>(a) + static_cast<u64>(b)); }
QUERN_DEVICE i64 whole_difference(i64 a, i64 b) { return static_cast<i64>(static_cast<u64>(a) - static_cast<u64>(b)); }
QUERN_DEVICE i64 whole_product(i64 a, i64 b) { return static_cast<i64>(static_cast<u64>(a) * static_cast<u64>(b)); }
QUERN_DEVICE i64 whole_negative(i64 a) { return whole_difference(0, a); }
QUERN_DEVICE i64 whole_abs(i64 a) { return a < 0 ? whole_negative(a) : a; }
// Cut towards 0; 0 where b is. remainder is what whole_product(quotient, b) leaves of a.
QUERN_DEVICE i64 whole_quotient(i64 a, i64 b) {
  if (b == -1) return whole_negative(a);  // the least has no negative, and divides by no -1
  return b == 0 ? 0 : a / b;
}
QUERN_DEVICE i64 whole_remainder(i64 a, i64 b) {
  if (b == -1) return 0;
  return b == 0 ? a : a % b;
}
// By anything but 0 to 63 places all bits are moved out; the sign comes in from the left.
QUERN_DEVICE i64 shifted_left(i64 a, i64 by) {
  return static_cast<u64>(by) < 64 ? static_cast<i64>(static_cast<u64>(a) << by) : 0;
}
QUERN_DEVICE i64 shifted_right(i64 a, i64 by) { return a >> (static_cast<u64>(by) < 64 ? by : 63); }

// ---- Casts
template <class T>
QUERN_DEVICE f32 rounded_to(f32 x) {
  return to_f32(from_f32<T>(x));
}
QUERN_DEVICE f32 number_of(f32 x) { return x; }
QUERN_DEVICE f32 number_of(i64 x) { return static_cast<f32>(x); }
QUERN_DEVICE f32 number_of(bool x) { return x ? 1.0f : 0.0f; }

// The least and the largest of an integer type, both of which i64 holds.
template <class T>
inline constexpr i64 kLargestOf =
    (static_cast<T>(-1) < static_cast<T>(0) ? (1ll << (8 * sizeof(T) - 1)) : (1ll << 8 * sizeof(T))) - 1;
template <>
inline constexpr i64 kLargestOf<i64> = 0x7fffffffffffffffll;
template <class T>
inline constexpr i64 kLeastOf = static_cast<T>(-1) < static_cast<T>(0) ? -kLargestOf<T> - 1 : 0;

// As an integer of type T, saturated. A number is cut towards 0; NaN is 0.
template <class T>
QUERN_DEVICE i64 integer_of(i64 x) {
  return x < kLeastOf<T> ? kLeastOf<T> : x > kLargestOf<T> ? kLargestOf<T> : x;
}
template <class T>
QUERN_DEVICE i64 integer_of(f32 x) {
  // As f32 the largest is rounded up where T has more than 24 bits; it is reached from there on.
  constexpr f32 kLow = static_cast<f32>(kLeastOf<T>), kHigh = static_cast<f32>(kLargestOf<T>);
  if (x != x) return 0;
  if constexpr (sizeof(T) <= 2) {
    return static_cast<i32>(fmin(fmax(x, kLow), kHigh));
  } else {
    return x >= kHigh ? kLargestOf<T> : x <= kLow ? kLeastOf<T> : static_cast<i64>(static_cast<T>(x));
  }
}
template <class T>
QUERN_DEVICE i64 integer_of(bool x) {
  return x ? 1 : 0;
}

}  // namespace q
