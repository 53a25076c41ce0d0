// Random calls of norm_backward for `quern verify --run`, and what they come to in double precision.
// SPDX-License-Identifier: Apache-2.0
#include "sources/verify/trial.h"

#include <cmath>
#include <iterator>

#include "sources/ops.h"

namespace quern::ops::norm_backward {
namespace {

using namespace verify;

constexpr std::int64_t kLengths[] = {8,    16,   32,   64,   128,  256,  512,  768,   1024,
                                     1536, 2048, 3072, 4096, 5120, 6144, 8192, 12288, 16384};

void make(const Given& given, int which, Trial& trial) {
  constexpr double kEps = 0x1p-17;
  // A block takes several short rows at once; few rounds of them are a single part.
  const std::int64_t team = given.integer("team", 64), together = team <= 32 ? 256 / team : 1;
  const std::int64_t rows = given.flag("alone") ? 2 * together + 1 : 3 * together + 18;
  const auto [n, step, alignment] = RowPlaces(given, kLengths[which]);
  const bool sums_alone = given.text("stage") == "sums", sums = sums_alone || given.flag("sums");
  const bool layer = sums_alone || given.text("kind") == "layer";
  const Dtype dtype = given.dtype("dtype", given.dtype("out", Dtype::f32)), weight = given.dtype("weight");
  quern_norm_backward_args args{};
  const Field &dout = trial.given(dtype, {rows, step}).columns(n), &x = trial.given(dtype, {rows, step}).columns(n);
  const Field* const weights = weight != Dtype::other ? &trial.given(weight, {n}) : nullptr;
  const Field* const add = given.flag("add") ? &trial.given(dtype, {rows, step}).columns(n) : nullptr;
  const double slack = 0x1p-14;
  Field& dx = trial.result(dtype, {rows, step}, slack).columns(n);
  const Dtype out = given.dtype("out", Dtype::f32);
  Field* const dweight = sums ? &trial.result(out, {n}, slack) : nullptr;
  Field* const dbias = sums && layer ? &trial.result(out, {n}, slack) : nullptr;
  trial.later([=, &dout, &x, &dx] {
    dx.unknown();
    if (dweight != nullptr) dweight->truth.assign(static_cast<std::size_t>(n), 0);
    if (dbias != nullptr) dbias->truth.assign(static_cast<std::size_t>(n), 0);
    const auto count = static_cast<double>(n);
    for (std::int64_t r = 0; r < rows; ++r) {
      double mean = 0, squares = 0, of_g = 0, of_gy = 0;
      for (std::int64_t i = 0; layer && i < n; ++i) mean += x.get(r * step + i) / count;
      for (std::int64_t i = 0; i < n; ++i) squares += std::pow(x.get(r * step + i) - mean, 2);
      const double scale = 1 / std::sqrt(squares / count + kEps);
      const auto y = [&](std::int64_t i) { return (x.get(r * step + i) - mean) * scale; };
      const auto g = [&](std::int64_t i) {
        return dout.get(r * step + i) * (weights != nullptr ? weights->get(i) : 1);
      };
      for (std::int64_t i = 0; i < n; ++i) of_g += layer ? g(i) / count : 0, of_gy += g(i) * y(i) / count;
      for (std::int64_t i = 0; i < n; ++i) {
        dx.know(r * step + i, scale * (g(i) - of_g - y(i) * of_gy) + (add != nullptr ? add->get(r * step + i) : 0));
        if (dweight != nullptr) dweight->truth[static_cast<std::size_t>(i)] += dout.get(r * step + i) * y(i);
        if (dbias != nullptr) dbias->truth[static_cast<std::size_t>(i)] += dout.get(r * step + i);
      }
    }
  });
  args.dout = dout.tensor(), args.x = x.tensor(), args.dx = dx.tensor(), args.eps = kEps;
  args.kind = layer ? QUERN_NORM_LAYER : QUERN_NORM_RMS;
  if (weights != nullptr) args.weight = weights->tensor();
  if (add != nullptr) args.add = add->tensor();
  if (dweight != nullptr) args.dweight = dweight->tensor();
  if (dbias != nullptr) args.dbias = dbias->tensor();
  args.alignment = alignment;
  trial.what = std::to_string(rows) + " rows of " + std::to_string(n);
  trial.call(workspace, run, args);
}

}  // namespace

const OpTrials trials{make, static_cast<int>(std::size(kLengths))};

}  // namespace quern::ops::norm_backward
