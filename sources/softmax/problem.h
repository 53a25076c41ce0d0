// Rows whose probabilities are wanted: by the op itself, and by those that need its result.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "sources/op.h"
#include "sources/softmax/params.cuh"
#include "sources/softmax/rows.h"

namespace quern::ops::softmax {

struct Shape {
  Dtype logits = Dtype::f32, out = Dtype::f32;
  bool log = false, cluster = true;
  int each =
      128;  // elements that a thread holds at once: 128, or 64 to 80 of a longer part, of a row that is held; else 16

  RowShape row() const { return {each != q::kStreamedEach, cluster}; }
};

struct Problem {
  Shape shape;  // all but `each` and `cluster`
  q::SoftmaxParams params;
};

jit::Spec to_spec(const Problem& problem, int sms, const jit::TargetInfo& target);
// Throws what compiling and launching throw.
void launch_problem(const Runtime& runtime, Problem* problem, int sms, bool bounded, std::uint32_t flags, void* stream,
                    const char* what);

}  // namespace quern::ops::softmax
