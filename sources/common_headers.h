// The device sources that a compilation for a target may include.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "jit/target.h"
#include "jit/unit.h"

namespace quern::ops {

// The device-side layer: all embedded common/**/*.cuh that are for this target. A backend stands under the name by
// which kernels ask for it: "common/backend.cuh" is that of the target's family, "common/sm90/tma_backend.cuh" and
// "common/sm90/warpgroup_backend.cuh" are those of Hopper's instructions. Throws Error(QUERN_UNSUPPORTED) for a target
// of no known family.
std::vector<jit::File> common_headers(jit::Target target);

// The layer and the headers of every op. Only those that a kernel includes go into its key.
std::vector<jit::File> device_headers(jit::Target target);

}  // namespace quern::ops
