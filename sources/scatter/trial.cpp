// Random calls of scatter for `quern verify --run`, and what they come to in double precision.
// SPDX-License-Identifier: Apache-2.0
#include "sources/verify/trial.h"

#include "sources/ops.h"

namespace quern::ops::scatter {
namespace {

using namespace verify;

// Of rows that whole vectors of each width divide.
constexpr struct {
  int alignment;
  std::int64_t n;
} kRowsOf[] = {{16, 264}, {8, 264}, {4, 264}, {16, 262}, {16, 263}};

// Ids that come once and ids that come several times, for each width of an access.
void make(const Given& given, int which, Trial& trial) {
  constexpr std::int64_t kRows = 50;
  // More rows of an id than one piece has are finished by a second launch.
  const bool finishes = given.text("stage") == "finish";
  const std::int64_t count = finishes ? 400 : 33, places = finishes ? 3 : kRows / 4;
  const auto [alignment, n] = kRowsOf[which / 2];
  const bool unique = which % 2 == 0 && !given.flag("sorted") && given.text("stage") == "move";
  const bool add = given.flag("add") || finishes;
  const Dtype to = given.dtype("out", given.text("stage") == "move" ? Dtype::u8 : Dtype::f32),
              from = given.dtype("x", to);
  quern_scatter_args args{};
  const Field& x = trial.given(from, {count, n});
  std::vector<std::int64_t> ids;
  for (std::int64_t i = 0; i < count; ++i) ids.push_back(unique ? i * 3 % kRows : trial.below(places));
  Field& out = trial.given(to, {kRows, n}).updated(add ? kF32Slack : 0);
  for (std::int64_t i = 0; i < out.count(); ++i) out.truth.push_back(out.get(i));
  for (std::int64_t r = 0; r < count; ++r) {
    for (std::int64_t i = 0; i < n; ++i) {
      double& place = out.truth[static_cast<std::size_t>(ids[static_cast<std::size_t>(r)] * n + i)];
      place = add ? place + x.get(r * n + i) : x.get(r * n + i);
    }
  }
  args.x = x.tensor(), args.ids = trial.integers({count}, ids).tensor(), args.out = out.tensor();
  if (add) args.flags |= QUERN_SCATTER_ADD;
  if (unique) args.flags |= QUERN_SCATTER_UNIQUE;
  args.alignment = alignment;
  trial.what = std::to_string(count) +
               (unique ? " rows to 50 places, no place twice" : " rows to " + std::to_string(places) + " places");
  trial.call(workspace, run, args);
}

}  // namespace

const OpTrials trials{make, 10};

}  // namespace quern::ops::scatter
