// Every device source of sources/, whole, inside the library: kernels compile without a file or an include path.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string_view>

#include "jit/unit.h"

namespace quern::ops {

// All sources/**/*.cuh, sorted by name, with their digests and includes; a name is the path below sources/:
// "common/kernel.cuh". The views live for ever.
std::span<const jit::File> embedded();

// Throws Error(QUERN_INTERNAL) when there is no such file.
jit::File embedded(std::string_view name);

}  // namespace quern::ops
