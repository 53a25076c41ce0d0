// sin, cos and atan2 in f32 by polynomials of our own, minimax fits whose coefficients are rounded to f32 one after the
// other: within 5 ulp of the exact value for every argument, the largest too.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/exponential.cuh"
#include "common/kernel.cuh"

namespace q {

// x = rest + quarter pi/2, |rest| <= pi/4; of quarter the two low bits count.
struct Angle {
  f32 rest;
  u32 quarter;
};

// Of large numbers, from 2^15 on: the fraction of x 2/pi in integers (Payne and Hanek, "Radian reduction for
// trigonometric functions", 1983). Bits of 2/pi that give multiples of 4 do not matter: 96 bits behind them do, so that
// the fraction is right to 2^-62, and none of these numbers is closer to a multiple of pi/2 than 2^-31.
QUERN_CALLED Angle reduce_large(f32 x) {
  const u32 mantissa = bits_of(x) << 8 | 0x80000000u;
  const i32 from = static_cast<i32>(bits_of(x) >> 23 & 0xff) - 128;  // the first bit that matters, of zeros and 2/pi
  const i32 word = from >> 5, shift = from & 31;
  const auto choose = [&](u32 a, u32 b, u32 c, u32 d) { return word == 0 ? a : word == 1 ? b : word == 2 ? c : d; };
  const u32 w0 = choose(0u, 0xa2f9836eu, 0x4e441529u, 0xfc2757d1u);
  const u32 w1 = choose(0xa2f9836eu, 0x4e441529u, 0xfc2757d1u, 0xf534ddc0u);
  const u32 w2 = choose(0x4e441529u, 0xfc2757d1u, 0xf534ddc0u, 0xdb629599u);
  const u32 w3 = choose(0xfc2757d1u, 0xf534ddc0u, 0xdb629599u, 0x3c439041u);
  const auto window = [&](u32 high, u32 low) { return (static_cast<u64>(high) << 32 | low) << shift >> 32; };
  const u64 p0 = mantissa * window(w2, w3);
  const u64 p1 = mantissa * window(w1, w2) + (p0 >> 32);
  const u32 p2 = static_cast<u32>(mantissa * window(w0, w1) + (p1 >> 32));
  const u64 product = static_cast<u64>(p2) << 32 | (p1 & 0xffffffffu);  // quarters in the two top bits
  const i64 fraction = static_cast<i64>(product << 2);                  // from -1/2 to 1/2, in 2^-64
  const u32 quarter = (p2 >> 30) + (fraction < 0 ? 1u : 0u);
  const f32 rest = static_cast<f32>(fraction) * 0x1.921fb6p-64f;
  return (bits_of(x) & 0x80000000u) != 0 ? Angle{-rest, 0u - quarter} : Angle{rest, quarter};
}

// Below that, pi/2 in three parts: the first difference is exact, the second rounded once.
QUERN_DEVICE Angle reduce_angle(f32 x) {
  if (fabs(x) > 32768.0f && fabs(x) < infinity()) return reduce_large(x);
  const f32 t = fma(x, 0x1.45f306p-1f, kToInteger), n = t - kToInteger;
  return {fma(n, 0x1.ee59dap-50f, fma(n, 0x1.777a5cp-25f, fma(n, -0x1.921fb6p0f, x))), bits_of(t)};
}

// sin(rest + quarter pi/2)
QUERN_DEVICE f32 sin_of(const Angle& a) {
  const f32 r = a.rest, z = r * r;
  f32 s = 0x1.7cd42ap-19f;
  s = fma(s, z, -0x1.a05bb2p-13f);
  s = fma(s, z, 0x1.111176p-7f);
  s = fma(s, z, -0x1.555556p-3f);
  s = fma(s * z, r, r);
  f32 c = 0x1.99e0e6p-16f;
  c = fma(c, z, -0x1.6c0c1ap-10f);
  c = fma(c, z, 0x1.55554ap-5f);
  c = fma(c * z, z, fma(z, -0.5f, 1.0f));
  const f32 v = (a.quarter & 1) != 0 ? c : s;
  return (a.quarter & 2) != 0 ? -v : v;
}

QUERN_DEVICE f32 sin(f32 x) { return x == 0.0f ? x : sin_of(reduce_angle(x)); }
QUERN_DEVICE f32 cos(f32 x) {
  const Angle a = reduce_angle(x);
  return sin_of({a.rest, a.quarter + 1});
}

// The angle of the point (x, y), from -pi to pi, with the special cases of IEEE 754.
QUERN_DEVICE f32 atan2(f32 y, f32 x) {
  constexpr f32 kHalfPi = 0x1.921fb6p0f, kHalfPiLow = -0x1.777a5cp-25f;
  const f32 a = fabs(x), b = fabs(y);
  const bool steep = b > a;
  const f32 large = steep ? b : a, small = steep ? a : b;
  const f32 t = large == 0.0f ? 0.0f : small == infinity() ? 1.0f : small / large;
  const f32 z = t * t;
  f32 p = 0x1.7ec704p-9f;
  p = fma(p, z, -0x1.0c262ap-6f);
  p = fma(p, z, 0x1.61f8bcp-5f);
  p = fma(p, z, -0x1.355464p-4f);
  p = fma(p, z, 0x1.b4dffep-4f);
  p = fma(p, z, -0x1.230ab2p-3f);
  p = fma(p, z, 0x1.9978eep-3f);
  p = fma(p, z, -0x1.5554dcp-2f);
  f32 r = fma(p * z, t, t);
  if (steep) r = kHalfPi - r + kHalfPiLow;
  if ((bits_of(x) & 0x80000000u) != 0) r = 2.0f * kHalfPi - r + 2.0f * kHalfPiLow;
  return x != x || y != y ? nan() : with_sign_of(r, y);
}

}  // namespace q
