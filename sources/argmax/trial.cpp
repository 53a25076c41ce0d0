// Random calls of argmax for `quern verify --run`, and what they come to in double precision.
// SPDX-License-Identifier: Apache-2.0
#include "sources/verify/trial.h"

#include <iterator>

#include "sources/ops.h"

namespace quern::ops::argmax {
namespace {

using namespace verify;

constexpr std::int64_t kVocabularies[] = {100, 1000, 8192, 32000, 128256, 262144, 600000};

void make(const Given& given, int which, Trial& trial) {
  const std::int64_t rows = 3, n = kVocabularies[which];
  quern_argmax_args args{};
  const Field& x = trial.given(given.dtype("dtype"), {rows, n});
  Field &ids = trial.result(Dtype::i32, {rows}), &values = trial.result(Dtype::f32, {rows});
  for (std::int64_t r = 0; r < rows; ++r) {
    std::int64_t best = 0;
    for (std::int64_t i = 1; i < n; ++i) best = x.get(r * n + i) > x.get(r * n + best) ? i : best;
    ids.truth.push_back(static_cast<double>(best)), values.truth.push_back(x.get(r * n + best));
  }
  args.logits = x.tensor(), args.ids = ids.tensor(), args.values = values.tensor();
  trial.what = "3 rows of " + std::to_string(n);
  trial.call(workspace, run, args);
}

}  // namespace

const OpTrials trials{make, static_cast<int>(std::size(kVocabularies))};

}  // namespace quern::ops::argmax
