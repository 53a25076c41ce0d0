// Hopper's instruments, as kernels call them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "sources/common/portable/host_abi.cuh"

namespace quern::jit::host {

void add_hopper_calls(q::host::Table& table);

}  // namespace quern::jit::host
