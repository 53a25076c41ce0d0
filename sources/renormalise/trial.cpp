// Random calls of renormalise for `quern verify --run`, and what they come to in double precision.
// SPDX-License-Identifier: Apache-2.0
#include "sources/verify/trial.h"

#include <cmath>
#include <iterator>

#include "sources/ops.h"

namespace quern::ops::renormalise {
namespace {

using namespace verify;

constexpr std::int64_t kVocabularies[] = {100, 1000, 8192, 32000, 128256, 262144, 600000};

// Logits become probabilities on the way of verify_draft alone: whose tokens are held against the host's, as there.
void make_of_logits(const Given& given, std::int64_t vocabulary, Trial& trial) {
  const std::int64_t batch = 3, n = 2;
  quern_verify_draft_args args{};
  std::vector<std::int64_t> drafts;
  for (std::int64_t i = 0; i < batch * n; ++i) drafts.push_back(trial.below(vocabulary));
  args.target = trial.given(given.dtype("dtype"), {batch, n + 1, vocabulary}).tensor();
  args.draft_ids = trial.integers({batch, n}, drafts).tensor();
  args.accepted = trial.result(Dtype::i32, {batch}).tensor();
  args.ids = trial.result(Dtype::i32, {batch, n + 1}).tensor();
  args.flags = QUERN_VERIFY_LOGITS, args.seed = 12345, args.top_k = 40;
  trial.what = "verify_draft of 3 sequences of 2 drafts, vocabulary " + std::to_string(vocabulary);
  trial.call(verify_draft::workspace, verify_draft::run, args);
}

void make(const Given& given, int which, Trial& trial) {
  if (given.flag("logits")) return make_of_logits(given, kVocabularies[which], trial);
  constexpr double kLeast = 0.3125;
  const std::int64_t rows = 3, n = kVocabularies[which];
  quern_renormalise_args args{};
  Field& probs = trial.uniform(Dtype::f32, {rows, n}, 0, 1);
  // Nothing lies where rounding decides whether it stays.
  for (std::int64_t r = 0; r < rows; ++r) {
    probs.set(r * n + trial.below(n), 1);
    for (std::int64_t i = 0; i < n; ++i)
      if (std::abs(probs.get(r * n + i) - kLeast) < 1e-4) probs.set(r * n + i, 0.2);
  }
  Field& out = trial.result(Dtype::f32, {rows, n}, kF32Slack);
  trial.later([=, &probs, &out] {
    for (std::int64_t r = 0; r < rows; ++r) {
      double sum = 0;
      for (std::int64_t i = 0; i < n; ++i) sum += probs.get(r * n + i) >= kLeast ? probs.get(r * n + i) : 0;
      for (std::int64_t i = 0; i < n; ++i)
        out.truth.push_back(probs.get(r * n + i) >= kLeast ? probs.get(r * n + i) / sum : 0);
    }
  });
  args.probs = probs.tensor(), args.out = out.tensor(), args.min_p = kLeast;
  trial.what = "3 rows of " + std::to_string(n) + ", min_p 0.3125";
  trial.call(workspace, run, args);
}

}  // namespace

const OpTrials trials{make, static_cast<int>(std::size(kVocabularies))};

}  // namespace quern::ops::renormalise
