// Random calls of verify_draft for `quern verify --run`, and what they come to in double precision.
// SPDX-License-Identifier: Apache-2.0
#include "sources/verify/trial.h"

#include <iterator>

#include "sources/ops.h"

namespace quern::ops::verify_draft {
namespace {

using namespace verify;

constexpr std::int64_t kVocabularies[] = {100, 4000, 32000, 128256};

// Which drafts are accepted hangs on the last bit of sums in f32, and cannot be held against a definition in double
// precision: tokens are held against the host's execution, and greedy ones against the largest of each row.
void make(const Given&, int which, Trial& trial) {
  const std::int64_t batch = 5, n = 3, vocabulary = kVocabularies[which / 2];
  const bool greedy = which % 2 != 0;
  quern_verify_draft_args args{};
  Field &target = trial.uniform(Dtype::f32, {batch, n + 1, vocabulary}, 0, 1),
        &accepted = trial.result(Dtype::i32, {batch}), &ids = trial.result(Dtype::i32, {batch, n + 1});
  std::vector<std::int64_t> drafts;
  for (std::int64_t b = 0; b < batch; ++b) {
    std::vector<std::int64_t> best;
    for (std::int64_t i = 0; i <= n; ++i) {
      best.push_back(trial.below(vocabulary));
      target.set((b * (n + 1) + i) * vocabulary + best.back(), 2);
    }
    const std::int64_t right = trial.below(n + 1);  // so many drafts are what target has most of
    for (std::int64_t i = 0; i < n; ++i)
      drafts.push_back(i < right ? best[static_cast<std::size_t>(i)]
                                 : (best[static_cast<std::size_t>(i)] + 1) % vocabulary);
    if (!greedy) continue;
    accepted.truth.push_back(static_cast<double>(right));
    for (std::int64_t i = 0; i <= n; ++i)
      ids.truth.push_back(i <= right ? static_cast<double>(best[static_cast<std::size_t>(i)]) : -1);
  }
  args.target = target.tensor(), args.accepted = accepted.tensor(), args.ids = ids.tensor();
  args.draft_ids = trial.integers({batch, n}, drafts).tensor(), args.seed = 12345;
  if (greedy) args.flags |= QUERN_VERIFY_GREEDY;
  trial.what = "5 sequences of 3 drafts, vocabulary " + std::to_string(vocabulary) + (greedy ? ", greedy" : "");
  trial.call(workspace, run, args);
}

}  // namespace

const OpTrials trials{make, 2 * static_cast<int>(std::size(kVocabularies))};

}  // namespace quern::ops::verify_draft
