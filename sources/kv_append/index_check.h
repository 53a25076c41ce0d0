// Where tokens go, held against their cache before a launch on `host`.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "sources/kv_append/place_params.cuh"
#include "sources/rope/params.cuh"

namespace quern::ops::kv_append {

// Throws Error(QUERN_INVALID) naming the first slot, position, length, offset or page that leads out of the cache, the
// page table or the rope's table. Reads the data of the call's index tensors. `cache` and `given` are what the op calls
// its cache and its new tokens.
void check_places(const q::TokenPlaces& places, const q::Rope& rope, std::int64_t tokens, const char* cache,
                  const char* given);

}  // namespace quern::ops::kv_append
