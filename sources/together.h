// Compilations in the background for calls that may wait for them: several kernels of one call side by side, and a
// kernel in whose place another one serves meanwhile.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "jit/spec.h"
#include "sources/op.h"

namespace quern::ops {

// Has those that are neither loaded nor cached compiled in the background, if the call may wait for compilations at
// all; kernel_for() then waits for each. What fails fails there, with its text.
void begin_kernels(const Runtime& runtime, std::span<const jit::Spec> specs, std::uint32_t call_flags, void* stream);

// Of kernels with the same results, the one that is wanted first and the one that is compiled soonest last, which does
// a call: the first that is loaded or cached. Where none is, the last, which is compiled now; those before it are in
// the background, after that, lest on a machine of few cores it waits for them. 0 for a call that may not wait, and
// where the stream is being captured, once what has been begun is there: kernel_for() then has it or says what is
// missing. Throws what kernel_for() throws.
std::size_t first_that_is_there(const Runtime& runtime, std::span<const jit::Spec> specs, std::uint32_t call_flags,
                                void* stream);

}  // namespace quern::ops
