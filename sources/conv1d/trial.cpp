// Random calls of conv1d for `quern verify --run`, and what they come to in double precision.
// SPDX-License-Identifier: Apache-2.0
#include "sources/verify/trial.h"

#include <cmath>

#include "sources/ops.h"

namespace quern::ops::conv1d {
namespace {

using namespace verify;

// Of neural networks: with as many taps and channels as decide between its kernels.
void make_general(const Given& given, int which, Trial& trial) {
  const std::int64_t batch = 2, channels = which % 2 == 0 ? 64 : 6, outputs = which % 2 == 0 ? 64 : 10,
                     length = which < 2 ? 130 : 61, width = which < 2 ? 3 : 5, stride = which < 2 ? 1 : 2;
  const std::int64_t groups = which % 2 == 0 ? 1 : 2, each = channels / groups, pad = 1;
  const std::int64_t results = (length + 2 * pad - width) / stride + 1;
  const Dtype dtype = given.dtype("dtype");
  quern_conv1d_args args{};
  const Field &x = trial.given(dtype, {batch, channels, length}), &weight = trial.given(dtype, {outputs, each, width}),
              &bias = trial.given(dtype, {outputs});
  // f32 is not rounded to TF32.
  Field& out = trial.result(dtype, {batch, outputs, results}, 0x1p-14);
  trial.later([=, &x, &weight, &bias, &out] {
    for (std::int64_t b = 0; b < batch; ++b) {
      for (std::int64_t o = 0; o < outputs; ++o) {
        const std::int64_t first = o / (outputs / groups) * each;
        for (std::int64_t t = 0; t < results; ++t) {
          double sum = bias.get(o);
          for (std::int64_t c = 0; c < each; ++c) {
            for (std::int64_t j = 0; j < width; ++j) {
              const std::int64_t at = t * stride + j - pad;
              if (at >= 0 && at < length)
                sum += weight.get((o * each + c) * width + j) * x.get((b * channels + first + c) * length + at);
            }
          }
          out.truth.push_back(sum);
        }
      }
    }
  });
  args.x = x.tensor(), args.weight = weight.tensor(), args.bias = bias.tensor(), args.out = out.tensor();
  args.stride = static_cast<std::int32_t>(stride), args.groups = static_cast<std::int32_t>(groups);
  args.pad_begin = args.pad_end = static_cast<std::int32_t>(pad);
  trial.what =
      std::to_string(channels) + " channels of " + std::to_string(length) + ", " + std::to_string(width) + " taps";
  trial.call(workspace, run, args);
}

constexpr int kAlignments[] = {16, 8, 4, 2};

// Of state-space models: three sequences that go on from their states.
void make(const Given& given, int which, Trial& trial) {
  if (given.text("kernel", "causal") != "causal") return make_general(given, which, trial);
  constexpr std::int64_t kBatch = 3, kChannels = 264;
  const std::int64_t width = given.integer("taps");
  const std::vector<std::int64_t> offsets = {0, 1, 8, 40};
  const std::int64_t tokens = offsets.back();
  const Dtype dtype = given.dtype("dtype");
  quern_conv1d_args args{};
  const Field &x = trial.given(dtype, {tokens, kChannels}),
              &weight = trial.given(given.dtype("weight"), {kChannels, width});
  Field &state = trial.given(given.dtype("state"), {kBatch, width - 1, kChannels}).updated(),
        &out = trial.result(dtype, {tokens, kChannels}, kF32Slack);
  trial.later([=, &x, &weight, &state, &out] {
    state.truth.resize(static_cast<std::size_t>(state.count()));
    for (std::int64_t b = 0; b < kBatch; ++b) {
      const std::int64_t from = offsets[static_cast<std::size_t>(b)], to = offsets[static_cast<std::size_t>(b + 1)];
      const auto at = [&](std::int64_t t,
                          std::int64_t c) {  // t from the sequence's first token on; before it its state
        return t >= 0 ? x.get((from + t) * kChannels + c)
                      : state.get((b * (width - 1) + width - 1 + t) * kChannels + c);
      };
      for (std::int64_t t = 0; t < to - from; ++t) {
        for (std::int64_t c = 0; c < kChannels; ++c) {
          double sum = 0;
          for (std::int64_t j = 0; j < width; ++j) sum += weight.get(c * width + j) * at(t - (width - 1) + j, c);
          out.truth.push_back(sum);
        }
      }
      for (std::int64_t j = 0; j < width - 1; ++j) {
        for (std::int64_t c = 0; c < kChannels; ++c)
          state.truth[static_cast<std::size_t>((b * (width - 1) + j) * kChannels + c)] =
              at(to - from - (width - 1) + j, c);
      }
    }
  });
  args.x = x.tensor(), args.weight = weight.tensor(), args.state = state.tensor(), args.out = out.tensor();
  args.offsets = trial.integers({kBatch + 1}, offsets).tensor(), args.alignment = kAlignments[which];
  trial.what = "3 sequences of 1, 7 and 32 tokens";
  trial.call(workspace, run, args);
}

}  // namespace

const OpTrials trials{make, 4};

}  // namespace quern::ops::conv1d
