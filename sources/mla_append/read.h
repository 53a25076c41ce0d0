// One call of mla_append, read and checked.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "capi/quern.h"
#include "sources/mla_append/params.cuh"
#include "sources/mla_append/plan.h"

namespace quern::ops::mla_append {

struct Problem {
  Shape shape;
  q::MlaAppendParams params;  // but for latent_blocks
  std::int64_t most_blocks;
};

// Throws Error(QUERN_INVALID) naming the argument, what was given and what is allowed.
Problem read_problem(const quern_mla_append_args& args, const Runtime& runtime, bool may_lack_data);

}  // namespace quern::ops::mla_append
