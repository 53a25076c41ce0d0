// The kernels of one call, compiled side by side where it would else wait for each in turn.
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

}  // namespace quern::ops
