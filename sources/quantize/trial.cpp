// Random calls of quantize for `quern verify --run`, and what they come to in double precision.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <iterator>

#include "sources/ops.h"
#include "sources/verify/sequences.h"

namespace quern::ops::quantize {
namespace {

using namespace verify;

constexpr std::int64_t kLengths[] = {128,  256,  384,  512,  768,   1024,  1536,  2048,  3072, 4096,
                                     5120, 6144, 7168, 8192, 12288, 16384, 24576, 32768, 65536};
constexpr double kEps = 0x1p-17;

constexpr struct {
  const char* name;
  quern_quantize_front front;
} kFronts[] = {{"none", QUERN_FRONT_NONE},           {"rmsnorm", QUERN_FRONT_RMSNORM},
               {"layernorm", QUERN_FRONT_LAYERNORM}, {"silu_mul", QUERN_FRONT_SILU_MUL},
               {"gelu_mul", QUERN_FRONT_GELU_MUL},   {"gelu_tanh_mul", QUERN_FRONT_GELU_TANH_MUL}};
constexpr struct {
  const char* name;
  quern_scale_kind kind;
} kKinds[] = {{"none", QUERN_SCALE_NONE},   {"given", QUERN_SCALE_STATIC}, {"find", QUERN_SCALE_TENSOR},
              {"token", QUERN_SCALE_TOKEN}, {"group", QUERN_SCALE_GROUP},  {"block", QUERN_SCALE_BLOCK}};

double activated(quern_quantize_front front, double x) {
  if (front == QUERN_FRONT_SILU_MUL) return x / (1 + std::exp(-x));
  if (front == QUERN_FRONT_GELU_MUL) return x / 2 * (1 + std::erf(x / std::sqrt(2.0)));
  return x / 2 * (1 + std::tanh(std::sqrt(2 / std::acos(-1.0)) * (x + 0.044715 * x * x * x)));
}

// What is quantised, from the call's tensors.
struct Front {
  quern_quantize_front front;
  std::int64_t rows, n, step;
  const Field &x, *residual, *weight, *bias;

  std::vector<double> row(std::int64_t r) const {
    std::vector<double> y(static_cast<std::size_t>(n));
    const bool product = front >= QUERN_FRONT_SILU_MUL, norm = front != QUERN_FRONT_NONE && !product;
    const std::int64_t x_step = x.strides[0];
    double sum = 0, squares = 0;
    for (std::int64_t i = 0; i < n; ++i) {
      double& value = y[static_cast<std::size_t>(i)];
      value = product ? activated(front, x.get(r * x_step + i)) * x.get(r * x_step + n + i) : x.get(r * x_step + i);
      if (residual != nullptr) value += residual->get(r * step + i);
      sum += value;
    }
    if (!norm) return y;
    const double mean = front == QUERN_FRONT_LAYERNORM ? sum / static_cast<double>(n) : 0;
    for (const double value : y) squares += (value - mean) * (value - mean);
    const double scale = 1 / std::sqrt(squares / static_cast<double>(n) + kEps);
    for (std::int64_t i = 0; i < n; ++i) {
      double& value = y[static_cast<std::size_t>(i)];
      value = (value - mean) * scale * (weight != nullptr ? weight->get(i) : 1);
      if (bias != nullptr) value += bias->get(i);
    }
    return y;
  }
};

void make(const Given& given, int which, Trial& trial) {
  const auto [n, step, alignment] = RowPlaces(given, kLengths[which]);
  const Dtype dtype = given.dtype("x"), code = given.dtype("out"), weight = given.dtype("weight");
  const std::string front_name = given.text("front", "none"), kind_name = given.text("scale");
  const auto front =
      std::find_if(std::begin(kFronts), std::end(kFronts), [&](const auto& f) { return f.name == front_name; })->front;
  const auto kind =
      std::find_if(std::begin(kKinds), std::end(kKinds), [&](const auto& k) { return k.name == kind_name; })->kind;
  // Pieces of more than 256 columns are those of more elements than are few on any device.
  const bool many = kind == QUERN_SCALE_GROUP && front == QUERN_FRONT_NONE && given.integer("columns") > 256;
  const std::int64_t rows = kind == QUERN_SCALE_BLOCK ? 140 : many ? (std::int64_t{4} << 20) / n + 1 : 5;
  const std::int64_t across = (n + 127) / 128;
  quern_quantize_args args{};
  const Field& x = front >= QUERN_FRONT_SILU_MUL ? trial.given(dtype, {rows, 2 * step}).columns(2 * n)
                                                 : trial.given(dtype, {rows, step}).columns(n);
  const Field* const residual = given.flag("residual") ? &trial.given(dtype, {rows, step}).columns(n) : nullptr;
  const Field* const weights = weight != Dtype::other ? &trial.given(weight, {n}) : nullptr;
  const Field* const bias = given.dtype("bias") != Dtype::other ? &trial.given(given.dtype("bias"), {n}) : nullptr;
  std::vector<std::int64_t> extents = {1};
  if (kind == QUERN_SCALE_TOKEN) extents = {rows};
  if (kind == QUERN_SCALE_GROUP) extents = {rows, across};
  if (kind == QUERN_SCALE_BLOCK) extents = {(rows + 127) / 128, across};
  const double slack = kF32Slack + (residual != nullptr ? 0x1p-8 : 0);
  Field *scale = nullptr, *out = nullptr, *dense = nullptr;
  if (kind == QUERN_SCALE_STATIC) scale = &trial.uniform(Dtype::f32, extents, 0.01, 0.02);
  if (kind > QUERN_SCALE_STATIC) scale = &trial.result(Dtype::f32, extents, slack);
  if (kind != QUERN_SCALE_NONE) out = &trial.result(code, {rows, step}, slack).columns(n);
  if (code == Dtype::i8) out->rounded();
  if (kind == QUERN_SCALE_NONE) dense = &trial.result(dtype, {rows, step}, slack).columns(n);
  const Front y{front, rows, n, step, x, residual, weights, bias};
  trial.later([=] {
    std::vector<double> all;
    std::vector<double> largest(scale != nullptr ? static_cast<std::size_t>(scale->count()) : 1);
    const auto place = [&](std::int64_t r, std::int64_t i) {
      return static_cast<std::size_t>(kind == QUERN_SCALE_TOKEN   ? r
                                      : kind == QUERN_SCALE_GROUP ? r * across + i / 128
                                      : kind == QUERN_SCALE_BLOCK ? r / 128 * across + i / 128
                                                                  : 0);
    };
    for (std::int64_t r = 0; r < rows; ++r) {
      const std::vector<double> row = y.row(r);
      all.insert(all.end(), row.begin(), row.end());
      for (std::int64_t i = 0; i < n; ++i) {
        double& most = largest[place(r, i)];
        most = std::max(most, std::abs(row[static_cast<std::size_t>(i)]));
      }
    }
    if (dense != nullptr) dense->unknown();
    for (std::int64_t i = 0; dense != nullptr && i < rows * n; ++i)
      dense->know(i / n * step + i % n, all[static_cast<std::size_t>(i)]);
    if (out == nullptr) return;
    std::vector<double> scales;
    for (const double most : largest)
      scales.push_back(kind == QUERN_SCALE_STATIC ? scale->get(0) : found_scale(most, code));
    out->unknown();
    for (std::int64_t i = 0; i < rows * n; ++i) {
      const double value = all[static_cast<std::size_t>(i)] / scales[place(i / n, i % n)];
      out->know(i / n * step + i % n, std::clamp(value, -largest_of(code), largest_of(code)));
    }
    if (kind != QUERN_SCALE_STATIC) scale->truth = scales;
  });
  args.x = x.tensor(), args.front = front, args.scale_kind = kind, args.eps = kEps;
  if (scale != nullptr) args.scale = scale->tensor();
  if (out != nullptr) args.out = out->tensor();
  if (dense != nullptr) args.dense = dense->tensor();
  if (residual != nullptr) {
    args.residual = residual->tensor();
    args.residual_out = trial.result(dtype, {rows, step}).columns(n).tensor();
  }
  if (weights != nullptr) args.weight = weights->tensor();
  if (bias != nullptr) args.bias = bias->tensor();
  args.alignment = alignment;
  trial.what = std::to_string(rows) + " rows of " + std::to_string(n);
  trial.call(workspace, run, args);
}

}  // namespace

const OpTrials trials{make, static_cast<int>(std::size(kLengths))};

}  // namespace quern::ops::quantize
