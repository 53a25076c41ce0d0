// What stands in front of the quantiser: the elements of a row as it takes them, from the tensors of the call.
// SPDX-License-Identifier: Apache-2.0
#pragma once

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
inline constexpr bool kProduct = kFront == Front::silu_mul || kFront == Front::gelu_mul || kFront == Front::gelu_tanh_mul;
inline constexpr i32 kPass = kTeam * kVectors * kElements;  // columns that a team takes at once

// The vectors of one pass over a row, as its thread sees them.
struct Pass {
  i64 row;
  i64 first;   // column
  bool there;  // a team past the last row reads and writes nothing
  i32 n;

  QUERN_DEVICE i64 column(int vector) const {
    return first + (vector * kTeam + (kTeams == 1 ? thread_index() : thread_index() & (kTeam - 1))) * kElements;
  }
  // Elements of the row from there on, at most 0 where there is none.
  QUERN_DEVICE i64 left(int vector) const { return there ? n - column(vector) : 0; }
};

struct Values {
  Vector v[kVectors];
};

QUERN_DEVICE f32 activate(f32 gate) {
  if constexpr (kFront == Front::silu_mul) {
    return silu(gate);
  } else if constexpr (kFront == Front::gelu_mul) {
    return gelu(gate);
  } else {
    return gelu_tanh(gate);
  }
}

// x, x + residual, or the product. All loads are under way before the first is waited for.
QUERN_DEVICE Values load_values(const QuantizeParams& p, const Pass& pass) {
  const In* x = static_cast<const In*>(p.x) + pass.row * p.x_stride;
  const In* residual = static_cast<const In*>(p.residual) + pass.row * p.residual_stride;
  Raw<In> first[kVectors], second[kVectors];
  QUERN_UNROLL for (int v = 0; v < kVectors; ++v) {
    const i64 column = pass.column(v), left = pass.left(v);
    first[v] = load_vector<Reuse::no>(x + column, left);
    if constexpr (kProduct) second[v] = load_vector<Reuse::no>(x + pass.n + column, left);
    if constexpr (kResidual) second[v] = load_vector<Reuse::no>(residual + column, left);
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
  In* row = static_cast<In*>(to) + pass.row * stride;
  QUERN_UNROLL for (int v = 0; v < kVectors; ++v) store_vector(row + pass.column(v), y.v[v], pass.left(v));
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
    const i64 left = pass.left(v);
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
  QUERN_UNROLL for (int v = 0; v < kVectors; ++v) {
    const i64 column = pass.column(v), left = pass.left(v);
    if constexpr (kHasWeight) parameters.weight[v] = load_vector<Reuse::yes>(static_cast<const Weight*>(p.weight) + column, left);
    if constexpr (kHasBias) parameters.bias[v] = load_vector<Reuse::yes>(static_cast<const Bias*>(p.bias) + column, left);
  }
  return parameters;
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
