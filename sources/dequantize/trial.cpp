// Random calls of dequantize for `quern verify --run`, and what they come to in double precision.
// SPDX-License-Identifier: Apache-2.0
#include "sources/verify/trial.h"

#include "sources/ops.h"

namespace quern::ops::dequantize {
namespace {

using namespace verify;

void make(const Given& given, int which, Trial& trial) {
  const std::int64_t rows = 140, step = 304, n = given.flag("tail") ? 301 : step, across = (n + 127) / 128;
  quern_dequantize_args args{};
  const Field& x = trial.given(given.dtype("x"), {rows, step}).columns(n);
  static constexpr quern_scale_kind kKinds[] = {QUERN_SCALE_GROUP, QUERN_SCALE_BLOCK, QUERN_SCALE_TOKEN,
                                                QUERN_SCALE_STATIC};
  const quern_scale_kind kind = kKinds[which];
  std::vector<std::int64_t> extents = {1};
  if (kind == QUERN_SCALE_TOKEN) extents = {rows};
  if (kind == QUERN_SCALE_GROUP) extents = {rows, across};
  if (kind == QUERN_SCALE_BLOCK) extents = {(rows + 127) / 128, across};
  const Field& scale = trial.uniform(Dtype::f32, extents, 0.1, 2);
  Field& out = trial.result(given.dtype("out"), {rows, step}).columns(n).unknown();
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t i = 0; i < n; ++i) {
      const std::int64_t place = kind == QUERN_SCALE_TOKEN   ? r
                                 : kind == QUERN_SCALE_GROUP ? r * across + i / 128
                                 : kind == QUERN_SCALE_BLOCK ? r / 128 * across + i / 128
                                                             : 0;
      out.know(r * step + i, x.get(r * step + i) * scale.get(place));
    }
  }
  args.x = x.tensor(), args.scale = scale.tensor(), args.out = out.tensor(), args.scale_kind = kind;
  args.alignment = static_cast<std::int32_t>(given.integer("access", 16));
  trial.what = "140 rows of " + std::to_string(n) + ", kind of scale " + std::to_string(kind);
  trial.call(workspace, run, args);
}

}  // namespace

const OpTrials trials{make, 4};

}  // namespace quern::ops::dequantize
