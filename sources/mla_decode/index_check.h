// What lies in a call's index tensors, held against its pools before a launch on `host`.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "sources/mla_decode/read.h"

namespace quern::ops::mla_decode {

// Throws Error(QUERN_INVALID) naming the element, what it is and what is allowed: what a GPU's kernel tells in
// `status`.
void check_index_data(const Problem& problem);

}  // namespace quern::ops::mla_decode
