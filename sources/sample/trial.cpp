// Random calls of sample for `quern verify --run`, and what they come to in double precision.
// SPDX-License-Identifier: Apache-2.0
#include "sources/verify/trial.h"

#include <cmath>
#include <iterator>
#include <string>

#include "sources/ops.h"

namespace quern::ops::sample {
namespace {

using namespace verify;

constexpr struct {
  std::int64_t rows, vocabulary;
  bool rare;  // what kernels of clusters leave to the portable one
} kCalls[] = {{4, 1000, false}, {4, 32000, false}, {90, 4000, false},
              {4, 1000, true},  {1, 4000, false},  {1, 32000, false}};

// What is drawn cannot be held against a definition in double precision: it hangs on the last bit of sums in f32. So
// tokens are held against the host's execution, and rows of temperature 0 against the largest logit.
void make(const Given& given, int which, Trial& trial) {
  const auto [rows, vocabulary, rare] = kCalls[which];
  const bool edits = given.flag("edits"), filters = given.flag("filters");
  quern_sample_args args{};
  Field& logits = trial.given(given.dtype("dtype"), {rows, vocabulary});
  Field& temperatures = trial.uniform(Dtype::f32, {rows}, 0.5, 1.5);
  Field &ids = trial.result(Dtype::i32, {rows}), &logprobs = trial.result(Dtype::f32, {rows}, 0x1p-14);
  // An even row is greedy, and its largest logit is nobody else's.
  for (std::int64_t r = 0; r < rows; ++r) {
    ids.truth.push_back(kUnknown), logprobs.truth.push_back(kUnknown);
    if (r % 2 != 0) continue;
    const std::int64_t best = trial.below(vocabulary);
    logits.set(r * vocabulary + best, 9), temperatures.set(r, 0);
    ids.truth.back() = static_cast<double>(best);
    if (filters || edits) continue;
    double sum = 0;
    for (std::int64_t i = 0; i < vocabulary; ++i) sum += std::exp(logits.get(r * vocabulary + i) - 9);
    logprobs.truth.back() = -std::log(sum);
  }
  args.logits = logits.tensor(), args.ids = ids.tensor(), args.logprobs = logprobs.tensor();
  args.temperatures = temperatures.tensor(), args.seed = 12345, args.offset = 7;
  if (edits) args.output_counts = trial.integers({rows, vocabulary}, {}).updated().tensor(), args.presence = 0.1f;
  if (filters) args.top_k = 40, args.top_p = 0.9f, args.flags |= QUERN_SAMPLE_TOP_P;
  if (rare) args.typical_p = 0.9f, args.flags |= QUERN_SAMPLE_TYPICAL_P;
  trial.what = std::to_string(rows) + " rows of " + std::to_string(vocabulary);
  trial.call(workspace, run, args);
}

std::string refusal(const Given& given) {
  return given.flag("small") ? "it does calls while the kernel that they want is compiled; none of the trials' is" : "";
}

}  // namespace

const OpTrials trials{make, static_cast<int>(std::size(kCalls)), refusal};

}  // namespace quern::ops::sample
