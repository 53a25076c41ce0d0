// Random calls of moe_route for `quern verify --run`, and what they come to in double precision.
// SPDX-License-Identifier: Apache-2.0
#include "sources/verify/trial.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "sources/ops.h"

namespace quern::ops::moe_route {
namespace {

using namespace verify;

// Tokens that one launch sorts, and those that take a second.
constexpr std::int64_t kTokens[] = {9, 300, 3000, 20000};

void make(const Given& given, int which, Trial& trial) {
  const std::int64_t tokens = kTokens[which], experts = given.integer("experts", 64) - 3, k = 4;
  quern_moe_route_args args{};
  // Scores of steps of 1/32 are either equal or further apart than their rounding.
  Field& logits = trial.given(given.dtype("dtype", Dtype::f32), {tokens, experts});
  for (std::int64_t i = 0; i < logits.count(); ++i) logits.set(i, static_cast<double>(trial.below(256) - 128) / 32);
  Field &weights = trial.result(Dtype::f32, {tokens, k}, kF32Slack), &ids = trial.result(Dtype::i32, {tokens, k}),
        &offsets = trial.result(Dtype::i32, {experts + 1}), &indices = trial.result(Dtype::i32, {tokens * k}),
        &positions = trial.result(Dtype::i32, {tokens, k}), &counts = trial.result(Dtype::i32, {experts});
  trial.later([=, &logits, &weights, &ids, &offsets, &indices, &positions, &counts] {
    std::vector<std::vector<std::int64_t>> chosen_by(static_cast<std::size_t>(experts));
    std::vector<std::int64_t> order(static_cast<std::size_t>(experts));
    for (std::int64_t t = 0; t < tokens; ++t) {
      double sum = 0;
      for (std::int64_t e = 0; e < experts; ++e) sum += std::exp(logits.get(t * experts + e));
      std::iota(order.begin(), order.end(), 0);
      std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
        return logits.get(t * experts + a) > logits.get(t * experts + b);
      });
      for (std::int64_t j = 0; j < k; ++j) {
        const std::int64_t e = order[static_cast<std::size_t>(j)];
        ids.truth.push_back(static_cast<double>(e));
        weights.truth.push_back(std::exp(logits.get(t * experts + e)) / sum);
        chosen_by[static_cast<std::size_t>(e)].push_back(t * k + j);
      }
    }
    positions.truth.resize(static_cast<std::size_t>(tokens * k));
    for (const std::vector<std::int64_t>& choices : chosen_by) {
      offsets.truth.push_back(static_cast<double>(indices.truth.size()));
      counts.truth.push_back(static_cast<double>(choices.size()));
      for (const std::int64_t choice : choices) {
        positions.truth[static_cast<std::size_t>(choice)] = static_cast<double>(indices.truth.size());
        indices.truth.push_back(static_cast<double>(choice / k));
      }
    }
    offsets.truth.push_back(static_cast<double>(indices.truth.size()));
  });
  args.logits = logits.tensor(), args.weights = weights.tensor(), args.ids = ids.tensor();
  args.offsets = offsets.tensor(), args.indices = indices.tensor(), args.positions = positions.tensor();
  args.counts = counts.tensor(), args.top_k = static_cast<std::int32_t>(k);
  trial.what = std::to_string(tokens) + " tokens, " + std::to_string(experts) + " experts";
  trial.call(workspace, run, args);
}

}  // namespace

const OpTrials trials{make, 4};

}  // namespace quern::ops::moe_route
