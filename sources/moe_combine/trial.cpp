// Random calls of moe_combine for `quern verify --run`, and what they come to in double precision.
// SPDX-License-Identifier: Apache-2.0
#include "sources/verify/trial.h"

#include "sources/ops.h"

namespace quern::ops::moe_combine {
namespace {

using namespace verify;

void make(const Given& given, int, Trial& trial) {
  constexpr std::int64_t kRows = 40, kTokens = 17, kChoices = 3, kN = 200;
  const Dtype dtype = given.dtype("dtype");
  quern_moe_combine_args args{};
  const Field &x = trial.given(dtype, {kRows, kN}), &weights = trial.given(Dtype::f32, {kTokens, kChoices});
  std::vector<std::int64_t> positions;
  for (std::int64_t i = 0; i < kTokens * kChoices; ++i) positions.push_back(trial.below(kRows + 1) - 1);
  Field& out = trial.result(given.dtype("out", dtype), {kTokens, kN}, kF32Slack);
  for (std::int64_t t = 0; t < kTokens; ++t) {
    for (std::int64_t i = 0; i < kN; ++i) {
      double sum = 0;
      for (std::int64_t c = 0; c < kChoices; ++c) {
        const std::int64_t row = positions[static_cast<std::size_t>(t * kChoices + c)];
        if (row >= 0) sum += weights.get(t * kChoices + c) * x.get(row * kN + i);
      }
      out.truth.push_back(sum);
    }
  }
  args.x = x.tensor(), args.weights = weights.tensor(), args.out = out.tensor();
  args.positions = trial.integers({kTokens, kChoices}, positions).tensor();
  args.alignment = static_cast<std::int32_t>(given.integer("alignment", 16));
  trial.what = "17 tokens, 3 of 40 rows of 200 each";
  trial.call(workspace, run, args);
}

}  // namespace

const OpTrials trials{make};

}  // namespace quern::ops::moe_combine
