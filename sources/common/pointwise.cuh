// Pointwise functions in f32, as activations and expressions use them, next to exp, log, pow and their like of
// exponential.cuh, sin, cos and atan2 of trigonometric.cuh, whole numbers and integers of whole.cuh and the layer's
// sqrt and rsqrt: within 5 ulp of the exact value, or within 2^-126 of it. Infinities and NaN are as the mathematics
// has them; a NaN stays NaN, in min, max, clamp and relu too.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/exponential.cuh"
#include "common/kernel.cuh"
#include "common/trigonometric.cuh"
#include "common/whole.cuh"

namespace q {

template <class T>
QUERN_DEVICE T min(T a, T b) {
  return a < b || a != a ? a : b;
}
template <class T>
QUERN_DEVICE T max(T a, T b) {
  return a > b || a != a ? a : b;
}
// NaN if x or a bound is NaN; the upper bound wins if the bounds cross.
QUERN_DEVICE f32 clamp(f32 x, f32 low, f32 high) { return min(max(x, low), high); }
QUERN_DEVICE i64 whole_clamp(i64 x, i64 low, i64 high) { return min(max(x, low), high); }
QUERN_DEVICE f32 relu(f32 x) { return x < 0.0f ? 0.0f : x; }

// 1 / (1 + e^-x), computed by the exponential that does not overflow.
QUERN_DEVICE f32 sigmoid(f32 x) {
  const f32 e = exp_of_minus(at_most(abs(x), 110.0f));
  return (x < 0.0f ? e : 1.0f) * rcp_approx(1.0f + e);
}

// x sigmoid(x)
QUERN_DEVICE f32 silu(f32 x) {
  const f32 z = fmin(abs(x), 110.0f);
  const f32 e = exp_of_minus(z);
  return (x < 0.0f ? -z * e : x) * rcp_approx(1.0f + e);
}

// (1 - e^-2x) / (1 + e^-2x); near 0, where that cancels, an odd polynomial.
QUERN_DEVICE f32 tanh(f32 x) {
  const f32 z = abs(x), y = x * x;
  f32 p = -0x1.856deep-8f;
  p = fma(p, y, 0x1.55700ap-6f);
  p = fma(p, y, -0x1.b8b6d2p-5f);
  p = fma(p, y, 0x1.110aacp-3f);
  p = fma(p, y, -0x1.555544p-2f);
  const f32 near = fma(p * y, x, x);
  const f32 e = exp_of_minus(at_most(2.0f * z, 40.0f));
  return z < 0.6f ? near : with_sign_of((1.0f - e) * rcp_approx(1.0f + e), x);
}

// e^(y^2) erfc(y) for 0 <= y <= 10.3 as a polynomial in u = 1/(1 + 0.34 y), in which it is smooth.
QUERN_DEVICE f32 erfc_scaled_of(f32 u) {
  f32 p = 0x1.9d917ep-5f;
  p = fma(p, u, -0x1.f524b0p-3f);
  p = fma(p, u, 0x1.980aacp-2f);
  p = fma(p, u, -0x1.18589cp-2f);
  p = fma(p, u, 0x1.160806p-2f);
  p = fma(p, u, 0x1.f93c1ap-5f);
  p = fma(p, u, 0x1.646a70p-3f);
  p = fma(p, u, 0x1.6d7d40p-3f);
  p = fma(p, u, 0x1.893d98p-3f);
  p = fma(p, u, 0x1.88d7d8p-3f);
  return p * u;
}
// The same, 0.34 y = scale z. A Newton step takes back what rcp_approx and rounding have done to u, which would show
// threefold near y = 0.
QUERN_DEVICE f32 erfc_scaled(f32 z, f32 scale) {
  const f32 d = fma(z, scale, 1.0f), d_low = fma(z, scale, 1.0f - d), rough = rcp_approx(d);
  return erfc_scaled_of(fma(fma(-rough, d_low, fma(-rough, d, 1.0f)), rough, rough));
}

QUERN_DEVICE f32 erf(f32 x) {
  const f32 y = x * x;
  f32 p = -0x1.3f4f72p-11f;
  p = fma(p, y, 0x1.4876cap-8f);
  p = fma(p, y, -0x1.b6bee2p-6f);
  p = fma(p, y, 0x1.ce1dd2p-4f);
  p = fma(p, y, -0x1.8126fap-2f);
  p = fma(p, y, 0x1.20dd74p0f);
  const f32 z = at_most(abs(x), 4.0f);
  const f32 far = 1.0f - erfc_scaled(z, 0.34f) * exp_of_minus(z * z);
  return z < 0.9f ? p * x : with_sign_of(far, x);
}

// The limit of gelu far from 0: x, or -0 below 0, so that vanishing results keep their sign.
QUERN_DEVICE f32 positive_part(f32 x) { return x < 0.0f ? -0.0f : x; }

// x P(X <= x) of a normal variable: x/2 erfc(-x/sqrt(2)). Below 0 that is -z P(X <= -z), small and free of
// cancellation; above, it is x less the same.
QUERN_DEVICE f32 gelu(f32 x) {
  const f32 z = fmin(abs(x), 14.5f), half = 0.5f * z;
  const f32 t = fma(z * half, -kLog2OfE, kToInteger), n = t - kToInteger;
  // e^(-z^2/2), the square exact in the reduction: a rounded one would be wrong by the size of the exponent.
  const f32 e = exp_downwards(fma(n, -kLn2Low, fma(-half, z, n * -kLn2High)), t);
  return positive_part(x) - half * erfc_scaled(z, 0x1.ec5f62p-3f) * e;  // 0.34/sqrt(2)
}

// x sigmoid(w), w = 2 sqrt(2/pi) (x + 0.044715 x^3): for the half that is small -z e^-w / (1 + e^-w). The exponent is
// kept in two parts for the same reason.
QUERN_DEVICE f32 gelu_tanh(f32 x) {
  constexpr f32 kLinear = 0x1.988454p0f, kLinearLow = -0x1.857936p-25f;
  constexpr f32 kCubic = 0x1.2444f2p-4f, kCubicLow = 0x1.49b16ap-29f;
  const f32 z = fmin(abs(x), 11.0f);
  const f32 y = z * z, y_low = fma(z, z, -y);
  // v = kLinear + kCubic y and its rounding error (Knuth's two-sum, which does not depend on which of the two is
  // larger).
  const f32 v = fma(y, kCubic, kLinear), cubic = v - kLinear;
  const f32 lost = fma(y, kCubic, -cubic) + (kLinear - (v - cubic));
  const f32 v_low = fma(y, kCubicLow, fma(y_low, kCubic, lost + kLinearLow));
  const f32 t = fma(z * v, -kLog2OfE, kToInteger), n = t - kToInteger;
  const f32 r = fma(-z, v_low, fma(n, -kLn2Low, fma(-z, v, n * -kLn2High)));
  const f32 e = exp_downwards(r, t);
  return positive_part(x) - z * e * rcp_approx(1.0f + e);
}

}  // namespace q
