// Random calls of histogram for `quern verify --run`, and what they come to in double precision.
// SPDX-License-Identifier: Apache-2.0
#include "sources/verify/trial.h"

#include <cmath>

#include "sources/ops.h"

namespace quern::ops::histogram {
namespace {

using namespace verify;

bool is_float(Dtype dtype) { return dtype == Dtype::f16 || dtype == Dtype::bf16 || dtype == Dtype::f32; }

// Bins in shared memory and more than there is room for, the latter also in ranges; whole vectors and rows that no
// vector divides.
void make(const Given& given, int which, Trial& trial) {
  const std::int64_t rows = 3, bins = which / 2 == 0 ? 64 : 60000,
                     n = (which % 2 == 0 ? 4096 : 4001) + (given.flag("ranges") ? 2 * bins : 0);
  const Dtype dtype = given.dtype("dtype", Dtype::i32);
  quern_histogram_args args{};
  const Field& x = is_float(dtype) ? trial.uniform(dtype, {rows, n}, -0.1, 1.1) : trial.given(dtype, {rows, n});
  Field& counts = trial.result(Dtype::i32, {rows, bins});
  if (is_float(dtype))
    args.high = 1;
  else
    args.first = -10;
  trial.later([=, &x, &counts] {
    counts.truth.assign(static_cast<std::size_t>(rows * bins), 0);
    for (std::int64_t i = 0; i < rows * n; ++i) {
      double bin = x.get(i) + 10;
      if (is_float(dtype)) {  // in f32 each operation is rounded, as quern.h says
        const float scaled = static_cast<float>(x.get(i)) * static_cast<float>(bins);
        bin = x.get(i) == 1 ? static_cast<double>(bins - 1) : std::floor(scaled);
      }
      if (bin >= 0 && bin < static_cast<double>(bins))
        ++counts.truth[static_cast<std::size_t>(i / n * bins) + static_cast<std::size_t>(bin)];
    }
  });
  args.x = x.tensor(), args.counts = counts.tensor();
  trial.what = "3 rows of " + std::to_string(n) + ", " + std::to_string(bins) + " bins";
  trial.call(workspace, run, args);
}

}  // namespace

const OpTrials trials{make, 4};

}  // namespace quern::ops::histogram
