// What tensors of a problem hold before it is run.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "bindings/cli/bench/machine.h"
#include "bindings/cli/bench/problem.h"

namespace quern::cli {

// Fills `memory`, which has the tensor's bytes, from a seed. Random data, since what multiplies zeros draws less power
// and runs faster. Of large tensors a part is drawn, and repeated.
void fill(Machine& machine, void* memory, std::size_t bytes, const ProblemTensor& tensor, std::uint64_t seed);

}  // namespace quern::cli
