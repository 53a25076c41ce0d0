// Random calls of conv2d for `quern verify --run`, and what they come to in double precision.
// SPDX-License-Identifier: Apache-2.0
#include "sources/verify/trial.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string>
#include <vector>

#include "sources/conv2d/convolution.h"
#include "sources/ops.h"

namespace quern::ops::conv2d {
namespace {

using namespace verify;

// With as many taps, channels and results as decide between kernels and their tiles.
struct Problem {
  std::int64_t batch, channels, outs, groups, height, width, kernel_h, kernel_w, stride, pad;
};
constexpr Problem kProblems[] = {
    {2, 24, 100, 1, 13, 11, 3, 3, 1, 1},
    {1, 32, 40, 1, 7, 7, 3, 3, 1, 1},
    {2, 3, 40, 1, 33, 35, 7, 5, 2, 3},
    {2, 24, 24, 24, 17, 19, 3, 3, 1, 1},
    {2, 20, 32, 2, 12, 21, 1, 5, 2, 0},
    // Many channels and few places, whose k multiprocessors divide.
    {1, 256, 40, 1, 7, 7, 3, 3, 1, 1},
    {1, 256, 100, 1, 11, 10, 3, 3, 1, 1},
    // Columns of the wider tiles.
    {1, 16, 160, 1, 11, 9, 3, 3, 1, 1},
    {1, 16, 200, 1, 16, 14, 3, 3, 1, 1},
};
constexpr struct {
  const char* name;
  quern_activation activation;
} kActivations[] = {{"relu", QUERN_ACTIVATION_RELU},
                    {"gelu", QUERN_ACTIVATION_GELU},
                    {"gelu_tanh", QUERN_ACTIVATION_GELU_TANH},
                    {"silu", QUERN_ACTIVATION_SILU}};

double activated(std::int32_t activation, double y) {
  switch (activation) {
    case QUERN_ACTIVATION_RELU:
      return std::max(y, 0.0);
    case QUERN_ACTIVATION_GELU:
      return y / 2 * (1 + std::erf(y / std::sqrt(2.0)));
    case QUERN_ACTIVATION_GELU_TANH:
      return y / 2 * (1 + std::tanh(std::sqrt(2 / std::acos(-1.0)) * (y + 0.044715 * y * y * y)));
    case QUERN_ACTIVATION_SILU:
      return y / (1 + std::exp(-y));
    default:
      return y;
  }
}

// The strides of [batch, channels, rows, columns].
std::vector<std::int64_t> strides(bool channels_last, std::int64_t channels, std::int64_t rows, std::int64_t columns) {
  if (channels_last) return {channels * rows * columns, 1, columns * channels, channels};
  return {channels * rows * columns, rows * columns, columns, 1};
}

void make(const Given& given, int which, Trial& trial) {
  const Problem p = kProblems[which];
  // Hopper's kernel is the one whose results do not depend on the batch.
  const bool persistent = given.text("kernel") == "persistent";
  const bool implicit = persistent || given.text("kernel") == "implicit",
             last = implicit && !given.flag("places_first");
  const std::int64_t each = p.channels / p.groups;
  const std::int64_t rows = (p.height + 2 * p.pad - p.kernel_h) / p.stride + 1,
                     columns = (p.width + 2 * p.pad - p.kernel_w) / p.stride + 1;
  const Dtype dtype = given.dtype("dtype");
  quern_conv2d_args args{};
  for (const auto& [name, activation] : kActivations) {
    if (given.text("activation") == name) args.activation = activation;
  }
  const std::vector<std::int64_t> of_x = strides(last, p.channels, p.height, p.width),
                                  of_out = strides(last, p.outs, rows, columns);
  const Field &x = trial.given(dtype, {p.batch * p.channels * p.height * p.width})
                       .view({p.batch, p.channels, p.height, p.width}, of_x),
              &weight = trial.given(dtype, {p.outs, each, p.kernel_h, p.kernel_w});
  const Field* const bias = !implicit || given.flag("bias") ? &trial.given(dtype, {p.outs}) : nullptr;
  // f32 is not rounded to TF32.
  Field& out =
      trial.result(dtype, {p.batch * p.outs * rows * columns}, 0x1p-14).view({p.batch, p.outs, rows, columns}, of_out);
  trial.later([=, &x, &weight, &out, activation = args.activation] {
    out.unknown();
    for (std::int64_t b = 0; b < p.batch; ++b) {
      for (std::int64_t o = 0; o < p.outs; ++o) {
        const std::int64_t first = o / (p.outs / p.groups) * each;
        for (std::int64_t place = 0; place < rows * columns; ++place) {
          double sum = bias != nullptr ? bias->get(o) : 0;
          for (std::int64_t tap = 0; tap < p.kernel_h * p.kernel_w; ++tap) {
            const std::int64_t r = place / columns * p.stride + tap / p.kernel_w - p.pad,
                               s = place % columns * p.stride + tap % p.kernel_w - p.pad;
            if (r < 0 || r >= p.height || s < 0 || s >= p.width) continue;
            for (std::int64_t c = 0; c < each; ++c)
              sum += weight.get((o * each + c) * p.kernel_h * p.kernel_w + tap) *
                     x.get(b * of_x[0] + (first + c) * of_x[1] + r * of_x[2] + s * of_x[3]);
          }
          out.know(b * of_out[0] + o * of_out[1] + place / columns * of_out[2] + place % columns * of_out[3],
                   activated(activation, sum));
        }
      }
    }
  });
  args.x = x.tensor(), args.weight = weight.tensor(), args.out = out.tensor();
  if (bias != nullptr) args.bias = bias->tensor();
  if (persistent) args.flags = QUERN_CALL_BATCH_INVARIANT;
  args.stride_h = args.stride_w = static_cast<std::int32_t>(p.stride);
  args.groups = static_cast<std::int32_t>(p.groups);
  args.pad_top = args.pad_bottom = args.pad_left = args.pad_right = static_cast<std::int32_t>(p.pad);
  trial.what = std::to_string(p.channels) + " channels of " + std::to_string(p.height) + " x " +
               std::to_string(p.width) + ", a window of " + std::to_string(p.kernel_h) + " x " +
               std::to_string(p.kernel_w);
  const auto read = [portable = !persistent](const Runtime& runtime, const quern_conv2d_args& its, bool may_lack_data) {
    Convolution c = read_convolution(its, runtime, may_lack_data);
    c.portable = portable;
    return c;
  };
  trial.call_by(
      [read](const Runtime& runtime, const quern_conv2d_args& its) {
        return convolution_workspace(runtime, read(runtime, its, true));
      },
      [read](const Runtime& runtime, const quern_conv2d_args& its) {
        convolution_run(runtime, read(runtime, its, false));
      },
      args);
}

}  // namespace

const OpTrials trials{make, static_cast<int>(std::size(kProblems))};

}  // namespace quern::ops::conv2d
