// Random calls of gather for `quern verify --run`, and what they come to in double precision.
// SPDX-License-Identifier: Apache-2.0
#include "sources/verify/trial.h"

#include <iterator>

#include "sources/ops.h"

namespace quern::ops::gather {
namespace {

using namespace verify;

// Of rows that whole vectors of each width divide.
constexpr struct {
  int alignment;
  std::int64_t n;
} kRowsOf[] = {{16, 264}, {8, 264}, {4, 264}, {16, 262}, {16, 263}, {16, 272}};

void make(const Given& given, int which, Trial& trial) {
  constexpr std::int64_t kRows = 50, kCount = 33;
  const auto [alignment, n] = kRowsOf[which];
  quern_gather_args args{};
  const Field& table = trial.given(given.dtype("table", Dtype::u8), {kRows, n});
  std::vector<std::int64_t> ids;
  for (std::int64_t i = 0; i < kCount; ++i) ids.push_back(trial.below(kRows));
  Field& out = trial.result(given.dtype("out", Dtype::u8), {kCount, n});
  for (const std::int64_t id : ids)
    for (std::int64_t i = 0; i < n; ++i) out.truth.push_back(table.get(id * n + i));
  args.table = table.tensor(), args.ids = trial.integers({kCount}, ids).tensor(), args.out = out.tensor();
  args.alignment = alignment;
  trial.what = "33 of 50 rows of " + std::to_string(n);
  trial.call(workspace, run, args);
}

}  // namespace

const OpTrials trials{make, static_cast<int>(std::size(kRowsOf))};

}  // namespace quern::ops::gather
