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

}  // namespace q
