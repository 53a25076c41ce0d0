// Where kv_append's tokens go, held against the cache before a launch on `host`.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "sources/kv_append/read.h"

namespace quern::ops::kv_append {

// Throws Error(QUERN_INVALID) naming the first slot, position, length, offset or page that leads out of the cache, the
// page table or the rope's table. Reads the data of the call's index tensors.
void check_index_data(const Problem& problem);

}  // namespace quern::ops::kv_append
