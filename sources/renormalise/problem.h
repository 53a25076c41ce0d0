// Rows to be renormalised, probabilities or logits: by the op itself, and by those that need its result.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "jit/unit.h"
#include "sources/description.h"
#include "sources/op.h"
#include "sources/renormalise/params.cuh"
#include "sources/softmax/rows.h"

namespace quern::ops::renormalise {

struct Shape {
  Dtype in = Dtype::f32;
  bool logits = false;  // else probabilities, in f32
  bool cluster = true;
};

struct Problem {
  Shape shape;
  q::RenormaliseParams params;
  RowShare share;
};

// The filters' parameters, a number a row or one for all. Throws Error(QUERN_INVALID).
void read_limits(const DLTensor* top_ks, const DLTensor* top_ps, const DLTensor* min_ps, std::int32_t top_k,
                 float top_p, float min_p, std::int64_t rows, const Place& place, q::RenormaliseParams* p);

// How a problem's rows are divided, whose params say how many there are and how long.
void share_rows(Problem* problem, int sms, const jit::TargetInfo& target);
jit::Spec to_spec(const Shape& shape, jit::Target target);
// Throws what compiling and launching throw.
void launch_problem(const Runtime& runtime, Problem* problem, int sms, bool bounded, std::uint32_t flags, void* stream,
                    const char* what);

}  // namespace quern::ops::renormalise
