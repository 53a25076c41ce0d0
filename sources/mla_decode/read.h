// One call of MLA decode, read and checked: its kernel's shape and the run-time arguments.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "capi/quern.h"
#include "sources/call.h"
#include "sources/mla_decode/params.cuh"
#include "sources/mla_decode/plan.h"

namespace quern::ops::mla_decode {

struct Problem {
  Shape shape;
  q::MlaParams params;  // but for what the plan and the workspace say
  Call call;
};

// Throws Error(QUERN_INVALID) naming the argument, what was given and what is allowed. With `may_lack_data` (workspace,
// prepare) data may be NULL: shapes and maxima count.
Problem read_problem(const Runtime& runtime, const quern_mla_decode_args& args, bool may_lack_data);

// Sets the shape's kernel, for sequences of up to so many query tokens times heads.
void choose_variant(Problem& problem, std::int64_t most_rows);

}  // namespace quern::ops::mla_decode
