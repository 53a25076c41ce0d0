// exp, log and pow in f32 by polynomials of our own, so that every target gives results of the same quality: the GPU's
// approximate exp2 and log2 are not good enough away from 1 and near it, and differ from one maker to the next.
//
// Argument reduction is Cody and Waite's ("Software Manual for the Elementary Functions", 1980): x = n ln 2 + r, ln 2
// in two parts, the first short enough that n times it is exact. The polynomials are minimax fits by Remez exchange,
// their coefficients rounded to f32. What must be exact is written as fma, so that a compiler that contracts products
// into sums changes nothing.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/kernel.cuh"

namespace q {

inline constexpr f32 kLn2High = 0x1.62e4p-1f;  // 16 bits
inline constexpr f32 kLn2Low = 0x1.7f7d1cp-20f;
inline constexpr f32 kLog2OfE = 0x1.715476p0f;
// x + kToInteger is rounded to an integer, which is then in the low bits.
inline constexpr f32 kToInteger = 0x1.8p23f;

QUERN_DEVICE f32 abs(f32 x) { return fabs(x); }
QUERN_DEVICE f32 with_sign_of(f32 magnitude, f32 sign) {
  return f32_of(bits_of(magnitude) | (bits_of(sign) & 0x80000000u));
}
// The smaller of the two, NaN where x is.
QUERN_DEVICE f32 at_most(f32 x, f32 most) { return x > most ? most : x; }

// e^r for |r| <= ln(2)/2; relative error below 2^-24.
QUERN_DEVICE f32 exp_reduced(f32 r) {
  f32 p = 0x1.6a263cp-10f;
  p = fma(p, r, 0x1.123a6ep-7f);
  p = fma(p, r, 0x1.5558eep-5f);
  p = fma(p, r, 0x1.555492p-3f);
  p = fma(p, r, 0x1.fffffcp-2f);
  return fma(fma(p, r, 1.0f), r, 1.0f);
}
// e^r 2^n, where t = n + kToInteger and n is from -190 to 60. Results that underflow pass through the subnormals to 0.
QUERN_DEVICE f32 exp_downwards(f32 r, f32 t) {
  return exp_reduced(r) * f32_of((bits_of(t) << 23) + ((127u + 64u) << 23)) * 0x1p-64f;
}

// e^-z for 0 <= z <= 128; NaN for NaN.
QUERN_DEVICE f32 exp_of_minus(f32 z) {
  const f32 t = fma(z, -kLog2OfE, kToInteger), n = t - kToInteger;
  return exp_downwards(fma(n, -kLn2Low, fma(n, -kLn2High, -z)), t);
}

QUERN_DEVICE f32 exp(f32 x) {
  const f32 bounded = x < -128.0f ? -128.0f : x;
  // Above the range n is clamped and x is not: r is then large and the polynomial positive, so the product overflows as
  // it should.
  const f32 n = fmin(fma(bounded, kLog2OfE, kToInteger) - kToInteger, 128.0f);
  const f32 y = exp_reduced(fma(n, -kLn2Low, fma(n, -kLn2High, bounded)));
  const i32 whole = static_cast<i32>(bits_of(n + kToInteger) - bits_of(kToInteger)), half = whole >> 1;
  return y * f32_of(static_cast<u32>(half + 127) << 23) * f32_of(static_cast<u32>(whole - half + 127) << 23);
}

// 2^x: as exp, but that no reduction is needed.
QUERN_DEVICE f32 exp_of_two(f32 x) {
  const f32 bounded = x < -192.0f ? -192.0f : x;
  const f32 n = fmin((bounded + kToInteger) - kToInteger, 128.0f);
  const f32 y = exp_reduced((bounded - n) * 0x1.62e43p-1f);
  const i32 whole = static_cast<i32>(bits_of(n + kToInteger) - bits_of(kToInteger)), half = whole >> 1;
  return y * f32_of(static_cast<u32>(half + 127) << 23) * f32_of(static_cast<u32>(whole - half + 127) << 23);
}

// e^x - 1 = 2^n (e^r - 1) + (2^n - 1), the first bracket by the polynomial of exp_reduced without its 1. Above 25 the 1
// does not show; below -20 nothing else does.
QUERN_DEVICE f32 expm1(f32 x) {
  const f32 bounded = x < -20.0f ? -20.0f : at_most(x, 25.0f);
  const f32 t = fma(bounded, kLog2OfE, kToInteger), n = t - kToInteger;
  const f32 r = fma(n, -kLn2Low, fma(n, -kLn2High, bounded));
  f32 p = 0x1.6a263cp-10f;
  p = fma(p, r, 0x1.123a6ep-7f);
  p = fma(p, r, 0x1.5558eep-5f);
  p = fma(p, r, 0x1.555492p-3f);
  p = fma(p, r, 0x1.fffffcp-2f);
  const f32 scale = f32_of((bits_of(t) + 127u) << 23);
  const f32 y = fma(fma(p * r, r, r), scale, scale - 1.0f);
  return x == 0.0f ? x : x > 25.0f ? exp(x) : y;
}

// x = m 2^n with m from sqrt(1/2) to sqrt(2), for x > 0 and finite.
struct Mantissa {
  f32 m, n;
};
QUERN_DEVICE Mantissa split_exponent(f32 x) {
  const bool subnormal = x < 0x1p-126f;
  const u32 bits = bits_of(subnormal ? x * 0x1p23f : x);
  const i32 n = static_cast<i32>(bits - 0x3f3504f3u) >> 23;
  return {f32_of(bits - (static_cast<u32>(n) << 23)), static_cast<f32>(subnormal ? n - 23 : n)};
}

// The natural logarithm: -infinity at 0, NaN below 0; infinity and NaN stay as they are.
QUERN_DEVICE f32 log(f32 x) {
  const Mantissa s = split_exponent(x);
  const f32 f = s.m - 1.0f;
  f32 p = -0x1.39f72ap-4f;
  p = fma(p, f, 0x1.059c36p-3f);
  p = fma(p, f, -0x1.0d6264p-3f);
  p = fma(p, f, 0x1.22cf8cp-3f);
  p = fma(p, f, -0x1.5475b8p-3f);
  p = fma(p, f, 0x1.99a09ep-3f);
  p = fma(p, f, -0x1.000216p-2f);
  p = fma(p, f, 0x1.555552p-2f);
  p = fma(p, f, -0.5f);
  const f32 y = fma(s.n, kLn2High, fma(p, f * f, fma(s.n, kLn2Low, f)));
  const f32 limit = x == 0.0f ? -infinity() : x < 0.0f ? nan() : x;
  return x > 0.0f && x < infinity() ? y : limit;
}

// log2(x) as the sum of two, for x > 0 and finite; its relative error is below 2^-30. With s = (m-1)/(m+1) in two
// parts, log(m) = 2 atanh(s) = 2 (s + s^3/3 + ...).
QUERN_DEVICE f32x2 log2_in_two(f32 x) {
  constexpr f32 kScaleHigh = 0x1.715476p1f, kScaleLow = 0x1.4ae0cp-25f;  // 2/ln(2)
  const Mantissa split = split_exponent(x);
  const f32 above = split.m + 1.0f, lost = split.m - (above - 1.0f), below = split.m - 1.0f;
  const f32 inverse = rcp(above);
  const f32 s = below * inverse;
  const f32 s_low = fma(-s, lost, fma(-s, above, below)) * inverse;
  const f32 y = s * s;
  const f32 p = fma(fma(0x1.31ea7ap-3f, y, 0x1.995e8ap-3f), y, 0x1.55557ap-2f);
  const f32 rest = fma(s * y, p, fma(s_low, y, s_low));
  const f32 high = fma(kScaleHigh, s, split.n);
  const f32 low = fma(kScaleHigh, s, split.n - high);
  return {high, fma(kScaleHigh, rest, fma(kScaleLow, s, low))};
}

QUERN_DEVICE f32 log_of_two(f32 x) {
  const bool ordinary = x > 0.0f && x < infinity();
  const f32x2 l = log2_in_two(ordinary ? x : 1.0f);
  const f32 limit = x == 0.0f ? -infinity() : x < 0.0f ? nan() : x;
  return ordinary ? l.x + l.y : limit;
}

// log(1 + x): of the sum that is rounded, and what rounding lost as a share of it.
QUERN_DEVICE f32 log1p(f32 x) {
  const f32 u = 1.0f + x, lost = x - (u - 1.0f);
  const f32 y = log(u);
  return x == 0.0f ? x : u > 0.0f && u < infinity() ? fma(lost, rcp(u), y) : y;
}

// x^y with the special cases of IEEE 754: 1 where y is 0 or x is 1 even if the other is NaN, NaN for x < 0 unless y is
// an integer.
QUERN_DEVICE f32 pow(f32 x, f32 y) {
  const f32 a = abs(x), size = abs(y);
  const bool ordinary = a > 0.0f && a < infinity();
  const f32x2 l = log2_in_two(ordinary ? a : 1.0f);
  // Far outside the range of f32 only the magnitude matters, and infinities are treated alike.
  const f32 z = ordinary ? l.x + l.y : a == 0.0f ? -infinity() : infinity();
  const f32 e = y * z;
  const bool inside = e > -160.0f && e < 130.0f;
  const f32 n = inside ? (e + kToInteger) - kToInteger : 0.0f;
  const f32 r = fma(y, l.y, fma(y, l.x, -n));
  const i32 whole = static_cast<i32>(bits_of(n + kToInteger) - bits_of(kToInteger)), half = whole >> 1;
  f32 result = exp_reduced(r * 0x1.62e43p-1f) * f32_of(static_cast<u32>(half + 127) << 23) *
               f32_of(static_cast<u32>(whole - half + 127) << 23);
  if (!inside) result = e > 0.0f ? infinity() : 0.0f;
  // From 2^24 on every f32 is an even integer.
  const i32 integer = size < 0x1p24f ? static_cast<i32>(y) : 0;
  const bool is_integer = size >= 0x1p24f || static_cast<f32>(integer) == y;
  if ((integer & 1) != 0 && is_integer) result = with_sign_of(result, x);
  if (x < 0.0f && ordinary && !is_integer) result = nan();
  if (x != x || y != y) result = nan();
  return y == 0.0f || x == 1.0f || (a == 1.0f && size == infinity()) ? 1.0f : result;
}

}  // namespace q
