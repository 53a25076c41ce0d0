// Random calls of softmax for `quern verify --run`, and what they come to in double precision.
// SPDX-License-Identifier: Apache-2.0
#include "sources/verify/trial.h"

#include <cmath>
#include <iterator>

#include "sources/ops.h"

namespace quern::ops::softmax {
namespace {

using namespace verify;

constexpr std::int64_t kVocabularies[] = {100, 1000, 4000, 8192, 16000, 32000, 64000, 128256, 201088, 262144, 600000};

void make(const Given& given, int which, Trial& trial) {
  const std::int64_t rows = 3, n = kVocabularies[which];
  const Dtype dtype = given.dtype("dtype");
  const bool log = given.flag("log");
  quern_softmax_args args{};
  const Field& x = trial.given(dtype, {rows, n});
  Field& out = trial.result(given.dtype("out", dtype), {rows, n}, kF32Slack);
  trial.later([=, &x, &out] {
    for (std::int64_t r = 0; r < rows; ++r) {
      double sum = 0;
      for (std::int64_t i = 0; i < n; ++i) sum += std::exp(x.get(r * n + i));
      for (std::int64_t i = 0; i < n; ++i)
        out.truth.push_back(log ? x.get(r * n + i) - std::log(sum) : std::exp(x.get(r * n + i)) / sum);
    }
  });
  args.logits = x.tensor(), args.out = out.tensor(), args.temperature = 1.0f;
  if (log) args.flags |= QUERN_SOFTMAX_LOG;
  trial.what = "3 rows of " + std::to_string(n);
  trial.call(workspace, run, args);
}

}  // namespace

const OpTrials trials{make, static_cast<int>(std::size(kVocabularies))};

}  // namespace quern::ops::softmax
