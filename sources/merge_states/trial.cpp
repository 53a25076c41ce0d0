// Random calls of merge_states for `quern verify --run`, and what they come to in double precision.
// SPDX-License-Identifier: Apache-2.0
#include "sources/verify/trial.h"

#include <cmath>

#include "sources/ops.h"

namespace quern::ops::merge_states {
namespace {

using namespace verify;

void make(const Given& given, int, Trial& trial) {
  constexpr std::int64_t kParts = 4, kRows = 19, kHeads = 3, kDim = 72, kAll = kRows * kHeads;
  const Dtype dtype = given.dtype("dtype");
  quern_merge_states_args args{};
  const Field &parts = trial.given(dtype, {kParts, kRows, kHeads, kDim}),
              &lses = trial.given(Dtype::f32, {kParts, kRows, kHeads});
  Field &out = trial.result(dtype, {kRows, kHeads, kDim}, kF32Slack),
        &lse = trial.result(Dtype::f32, {kRows, kHeads}, kF32Slack);
  for (std::int64_t i = 0; i < kAll; ++i) {
    double sum = 0;
    for (std::int64_t p = 0; p < kParts; ++p) sum += std::exp(lses.get(p * kAll + i));
    lse.truth.push_back(std::log(sum));
    for (std::int64_t d = 0; d < kDim; ++d) {
      double value = 0;
      for (std::int64_t p = 0; p < kParts; ++p)
        value += std::exp(lses.get(p * kAll + i)) / sum * parts.get((p * kAll + i) * kDim + d);
      out.truth.push_back(value);
    }
  }
  args.parts = parts.tensor(), args.part_lses = lses.tensor(), args.out = out.tensor(), args.lse = lse.tensor();
  trial.what = "4 parts of 19 rows of 3 heads of 72";
  trial.call(workspace, run, args);
}

}  // namespace

const OpTrials trials{make};

}  // namespace quern::ops::merge_states
