// Random calls of verify_draft for `quern verify --run`, and what they come to in double precision.
// SPDX-License-Identifier: Apache-2.0
#include "sources/verify/trial.h"

#include <cmath>
#include <iterator>

#include "sources/ops.h"

namespace quern::ops::verify_draft {
namespace {

using namespace verify;

constexpr std::int64_t kVocabularies[] = {100, 4000, 32000, 128256};

// Which drafts are accepted hangs on the last bit of sums in f32, and cannot be held against a definition in double
// precision: tokens are held against the host's execution, and greedy ones against the largest of each row. The kernels
// around the walk are for calls with logits: these have a penalty and log-probabilities.
void make(const Given& given, int which, Trial& trial) {
  const std::int64_t batch = 5, n = 3, vocabulary = kVocabularies[which / 2];
  const std::string step = given.text("step");
  const bool greedy = which % 2 != 0, logits = given.flag("logits"),
             edits = step == "edit" || (step == "report" && given.dtype("dtype") == Dtype::f32);
  quern_verify_draft_args args{};
  Field &target = trial.uniform(given.dtype("dtype", Dtype::f32), {batch, n + 1, vocabulary}, 0, 1),
        &accepted = trial.result(Dtype::i32, {batch}), &ids = trial.result(Dtype::i32, {batch, n + 1});
  std::vector<std::int64_t> drafts, bests, rights;
  for (std::int64_t b = 0; b < batch; ++b) {
    std::vector<std::int64_t> best;
    for (std::int64_t i = 0; i <= n; ++i) {
      // No other draft's: what it takes from those before it changes no row's largest.
      best.push_back(trial.below(vocabulary / 4) * 4 + i);
      target.set((b * (n + 1) + i) * vocabulary + best.back(), 2);
    }
    const std::int64_t right = trial.below(n + 1);  // so many drafts are what target has most of
    for (std::int64_t i = 0; i < n; ++i)
      drafts.push_back(i < right ? best[static_cast<std::size_t>(i)]
                                 : (best[static_cast<std::size_t>(i)] + 1) % vocabulary);
    bests.insert(bests.end(), best.begin(), best.end()), rights.push_back(right);
    if (!greedy) continue;
    accepted.truth.push_back(static_cast<double>(right));
    for (std::int64_t i = 0; i <= n; ++i)
      ids.truth.push_back(i <= right ? static_cast<double>(best[static_cast<std::size_t>(i)]) : -1);
  }
  args.target = target.tensor(), args.accepted = accepted.tensor(), args.ids = ids.tensor();
  args.draft_ids = trial.integers({batch, n}, drafts).tensor(), args.seed = 12345;
  // With temperature 0 it is the walk on logits that goes where these are largest.
  if (logits) args.flags |= QUERN_VERIFY_LOGITS;
  if (greedy) args.flags |= logits ? QUERN_VERIFY_TEMPERATURE : QUERN_VERIFY_GREEDY;
  trial.what = "5 sequences of 3 drafts, vocabulary " + std::to_string(vocabulary) + (greedy ? ", greedy" : "");
  if (!step.empty()) {
    args.flags |= QUERN_VERIFY_LOGITS;
    Field& logprobs = trial.result(Dtype::f32, {batch, n + 1}, 0x1p-14);
    args.logprobs = logprobs.tensor();
    constexpr double kPresence = 0.25;
    if (edits) {
      args.output_counts = trial.integers({batch, vocabulary}, {}).updated().tensor();
      args.presence = static_cast<float>(kPresence);
    }
    if (greedy) logprobs.unknown();
    for (std::int64_t b = 0; greedy && b < batch; ++b) {
      for (std::int64_t i = 0; i <= rights[static_cast<std::size_t>(b)]; ++i) {
        double sum = 0;
        for (std::int64_t t = 0; t < vocabulary; ++t) {
          double x = target.get((b * (n + 1) + i) * vocabulary + t);
          for (std::int64_t j = 0; edits && j < i; ++j) {
            if (bests[static_cast<std::size_t>(b * (n + 1) + j)] == t) x -= kPresence;
          }
          sum += std::exp(x - 2);
        }
        logprobs.know(b * (n + 1) + i, -std::log(sum));
      }
    }
    trial.what += edits ? ", with a penalty" : ", with log-probabilities";
  }
  trial.call(workspace, run, args);
}

}  // namespace

const OpTrials trials{make, 2 * static_cast<int>(std::size(kVocabularies))};

}  // namespace quern::ops::verify_draft
