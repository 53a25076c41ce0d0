// Pointwise functions in f32, as activations and expressions use them: within a few ulp of the exact value, infinities and NaN
// as the mathematics has them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/kernel.cuh"

namespace q {

QUERN_DEVICE f32 exp(f32 x) { return exp2(x * 1.44269504088896341f); }
QUERN_DEVICE f32 sigmoid(f32 x) { return rcp(1.0f + exp(-x)); }
QUERN_DEVICE f32 relu(f32 x) { return x < 0.0f ? 0.0f : x; }
QUERN_DEVICE f32 silu(f32 x) { return x * sigmoid(x); }
// Abramowitz and Stegun, 7.1.26.
QUERN_DEVICE f32 gelu(f32 x) {
  const f32 u = (x < 0.0f ? -x : x) * 0.70710678f;
  const f32 t = rcp(fma(0.3275911f, u, 1.0f));
  f32 sum = fma(1.061405429f, t, -1.453152027f);
  sum = fma(sum, t, 1.421413741f);
  sum = fma(sum, t, -0.284496736f);
  sum = fma(sum, t, 0.254829592f);
  const f32 tail = sum * t * exp(-u * u);
  return 0.5f * x * (x < 0.0f ? tail : 2.0f - tail);
}
// (1 + tanh(u)) / 2 is sigmoid(2u).
QUERN_DEVICE f32 gelu_tanh(f32 x) { return x * sigmoid(1.5957691216f * fma(0.044715f * x, x * x, x)); }

}  // namespace q
