// The device-side layer as the headers of a compilation: everything target-independent, and one backend.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "jit/target.h"
#include "jit/unit.h"

namespace quern::ops {

// All embedded common/*.cuh but the backends, and the backend of the target's family under the name
// "common/backend.cuh". Throws Error(QUERN_UNSUPPORTED) for a target of no known family.
std::vector<jit::File> common_headers(jit::Target target);

}  // namespace quern::ops
