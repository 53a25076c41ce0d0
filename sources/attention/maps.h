// The tensor maps by which Hopper's kernel copies keys and values.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "sources/attention/plan.h"
#include "sources/attention/read.h"

namespace quern::ops::attention {

// Of [pages][kv_heads][tokens][dim], wherever these lie: a copy takes 64 elements of the tokens of a page that a block
// of keys has, at most.
jit::TensorMap map_of_keys(const Runtime& runtime, const Problem& problem, const Tiling& tiling);
jit::TensorMap map_of_values(const Runtime& runtime, const Problem& problem, const Tiling& tiling);

}  // namespace quern::ops::attention
