// A call's arguments, checked.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "sources/argmax/params.cuh"
#include "sources/call.h"
#include "sources/renormalise/problem.h"
#include "sources/softmax/problem.h"
#include "sources/verify_draft/params.cuh"

namespace quern::ops::verify_draft {

// What comes before the walk: where target's largest are found, or logits become probabilities.
enum class Before { nothing, largest, probabilities, filtered };

struct Problem {
  q::VerifyParams params{};  // all but what `before` leaves in the workspace
  Before before = Before::nothing;
  Dtype target = Dtype::f32;
  q::ArgmaxParams largest{};         // with Before::largest,
  softmax::Problem probabilities{};  // with Before::probabilities,
  renormalise::Problem filtered{};   // with either of the last two: all but what they write
  int sms = 1;
  std::int64_t rows() const { return std::int64_t{params.batch} * (params.n + 1); }
};

// Throws Error(QUERN_INVALID).
Problem read_problem(const quern_verify_draft_args& args, const Runtime& runtime, bool may_lack_data);

}  // namespace quern::ops::verify_draft
