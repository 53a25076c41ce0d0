// Random calls of rope for `quern verify --run`, and what they come to in double precision.
// SPDX-License-Identifier: Apache-2.0
#include "sources/ops.h"
#include "sources/verify/sequences.h"

namespace quern::ops::rope {
namespace {

using namespace verify;

constexpr int kAlignments[] = {16, 8, 4, 2};

void make(const Given& given, int which, Trial& trial) {
  constexpr std::int64_t kTokens = 13, kHeads = 3;
  const std::int64_t dim = given.integer("dim");
  const Dtype dtype = given.dtype("dtype");
  quern_rope_args args{};
  Turning turning;
  args.rope = turning_of(given, given.integer("rotary_dim", dim), trial, &turning);
  const Field& q = trial.given(dtype, {kTokens, kHeads, dim});
  std::vector<std::int64_t> positions;
  for (std::int64_t t = 0; t < kTokens; ++t) positions.push_back(trial.below(1000));
  Field& out = trial.result(dtype, {kTokens, kHeads, dim}, 0x1p-15);
  for (std::int64_t i = 0; i < out.count(); ++i) out.truth.push_back(q.get(i));
  for (std::int64_t row = 0; row < kTokens * kHeads; ++row)
    turning.apply(out.truth.data() + row * dim, positions[static_cast<std::size_t>(row / kHeads)]);
  args.q = q.tensor(), args.q_out = out.tensor();
  args.positions = trial.integers({kTokens}, positions).tensor(), args.alignment = kAlignments[which];
  trial.what = "13 tokens of 3 heads";
  trial.call(workspace, run, args);
}

}  // namespace

const OpTrials trials{make, 4};

}  // namespace quern::ops::rope
