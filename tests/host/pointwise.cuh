// Applies the pointwise function of a number to lists of arguments.
// SPDX-License-Identifier: Apache-2.0
#include "common/pointwise.cuh"

namespace q {

QUERN_DEVICE f32 apply(int which, f32 x, f32 y, f32 z) {
  switch (which) {
    case 0:
      return abs(x);
    case 1:
      return exp(x);
    case 2:
      return log(x);
    case 3:
      return sqrt(x);
    case 4:
      return rsqrt(x);
    case 5:
      return tanh(x);
    case 6:
      return erf(x);
    case 7:
      return sigmoid(x);
    case 8:
      return relu(x);
    case 9:
      return silu(x);
    case 10:
      return gelu(x);
    case 11:
      return gelu_tanh(x);
    case 12:
      return min(x, y);
    case 13:
      return max(x, y);
    case 14:
      return pow(x, y);
    case 15:
      return clamp(x, y, z);
    case 16:
      return exp_of_two(x);
    case 17:
      return expm1(x);
    case 18:
      return log_of_two(x);
    case 19:
      return log1p(x);
    case 20:
      return sin(x);
    case 21:
      return cos(x);
    case 22:
      return floor(x);
    case 23:
      return ceil(x);
    case 24:
      return trunc(x);
    case 25:
      return round(x);
    default:
      return atan2(x, y);
  }
}

QUERN_KERNEL(quern_pointwise, 256, 1, const f32* x, const f32* y, const f32* z, f32* out, int count, int which) {
  for (int i = block_index(0) * 256 + thread_index(); i < count; i += 256 * block_count(0)) {
    out[i] = apply(which, x[i], y[i], z[i]);
  }
}

}  // namespace q
