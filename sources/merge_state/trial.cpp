// Random calls of merge_state for `quern verify --run`, and what they come to in double precision.
// SPDX-License-Identifier: Apache-2.0
#include "sources/verify/trial.h"

#include <cmath>

#include "sources/ops.h"

namespace quern::ops::merge_state {
namespace {

using namespace verify;

void make(const Given& given, int, Trial& trial) {
  constexpr std::int64_t kRows = 37, kHeads = 3, kDim = 72;
  const Dtype dtype = given.dtype("dtype");
  quern_merge_state_args args{};
  const Field &a = trial.given(dtype, {kRows, kHeads, kDim}), &b = trial.given(dtype, {kRows, kHeads, kDim});
  const Field &lse_a = trial.given(Dtype::f32, {kRows, kHeads}), &lse_b = trial.given(Dtype::f32, {kRows, kHeads});
  Field &out = trial.result(dtype, {kRows, kHeads, kDim}, kF32Slack),
        &lse = trial.result(Dtype::f32, {kRows, kHeads}, kF32Slack);
  for (std::int64_t i = 0; i < kRows * kHeads; ++i) {
    const double wa = std::exp(lse_a.get(i)), wb = std::exp(lse_b.get(i));
    lse.truth.push_back(std::log(wa + wb));
    for (std::int64_t d = 0; d < kDim; ++d)
      out.truth.push_back((wa * a.get(i * kDim + d) + wb * b.get(i * kDim + d)) / (wa + wb));
  }
  args.out_a = a.tensor(), args.out_b = b.tensor(), args.lse_a = lse_a.tensor(), args.lse_b = lse_b.tensor();
  args.out = out.tensor(), args.lse = lse.tensor();
  trial.what = "37 rows of 3 heads of 72";
  trial.call(workspace, run, args);
}

}  // namespace

const OpTrials trials{make};

}  // namespace quern::ops::merge_state
