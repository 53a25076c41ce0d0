// What of a quantisation is a compile-time constant, and how a kernel of those constants shares out a row.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "jit/spec.h"
#include "jit/target.h"
#include "jit/unit.h"
#include "sources/op.h"
#include "sources/quantize/params.cuh"
#include "sources/tensor.h"

namespace quern::ops::quantize {

struct Shape {
  Dtype x = Dtype::bf16;
  Dtype out = Dtype::e4m3;      // also what a scale is found for; other with Scale::none, and there alone
  Dtype weight = Dtype::other;  // other: none
  Dtype bias = Dtype::other;
  q::Front front = q::Front::none;
  q::Scale scale = q::Scale::group;
  bool residual = false;
  bool tail = false;  // rows end within a vector
  int access = 16;    // bytes that an access takes: 16, 8, 4 or 2
  int columns = 0;    // that a team takes at once, at least; 0: fewer than the row has, which it takes again and again

  bool norm() const { return front == q::Front::rmsnorm || front == q::Front::layernorm; }
  bool product() const { return front >= q::Front::silu_mul; }
  // Whether something must be known of a row as a whole before its first element can be written.
  bool whole() const { return norm() || scale == q::Scale::token; }
  int elements() const { return access == 16 ? 8 : 4; }  // of a vector
};

// How a kernel shares out a row among threads.
struct Tiling {
  int team;     // threads of a row
  int vectors;  // that each holds
  int threads;  // of a block
  int blocks_per_sm;
  int pass;  // columns that a team takes at once
};

// Sets tail, access and columns for rows of n elements that are aligned to `alignment` bytes. `few`: rows that are not
// taken as a whole go in small pieces, so that many multiprocessors share them.
void fit(Shape& shape, std::int64_t n, int alignment, bool few = false);
// Whether an SM's threads have room for so many elements at once, if each takes one vector.
bool are_few(const Shape& shape, std::int64_t elements, int sms);

Tiling tile(const Shape& shape, const jit::TargetInfo& target);

jit::Spec to_spec(const Shape& shape, jit::Target target);
Shape to_shape(const jit::Spec& spec);
Constants to_constants(const Shape& shape);
Shape from_constants(const Constants& constants);
jit::Unit to_unit(const Shape& shape, jit::Target target);

// What a model whose weights are 8-bit needs; nothing for others.
void list(const quern_model& model, const jit::TargetInfo& target, std::vector<jit::Spec>* specs);

}  // namespace quern::ops::quantize
