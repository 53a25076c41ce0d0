// The kernels around verify_draft's walk: one edits target's logits before it, one tells of its tokens behind it. Calls
// without penalties, biases, masks and log-probabilities have neither.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "sources/constants.h"
#include "sources/verify_draft/read.h"

namespace quern::ops::verify_draft {

// Their constants, beside which the walk's Spec, whose first word is 0 or 1, is known as another.
enum class Step : std::uint8_t { edit = 2, report = 3 };
struct Around {
  Step step = Step::edit;
  Dtype logits = Dtype::f32;
};
bool is_around(const jit::Spec& spec);
bool is_around(const Constants& given);
Constants around_constants(const jit::Spec& spec);
jit::Spec parse_around(const Constants& given, const jit::TargetInfo& target);
jit::Unit around_unit(const jit::Spec& spec);
jit::Spec to_spec(const Around& around, const jit::TargetInfo& target);

// Those that a call launches, before and behind its walk; null where it has none. Throws what compiling throws.
struct AroundKernels {
  const jit::Kernel *edit = nullptr, *report = nullptr;
};
AroundKernels around_kernels(const Runtime& runtime, const Problem& problem, std::uint32_t flags, void* stream);

// Bytes of workspace behind the first `begin`, and what lies there: into the params of all kernels.
std::uint64_t around_bytes(const Problem& problem);
void place_around(char* scratch, Problem* problem);

void launch_edit(const Runtime& runtime, const jit::Kernel& kernel, Problem* problem, bool bounded, bool programmatic,
                 void* stream);
void launch_report(const Runtime& runtime, const jit::Kernel& kernel, Problem* problem, bool bounded, void* stream);

}  // namespace quern::ops::verify_draft
