// Rows whose largest are looked for: by the op itself, and by those that need its result.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "sources/argmax/params.cuh"
#include "sources/op.h"
#include "sources/tensor.h"

namespace quern::ops::argmax {

jit::Spec to_spec(Dtype logits, const jit::TargetInfo& target);
// Throws what compiling and launching throw.
void launch_problem(const Runtime& runtime, Dtype logits, q::ArgmaxParams* params, int sms, bool bounded,
                    std::uint32_t flags, void* stream, const char* what);

}  // namespace quern::ops::argmax
