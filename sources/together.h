// Compilations in the background for calls that may wait for them: several kernels of one call side by side, and a
// kernel in whose place another one serves meanwhile.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "jit/spec.h"
#include "sources/op.h"

namespace quern::ops {

// Has those that are neither loaded nor cached compiled in the background, if the call may wait for compilations at
// all; kernel_for() then waits for each. What fails fails there, with its text.
void begin_kernels(const Runtime& runtime, std::span<const jit::Spec> specs, std::uint32_t call_flags, void* stream);

// Whether a call takes this kernel: false where it would have to wait for its compilation, which then goes on in the
// background. The caller has another kernel with the same results. Where the stream is being captured, what has been
// begun is waited for. Throws what kernel_for() throws, but for a call that may not wait leaves that to it.
bool is_ready_or_begins(const Runtime& runtime, const jit::Spec& spec, std::uint32_t call_flags, void* stream);

}  // namespace quern::ops
