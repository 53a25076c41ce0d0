// Random calls of norm for `quern verify --run`, and what they come to in double precision.
// SPDX-License-Identifier: Apache-2.0
#include "sources/verify/trial.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "sources/ops.h"

namespace quern::ops::norm {
namespace {

using namespace verify;

constexpr std::int64_t kLengths[] = {8,    16,   32,   64,   128,  256,  384,   512,   768,   1024, 1536,
                                     2048, 3072, 4096, 5120, 6144, 8192, 12288, 16384, 20000, 40000};
constexpr double kEps = 0x1p-17;

// The groups of an image: its channels side by side at a place, or one channel's places.
struct Image {
  std::int64_t batch, channels, places, groups;
};
constexpr Image kImages[] = {{2, 64, 64, 8}, {2, 64, 256, 32}, {2, 128, 1024, 4}, {1, 32, 4096, 2},
                             {2, 32, 9, 32}, {2, 96, 100, 3},  {1, 8, 20000, 2},  {2, 256, 16, 64}};

void make_groups(const Given& given, int which, Trial& trial) {
  const auto [batch, channels, places, groups] = kImages[which % static_cast<int>(std::size(kImages))];
  const bool last = given.flag("channels_last");
  const Dtype dtype = given.dtype("dtype");
  quern_norm_args args{};
  const std::vector<std::int64_t> extents = {batch, channels, places},
                                  steps = {channels * places, last ? 1 : places, last ? channels : 1};
  const Field& x = trial.given(dtype, {batch * channels * places}).view(extents, steps);
  Field& out = trial.result(given.dtype("out"), {batch * channels * places}, kF32Slack).view(extents, steps);
  const auto vector = [&](const char* name) -> const Field* {
    return given.dtype(name) != Dtype::other ? &trial.given(given.dtype(name), {channels}) : nullptr;
  };
  const Field *const weight = vector("weight"), *const bias = vector("bias");
  trial.later([=, &x, &out] {
    out.truth.resize(static_cast<std::size_t>(out.count()));
    const std::int64_t each = channels / groups;
    for (std::int64_t group = 0; group < batch * groups; ++group) {
      const auto at = [&](std::int64_t c, std::int64_t p) {
        const std::int64_t channel = group % groups * each + c;
        return group / groups * steps[0] + channel * steps[1] + p * steps[2];
      };
      double sum = 0, squares = 0;
      const auto count = static_cast<double>(each * places);
      for (std::int64_t c = 0; c < each; ++c)
        for (std::int64_t p = 0; p < places; ++p) sum += x.get(at(c, p));
      for (std::int64_t c = 0; c < each; ++c)
        for (std::int64_t p = 0; p < places; ++p) squares += std::pow(x.get(at(c, p)) - sum / count, 2);
      const double scale = 1 / std::sqrt(squares / count + kEps);
      for (std::int64_t c = 0; c < each; ++c) {
        const std::int64_t channel = group % groups * each + c;
        for (std::int64_t p = 0; p < places; ++p) {
          out.truth[static_cast<std::size_t>(at(c, p))] =
              (x.get(at(c, p)) - sum / count) * scale * (weight != nullptr ? weight->get(channel) : 1) +
              (bias != nullptr ? bias->get(channel) : 0);
        }
      }
    }
  });
  args.x = x.tensor(), args.out = out.tensor(), args.kind = QUERN_NORM_GROUP, args.eps = kEps;
  args.groups = static_cast<std::int32_t>(groups);
  if (weight != nullptr) args.weight = weight->tensor();
  if (bias != nullptr) args.bias = bias->tensor();
  args.alignment = static_cast<std::int32_t>(std::max<std::int64_t>(given.integer("access", 16), 4));
  trial.what = std::to_string(channels) + " channels of " + std::to_string(places) + " places in " +
               std::to_string(groups) + " groups";
  trial.call(workspace, run, args);
}

void make(const Given& given, int which, Trial& trial) {
  const std::string name = given.text("kind");
  if (name == "group") return make_groups(given, which, trial);
  constexpr std::int64_t rows = 5;
  const auto [n, step, alignment] = RowPlaces(given, kLengths[which]);
  const Dtype dtype = given.dtype("dtype"), to = given.dtype("out");
  quern_norm_args args{};
  const auto tensor = [&](const char* of, std::vector<std::int64_t> extents) -> const Field* {
    return given.dtype(of) != Dtype::other ? &trial.given(given.dtype(of), std::move(extents)) : nullptr;
  };
  const auto table = [&](const char* of) -> const Field* {
    return given.dtype(of) != Dtype::other ? &trial.given(given.dtype(of), {rows, step}).columns(n) : nullptr;
  };
  const Field& x = trial.given(dtype, {rows, step}).columns(n);
  const Field* const residual = given.flag("residual") ? &trial.given(dtype, {rows, step}).columns(n) : nullptr;
  const Field *const weight = tensor("weight", {n}), *const bias = tensor("bias", {n}), *const scale = table("scale"),
                     *const shift = table("shift");
  Field& out = trial.result(to, {rows, step}, kF32Slack + (residual != nullptr ? 0x1p-8 : 0)).columns(n);
  const bool layer = name == "layer", l2 = name == "l2";
  trial.later([=, &x, &out] {
    out.unknown();
    for (std::int64_t r = 0; r < rows; ++r) {
      const auto at = [&](std::int64_t i) {
        return x.get(r * step + i) + (residual != nullptr ? residual->get(r * step + i) : 0);
      };
      double mean = 0, squares = 0;
      for (std::int64_t i = 0; layer && i < n; ++i) mean += at(i) / static_cast<double>(n);
      for (std::int64_t i = 0; i < n; ++i) squares += std::pow(at(i) - mean, 2);
      const double by = 1 / std::sqrt((l2 ? squares : squares / static_cast<double>(n)) + kEps);
      for (std::int64_t i = 0; i < n; ++i) {
        double value = (at(i) - mean) * by * (weight != nullptr ? weight->get(i) : 1);
        if (bias != nullptr) value += bias->get(i);
        if (scale != nullptr) value *= 1 + scale->get(r * step + i);
        if (shift != nullptr) value += shift->get(r * step + i);
        out.know(r * step + i, value);
      }
    }
  });
  args.x = x.tensor(), args.out = out.tensor(), args.eps = kEps;
  args.kind = layer ? QUERN_NORM_LAYER : l2 ? QUERN_NORM_L2 : QUERN_NORM_RMS;
  if (residual != nullptr) {
    args.residual = residual->tensor();
    args.residual_out = trial.result(dtype, {rows, step}).columns(n).tensor();
  }
  if (weight != nullptr) args.weight = weight->tensor();
  if (bias != nullptr) args.bias = bias->tensor();
  if (scale != nullptr) args.scale = scale->tensor();
  if (shift != nullptr) args.shift = shift->tensor();
  args.alignment = alignment;
  trial.what = "5 rows of " + std::to_string(n);
  trial.call(workspace, run, args);
}

}  // namespace

const OpTrials trials{make, static_cast<int>(std::size(kLengths))};

}  // namespace quern::ops::norm
