// Random calls of conv2d for `quern verify --run`, and what they come to in double precision.
// SPDX-License-Identifier: Apache-2.0
#include "sources/verify/trial.h"

#include <iterator>
#include <string>

#include "sources/ops.h"

namespace quern::ops::conv2d {
namespace {

using namespace verify;

// With as many taps and channels as decide between kernels.
struct Problem {
  std::int64_t channels, outs, groups, height, width, kernel_h, kernel_w, stride, pad;
};
constexpr Problem kProblems[] = {{64, 64, 1, 13, 11, 3, 3, 1, 1},
                                 {3, 40, 1, 33, 35, 7, 5, 2, 3},
                                 {24, 24, 24, 17, 19, 3, 3, 1, 1},
                                 {20, 32, 2, 12, 21, 1, 5, 2, 0}};

void make(const Given& given, int which, Trial& trial) {
  const Problem p = kProblems[which];
  const std::int64_t batch = 2, each = p.channels / p.groups;
  const std::int64_t rows = (p.height + 2 * p.pad - p.kernel_h) / p.stride + 1,
                     columns = (p.width + 2 * p.pad - p.kernel_w) / p.stride + 1;
  const Dtype dtype = given.dtype("dtype");
  quern_conv2d_args args{};
  const Field &x = trial.given(dtype, {batch, p.channels, p.height, p.width}),
              &weight = trial.given(dtype, {p.outs, each, p.kernel_h, p.kernel_w}),
              &bias = trial.given(dtype, {p.outs});
  // f32 is not rounded to TF32.
  Field& out = trial.result(dtype, {batch, p.outs, rows, columns}, 0x1p-14);
  trial.later([=, &x, &weight, &bias, &out] {
    for (std::int64_t b = 0; b < batch; ++b) {
      for (std::int64_t o = 0; o < p.outs; ++o) {
        const std::int64_t first = o / (p.outs / p.groups) * each;
        for (std::int64_t place = 0; place < rows * columns; ++place) {
          double sum = bias.get(o);
          for (std::int64_t tap = 0; tap < p.kernel_h * p.kernel_w; ++tap) {
            const std::int64_t r = place / columns * p.stride + tap / p.kernel_w - p.pad,
                               s = place % columns * p.stride + tap % p.kernel_w - p.pad;
            if (r < 0 || r >= p.height || s < 0 || s >= p.width) continue;
            for (std::int64_t c = 0; c < each; ++c)
              sum += weight.get((o * each + c) * p.kernel_h * p.kernel_w + tap) *
                     x.get(((b * p.channels + first + c) * p.height + r) * p.width + s);
          }
          out.truth.push_back(sum);
        }
      }
    }
  });
  args.x = x.tensor(), args.weight = weight.tensor(), args.bias = bias.tensor(), args.out = out.tensor();
  args.stride_h = args.stride_w = static_cast<std::int32_t>(p.stride);
  args.groups = static_cast<std::int32_t>(p.groups);
  args.pad_top = args.pad_bottom = args.pad_left = args.pad_right = static_cast<std::int32_t>(p.pad);
  trial.what = std::to_string(p.channels) + " channels of " + std::to_string(p.height) + " x " +
               std::to_string(p.width) + ", a window of " + std::to_string(p.kernel_h) + " x " +
               std::to_string(p.kernel_w);
  trial.call(workspace, run, args);
}

}  // namespace

const OpTrials trials{make, static_cast<int>(std::size(kProblems))};

}  // namespace quern::ops::conv2d
