// Reading the heads that a call turns.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "capi/quern.h"
#include "sources/call.h"
#include "sources/rope/launch_params.cuh"

namespace quern::ops::rope {

// [tokens, heads, dim], to be written over where `to` is NULL. Strips are left to the caller. Throws
// Error(QUERN_INVALID) naming the argument, what was given and what is allowed.
q::RopeHeads read_heads(const DLTensor* from, const char* from_name, const DLTensor* to, const char* to_name,
                        Dtype dtype, const Call& call, std::int64_t tokens, std::int64_t dim);

}  // namespace quern::ops::rope
