// The kernel that walks a call's index tensors in the checked form, as an op of the library's own.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "sources/op.h"

namespace quern::ops::index_check {

extern const Op op;

inline constexpr int kWarps = 8;

jit::Spec spec_for(jit::Target target);

// The kernel, as kernel_for readies it.
const jit::Kernel* ready(const Runtime& runtime, std::uint32_t call_flags, void* stream);

}  // namespace quern::ops::index_check
