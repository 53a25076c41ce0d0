// One call of kv_append, read and checked.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "capi/quern.h"
#include "sources/kv_append/params.cuh"
#include "sources/kv_append/plan.h"

namespace quern::ops::kv_append {

struct Problem {
  Shape shape;
  q::KvAppendParams params;
  std::int64_t most_blocks;
  std::int64_t tokens;
};

// Throws Error(QUERN_INVALID) naming the argument, what was given and what is allowed.
Problem read_problem(const quern_kv_append_args& args, const Runtime& runtime, bool may_lack_data);

}  // namespace quern::ops::kv_append
