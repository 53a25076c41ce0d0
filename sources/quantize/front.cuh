// What stands in front of the quantiser: the elements of a row as it takes them, from the tensors of the call.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/exponential.cuh"
#include "common/pointwise.cuh"
#include "quantize/params.cuh"
#include "quantize/team.cuh"
#include "quantize/vectors.cuh"

namespace q {

using In = IN;
using Weight = WEIGHT;
using Bias = BIAS;
inline constexpr Front kFront = FRONT;
inline constexpr bool kResidual = RESIDUAL, kHasWeight = HAS_WEIGHT, kHasBias = HAS_BIAS;
inline constexpr bool kNorm = kFront == Front::rmsnorm || kFront == Front::layernorm;
inline constexpr bool kProduct =
    kFront == Front::silu_mul || kFront == Front::gelu_mul || kFront == Front::gelu_tanh_mul;
inline constexpr i32 kStep = kTeam * kElements;  // columns from one of a thread's vectors to its next
inline constexpr i32 kPass = kStep * kVectors;   // columns that a team takes at once

// What one pass over a row, or over a piece of it, is to a thread.
class Pass {
 public:
  // A team past the last row reads and writes nothing.
  QUERN_DEVICE Pass(const QuantizeParams& p, i64 row, u32 first_column)
      : row_(row),
        column_(first_column + static_cast<u32>((kTeams == 1 ? thread_index() : thread_index() % kTeam) * kElements)),
        left_(row < p.rows ? static_cast<i32>(static_cast<u32>(p.n) - column_) : -kPass) {}

  QUERN_DEVICE i64 row() const { return row_; }
  QUERN_DEVICE u32 column(int vector) const { return column_ + static_cast<u32>(vector * kStep); }
  // Elements of the row from there on; none where it is not positive.
  QUERN_DEVICE i32 left(int vector) const { return left_ - vector * kStep; }
  // Where the thread's first vector lies; the others follow kStep apart.
  template <class T>
  QUERN_DEVICE T* in(void* matrix, i64 stride) const {
    return static_cast<T*>(matrix) + (row_ * stride + column_);
  }
  template <class T>
  QUERN_DEVICE const T* in(const void* matrix, i64 stride) const {
    return static_cast<const T*>(matrix) + (row_ * stride + column_);
  }

 private:
  i64 row_;
  u32 column_;
  i32 left_;
};

struct Values {
  Vector v[kVectors];
};

// Results of 8 and 16 bits do not show how good the last bits of f32 are, and these kernels must not wait for
// arithmetic: with such inputs the functions below take the target's own exp2 and reciprocal as they are, which costs
// the exponent its last bits.
inline constexpr bool kSwift = sizeof(In) == 2;

// x / (1 + e^-w). Where w is beyond what e^-w can be, it is 0, or x times its inverse nothing.
QUERN_DEVICE f32 times_sigmoid(f32 x, f32 w) { return x * rcp_approx(1.0f + exp2(w * -kLog2OfE)); }

// max(x, 0) - |x| P(X > |x|) of a normal variable. P(X > z) e^(z^2/2) is smooth, a polynomial in u = 1/(1 + 0.362 z) to
// a relative 2^-20 (fitted to z from 0 to 14; beyond, the power is 0).
QUERN_DEVICE f32 swift_gelu(f32 x) {
  const f32 z = fmin(fabs(x), 15.0f), u = rcp_approx(fma(z, 0x1.72b02p-2f, 1.0f)), e = exp2(z * z * (-0.5f * kLog2OfE));
  f32 p = 0x1.88b454p-5f;
  p = fma(p, u, -0x1.70a7bp-3f);
  p = fma(p, u, 0x1.69b4c2p-3f);
  p = fma(p, u, 0x1.d867fap-6f);
  p = fma(p, u, 0x1.1d8cfap-3f);
  p = fma(p, u, 0x1.243a5ap-3f);
  p = fma(p, u, 0x1.27f1aap-3f);
  return fma(-(z * u), p * e, positive_part(x));
}

QUERN_DEVICE f32 activate(f32 gate) {
  if constexpr (kFront == Front::gelu_mul) {
    return kSwift ? swift_gelu(gate) : gelu(gate);
  } else {
    // Below this both are nothing, as they are at minus infinity. NaN stays NaN.
    const f32 x = gate < -87.0f ? -87.0f : gate;
    if constexpr (kFront == Front::silu_mul) {
      return kSwift ? times_sigmoid(x, x) : silu(x);
    } else {
      // x sigmoid(2 sqrt(2/pi) (x + 0.044715 x^3))
      return kSwift ? times_sigmoid(x, x * fma(x * x, 0x1.2444f2p-4f, 0x1.988454p0f)) : gelu_tanh(x);
    }
  }
}

// x, x + residual, or the product. All loads are under way before the first is waited for.
QUERN_DEVICE Values load_values(const QuantizeParams& p, const Pass& pass) {
  const In* x = pass.in<In>(p.x, p.x_stride);
  const In* beside = kResidual ? pass.in<In>(p.residual, p.residual_stride) : x + p.n;
  Raw<In> first[kVectors], second[kVectors];
  QUERN_UNROLL for (int v = 0; v < kVectors; ++v) {
    first[v] = load_vector<Reuse::no>(x + v * kStep, pass.left(v));
    if constexpr (kProduct || kResidual) second[v] = load_vector<Reuse::no>(beside + v * kStep, pass.left(v));
  }
  Values y;
  QUERN_UNROLL for (int v = 0; v < kVectors; ++v) {
    y.v[v] = widen(first[v]);
    if constexpr (kProduct || kResidual) {
      const Vector other = widen(second[v]);
      QUERN_UNROLL for (int i = 0; i < kElements; ++i) {
        y.v[v].x[i] = kProduct ? activate(y.v[v].x[i]) * other.x[i] : y.v[v].x[i] + other.x[i];
      }
    }
  }
  return y;
}

QUERN_DEVICE void store_values(void* to, i64 stride, const Pass& pass, const Values& y) {
  In* at = pass.in<In>(to, stride);
  QUERN_UNROLL for (int v = 0; v < kVectors; ++v) store_vector(at + v * kStep, y.v[v], pass.left(v));
}

// ---- Norms
struct Moments {
  f32 mean, inverse;  // of the deviation
};

QUERN_DEVICE f32 sum(const Values& y) {
  f32 total = 0.0f;
  QUERN_UNROLL for (int v = 0; v < kVectors; ++v) {
    QUERN_UNROLL for (int i = 0; i < kElements; ++i) total += y.v[v].x[i];
  }
  return total;
}
QUERN_DEVICE f32 sum_of_squares(const Values& y, const Pass& pass, f32 mean) {
  f32 total = 0.0f;
  QUERN_UNROLL for (int v = 0; v < kVectors; ++v) {
    const i32 left = pass.left(v);
    QUERN_UNROLL for (int i = 0; i < kElements; ++i) {
      const f32 deviation = y.v[v].x[i] - mean;
      // What lies past the row is 0, and deviates from a mean all the same.
      if (kFront == Front::rmsnorm || (kTail ? i < left : left > 0)) total = fma(deviation, deviation, total);
    }
  }
  return total;
}
QUERN_DEVICE f32 inverse_deviation(const QuantizeParams& p, f32 squares) {
  return rsqrt(squares / static_cast<f32>(p.n) + p.eps);
}

struct Parameters {
  Raw<Weight> weight[kVectors];
  Raw<Bias> bias[kVectors];
};
QUERN_DEVICE Parameters load_parameters(const QuantizeParams& p, const Pass& pass) {
  Parameters parameters;
  const Weight* weight = static_cast<const Weight*>(p.weight) + pass.column(0);
  const Bias* bias = static_cast<const Bias*>(p.bias) + pass.column(0);
  QUERN_UNROLL for (int v = 0; v < kVectors; ++v) {
    if constexpr (kHasWeight) parameters.weight[v] = load_vector<Reuse::yes>(weight + v * kStep, pass.left(v));
    if constexpr (kHasBias) parameters.bias[v] = load_vector<Reuse::yes>(bias + v * kStep, pass.left(v));
  }
  return parameters;
}

// Asks for what a norm multiplies by, before anything else is there: nobody has read it since the last step of a model,
// whose other weights have gone through L2 in between.
QUERN_DEVICE void fetch_norm(const QuantizeParams& p, const Pass& pass) {
  const Weight* weight = static_cast<const Weight*>(p.weight) + pass.column(0);
  const Bias* bias = static_cast<const Bias*>(p.bias) + pass.column(0);
  QUERN_UNROLL for (int v = 0; v < kVectors; ++v) {
    if (pass.left(v) <= 0) continue;
    if constexpr (kHasWeight) prefetch_line(weight + v * kStep);
    if constexpr (kHasBias) prefetch_line(bias + v * kStep);
  }
}

QUERN_DEVICE void normalise(const QuantizeParams& p, const Moments& moments, const Parameters& parameters, Values& y) {
  QUERN_UNROLL for (int v = 0; v < kVectors; ++v) {
    Vector weight, bias;
    if constexpr (kHasWeight) weight = widen(parameters.weight[v]);
    if constexpr (kHasBias) bias = widen(parameters.bias[v]);
    QUERN_UNROLL for (int i = 0; i < kElements; ++i) {
      f32 value = y.v[v].x[i];
      if constexpr (kFront == Front::layernorm) value -= moments.mean;
      value *= moments.inverse;
      if constexpr (kHasWeight) value *= weight.x[i] + p.weight_offset;
      if constexpr (kHasBias) value += bias.x[i];
      y.v[v].x[i] = value;
    }
  }
}

}  // namespace q
