// A call's arguments, checked.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "sources/argmax/params.cuh"
#include "sources/call.h"
#include "sources/renormalise/problem.h"
#include "sources/softmax/problem.h"
#include "sources/verify_draft/around.cuh"
#include "sources/verify_draft/params.cuh"

namespace quern::ops::verify_draft {

// What comes before the walk: where target's largest are found, or what makes probabilities of logits, with filters or
// without.
enum class Before { nothing, largest, filtered, whole };

struct Problem {
  q::VerifyParams params{};  // all but what `before` leaves in the workspace
  Before before = Before::nothing;
  Dtype given = Dtype::f32;             // target's,
  Dtype target = Dtype::f32;            // and where it is edited, what it then is
  q::ArgmaxParams largest{};            // with Before::largest,
  renormalise::Problem filtered{};      // with Before::filtered,
  softmax::Problem whole{};             // with Before::whole: all but what they write
  bool edits = false, reports = false;  // whether these two are launched, before all else and behind it
  bool tells_logprobs = false, logprobs_filtered = false;
  q::EditParams edit{};      // all but what lies in the workspace, and how rows are divided
  q::ReportParams report{};  // the same
  int sms = 1;
  // Whether the walk looks at logits.
  bool of_logits() const { return before == Before::filtered || before == Before::whole; }
  std::int64_t rows() const { return std::int64_t{params.batch} * (params.n + 1); }
};

// Throws Error(QUERN_INVALID).
Problem read_problem(const quern_verify_draft_args& args, const Runtime& runtime, bool may_lack_data);

}  // namespace quern::ops::verify_draft
