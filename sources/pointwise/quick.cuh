// Activations for results of 16 bits and fewer: the targets' own exponential and reciprocal, whose errors of some 2^-17
// such results do not show. Formulas of a kernel that is made for them find these before those of
// common/pointwise.cuh. Results below 2^-119 may become 0.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/pointwise.cuh"

namespace q::quick {

// -infinity would meet a factor of 0.
QUERN_DEVICE f32 finite_below(f32 x) { return x < -0x1.fffffep127f ? -0x1.fffffep127f : x; }

QUERN_DEVICE f32 sigmoid(f32 x) { return rcp_approx(1.0f + exp2(x * -kLog2OfE)); }
QUERN_DEVICE f32 silu(f32 x) { return finite_below(x) * sigmoid(x); }

// x sigmoid(2 sqrt(2/pi) (x + 0.044715 x^3))
QUERN_DEVICE f32 gelu_tanh(f32 x) {
  const f32 w = x * fma(x * x, -0x1.2444f2p-4f, -0x1.988454p0f);
  return finite_below(x) * rcp_approx(1.0f + exp2(w * kLog2OfE));
}

// As q::gelu, without what takes back the rounding of its parts.
QUERN_DEVICE f32 gelu(f32 x) {
  const f32 z = fmin(abs(x), 14.5f), half = 0.5f * z;
  const f32 u = rcp_approx(fma(z, 0x1.ec5f62p-3f, 1.0f));
  return positive_part(x) - half * erfc_scaled_of(u) * exp2(z * half * -kLog2OfE);
}

}  // namespace q::quick
