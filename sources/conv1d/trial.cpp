// Random calls of conv1d for `quern verify --run`, and what they come to in double precision.
// SPDX-License-Identifier: Apache-2.0
#include "sources/verify/trial.h"

#include "sources/ops.h"

namespace quern::ops::conv1d {
namespace {

using namespace verify;

constexpr int kAlignments[] = {16, 8, 4, 2};

// Of state-space models: three sequences that go on from their states.
void make(const Given& given, int which, Trial& trial) {
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
