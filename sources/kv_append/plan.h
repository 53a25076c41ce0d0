// The compile-time side of kv_append.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "jit/spec.h"
#include "jit/target.h"
#include "jit/unit.h"
#include "sources/op.h"
#include "sources/rope/options.h"
#include "sources/tensor.h"

namespace quern::ops::kv_append {

inline constexpr int kMostDim = 1024;
inline constexpr int kThreads = 128;
inline constexpr int kBlocksPerSm = 6;

struct Shape : rope::RopeShape {
  Dtype x = Dtype::bf16;
  Dtype cache = Dtype::bf16;      // x, or 8 bits
  Dtype q_out = Dtype::other;     // other: no queries
  Dtype weight = Dtype::other;    // of the norms; other: none
  bool find_cache_scale = false;  // a scale a token and head is found and written
  bool find_q_scale = false;
  int dim_k = 0, dim_v = 0;
  int width = 8;  // elements of a vector

  int lanes() const { return rope::team_lanes(*this, dim_k, dim_v, width); }
};

jit::Spec to_spec(const Shape& shape, jit::Target target);
Shape to_shape(const jit::Spec& spec);
Constants to_constants(const Shape& shape);
Shape from_constants(const Constants& constants);
jit::Unit to_unit(const Shape& shape, jit::Target target);

}  // namespace quern::ops::kv_append
