// From products of queries and keys to logits, and what exponents are taken relative to.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "attention/kernels/shared/problem.cuh"

namespace q {

// Products q.k become logits here, except that a plain scale is left to the exponent's multiply-add. `scale` is the
// call's times that of the keys, where these are codes.
inline constexpr bool kPlainScale = !CAP && !ALIBI;
QUERN_DEVICE f32 logit(const AttentionParams& p, f32 scale, f32 product, f32 slope, i32 distance) {
  if (kPlainScale) return product;
  f32 s = product * scale;
#if CAP
  // tanh(x) = 1 - 2 / (exp(2x) + 1), right at both ends; near 0, where that loses digits, the first terms of its
  // series.
  const f32 x = s * rcp_approx(p.cap), y = x * x;
  const f32 series =
      x * fma(y, fma(y, fma(y, fma(y, 62.0f / 2835.0f, -17.0f / 315.0f), 2.0f / 15.0f), -1.0f / 3.0f), 1.0f);
  const f32 tanh = y < 0.09f ? series : 1.0f - 2.0f * rcp_approx(exp2(x * (2.0f * kLog2E)) + 1.0f);
  s = p.cap * kLog2E * tanh;
#endif
  return fma(slope, static_cast<f32>(distance), s);
}

// The maximum that exponents are relative to need not be the very maximum: it follows only when it is left behind by
// more than this, so that what was summed before seldom has to be rescaled. 2^8 is far from overflow in every type
// involved.
inline constexpr f32 kSlack = 8.0f;

}  // namespace q
