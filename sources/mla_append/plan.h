// The compile-time side of mla_append.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "jit/spec.h"
#include "jit/target.h"
#include "jit/unit.h"
#include "sources/mla_append/params.cuh"
#include "sources/op.h"
#include "sources/rope/options.h"
#include "sources/tensor.h"

namespace quern::ops::mla_append {

inline constexpr int kMostLatent = 512, kMostRope = 128;
inline constexpr int kThreads = 128;

struct Shape : rope::RopeShape {
  Dtype element = Dtype::bf16;
  Dtype weight = Dtype::other;  // of the norm; other: none
  q::CacheKind kind = q::CacheKind::plain;
  int d_latent = 512, d_rope = 64;
  bool queries = false;
  int alignment = 16;  // bytes that all rows are aligned to: 16, 8 or 4

  // Of threads at once: as many as have registers for what a kind of cache asks for.
  int blocks_per_sm() const { return kind == q::CacheKind::plain ? 8 : 7; }
  // Elements of a vector of the rope part, and lanes that share it.
  int rope_width() const;
  int rope_lanes() const;
};

jit::Spec to_spec(const Shape& shape, jit::Target target);
Shape to_shape(const jit::Spec& spec);
Constants to_constants(const Shape& shape);
// Throws Error(QUERN_INVALID).
Shape from_constants(const Constants& constants);
jit::Unit to_unit(const Shape& shape, jit::Target target);

}  // namespace quern::ops::mla_append
