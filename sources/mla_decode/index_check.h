// What lies in a call's index tensors, and what it is held against: what a GPU's kernel tells in `status`.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "sources/index_data.h"
#include "sources/mla_decode/read.h"

namespace quern::ops::mla_decode {

void list_index_data(const Problem& problem, IndexList* list);

}  // namespace quern::ops::mla_decode
