// One call of index_scores, read and checked: its kernel's shape and the run-time arguments.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "capi/quern.h"
#include "sources/call.h"
#include "sources/index_data.h"
#include "sources/index_scores/params.cuh"
#include "sources/index_scores/plan.h"

namespace quern::ops::index_scores {

struct Problem {
  Shape shape;
  q::IndexParams params;  // but for how the keys are shared out
  Call call;
};

// Throws Error(QUERN_INVALID) naming the argument, what was given and what is allowed.
Problem read_problem(const Runtime& runtime, const quern_index_scores_args& args, bool may_lack_data);

// What lies in the call's index tensors, and what it is held against: what a GPU's kernel tells in `status`.
void list_index_data(const Problem& problem, IndexList* list);

}  // namespace quern::ops::index_scores
