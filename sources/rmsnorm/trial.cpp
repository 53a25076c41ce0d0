// Random calls of rmsnorm for `quern verify --run`, and what they come to in double precision.
// SPDX-License-Identifier: Apache-2.0
#include "sources/verify/trial.h"

#include <cmath>
#include <iterator>

#include "sources/ops.h"

namespace quern::ops::rmsnorm {
namespace {

using namespace verify;

// On both sides of every change of how rows are shared out.
constexpr std::int64_t kLengths[] = {64,   96,   128,  200,  256,  384,  512,   768,   1024,  1536, 2048,
                                     2560, 3072, 4096, 5120, 7168, 8192, 12288, 16384, 32768, 65536};

void make(const Given& given, int which, Trial& trial) {
  constexpr double kEps = 0x1p-17;
  constexpr std::int64_t rows = 5;
  const auto [n, step, alignment] = RowPlaces(given, kLengths[which]);
  const Dtype dtype = given.dtype("dtype"), weight = given.dtype("weight");
  quern_rmsnorm_args args{};
  const Field& x = trial.given(dtype, {rows, step}).columns(n);
  const Field* const residual = given.flag("residual") ? &trial.given(dtype, {rows, step}).columns(n) : nullptr;
  const Field* const weights = weight != Dtype::other ? &trial.given(weight, {n}) : nullptr;
  Field& out = trial.result(dtype, {rows, step}, kF32Slack + (residual != nullptr ? 0x1p-8 : 0)).columns(n);
  Field* const sums = residual != nullptr ? &trial.result(dtype, {rows, step}).columns(n) : nullptr;
  trial.later([=, &x, &out] {
    out.unknown();
    if (sums != nullptr) sums->unknown();
    for (std::int64_t r = 0; r < rows; ++r) {
      const auto at = [&](std::int64_t i) {
        return x.get(r * step + i) + (residual != nullptr ? residual->get(r * step + i) : 0);
      };
      double squares = 0;
      for (std::int64_t i = 0; i < n; ++i) squares += at(i) * at(i);
      const double scale = 1 / std::sqrt(squares / static_cast<double>(n) + kEps);
      for (std::int64_t i = 0; i < n; ++i) {
        out.know(r * step + i, at(i) * scale * (weights != nullptr ? weights->get(i) : 1));
        if (sums != nullptr) sums->know(r * step + i, at(i));
      }
    }
  });
  args.x = x.tensor(), args.out = out.tensor(), args.eps = kEps;
  if (residual != nullptr) args.residual = residual->tensor(), args.residual_out = sums->tensor();
  if (weights != nullptr) args.weight = weights->tensor();
  args.alignment = alignment;
  trial.what = "5 rows of " + std::to_string(n);
  trial.call(workspace, run, args);
}

}  // namespace

const OpTrials trials{make, static_cast<int>(std::size(kLengths))};

}  // namespace quern::ops::rmsnorm
