// SPDX-License-Identifier: Apache-2.0
#include "tests/ops/quantize_problem.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <ostream>

namespace quern::test {
namespace {

constexpr unsigned char kPoison = 0xee;
constexpr double kUnit = 0x1p-24;  // of f32: what a rounding costs, relative

// 2 sqrt(2/pi) (x + 0.044715 x^3)
double inner_of_tanh(double x) { return 2.0 * std::sqrt(2.0 / std::numbers::pi) * (x + 0.044715 * x * x * x); }

double activation(int front, double gate) {
  switch (front) {
    case QUERN_FRONT_SILU_MUL:
      return gate / (1.0 + std::exp(-gate));
    case QUERN_FRONT_GELU_MUL:
      return 0.5 * gate * std::erfc(-gate / std::numbers::sqrt2);
    default:
      return gate / (1.0 + std::exp(-inner_of_tanh(gate)));
  }
}

// How good an activation is to be, in units of the last bit of f32: where x has 16 bits, what stands in an exponent may
// be as good as f32 makes it, not the result.
double units_of(int front, bool swift, double gate) {
  if (!swift) return 16.0;
  switch (front) {
    case QUERN_FRONT_SILU_MUL:
      return 16.0 + 2.0 * std::fabs(gate);
    case QUERN_FRONT_GELU_MUL:
      return 48.0 + 2.0 * gate * gate;
    default:
      return 16.0 + 4.0 * std::fabs(inner_of_tanh(gate));
  }
}

// largest / the type's largest number, rounded as asked; nothing below the smallest normal number.
double scale_from(double largest, Element out, bool power_of_two) {
  if (largest == 0.0) return 1.0;
  const double quotient = largest / out.largest();
  if (!power_of_two) return std::fmax(static_cast<float>(quotient), 0x1p-126);
  int exponent = 0;
  const double fraction = std::frexp(quotient, &exponent);  // in [0.5, 1)
  return std::ldexp(1.0, std::max(fraction == 0.5 ? exponent - 1 : exponent, -126));
}

}  // namespace

// ---- Matrix
void Matrix::set(Element element, std::int64_t rows, std::int64_t columns, std::int64_t pitch) {
  element_ = element, rows_ = rows, columns_ = columns, pitch_ = pitch;
  put_.assign(static_cast<std::size_t>(rows * pitch) * element.bytes(), kPoison);
  device_ = Buffer(put_.size(), kPoison);
  box.set(element.type(), {rows, columns}, {pitch, 1});
  box.place(device_.data());
}
void Matrix::poison() {
  std::fill(put_.begin(), put_.end(), kPoison);
  device_.fill(kPoison);
}
void Matrix::upload() { device_.write(put_); }
void Matrix::download() { found_ = device_.read(); }
std::int64_t Matrix::spoilt() const {
  std::int64_t count = 0;
  for (std::int64_t r = 0; r < rows_; ++r) {
    for (std::size_t b = offset(r, columns_); b < offset(r + 1, 0); ++b) count += found_[b] != put_[b];
  }
  return count;
}

void PrintTo(const QuantizeCase& c, std::ostream* out) { *out << c.name; }

// ---- Set-up
QuantizeProblem::QuantizeProblem(const QuantizeCase& c, Random random)
    : args(sized<quern_quantize_args>()),
      c_(c),
      sum_(c.sum == Where::nowhere    ? nullptr
           : c.sum == Where::x        ? &x
           : c.sum == Where::residual ? &residual
                                      : &residual_out),
      dense_(c.dense == Where::nowhere ? nullptr
             : c.dense == Where::x     ? &x
                                       : &dense) {
  const std::int64_t pitch = c.n + c.padding, groups = (c.n + 127) / 128;
  x.set(c.x, c.rows, c.product() ? 2 * c.n : c.n, c.product() ? 2 * pitch : pitch);
  if (c.residual) residual.set(c.x, c.rows, c.n, pitch);
  if (c.sum == Where::own) residual_out.set(c.x, c.rows, c.n, pitch);
  if (c.dense == Where::own) dense.set(c.x, c.rows, c.n, pitch);
  if (c.weight != Parameter::none) weight.set(c.weight == Parameter::f32 ? Element(Element::f32) : c.x, 1, c.n, c.n);
  if (c.bias != Parameter::none) bias.set(c.bias == Parameter::f32 ? Element(Element::f32) : c.x, 1, c.n, c.n);
  weight.box.tensor.ndim = bias.box.tensor.ndim = 1;
  weight.box.shape[0] = bias.box.shape[0] = c.n;
  weight.box.strides[0] = bias.box.strides[0] = 1;
  if (c.kind != QUERN_SCALE_NONE) {
    out.set(c.out, c.rows, c.n, pitch);
    if (c.bytes) out.box.tensor.dtype = {kDLUInt, 8, 1};
    const std::int64_t blocks = (c.rows + 127) / 128;
    const std::int64_t rows = c.kind == QUERN_SCALE_BLOCK ? blocks : c.kind <= QUERN_SCALE_TENSOR ? 1 : c.rows;
    const std::int64_t columns = c.kind >= QUERN_SCALE_GROUP ? groups : 1;
    if (c.scale_columns_first) {
      scale.set(Element::f32, columns, rows, (rows + 3) / 4 * 4);
      std::swap(scale.box.shape[0], scale.box.shape[1]);
      std::swap(scale.box.strides[0], scale.box.strides[1]);
    } else {
      scale.set(Element::f32, rows, columns, columns + (columns > 1 ? 3 : 0));
    }
    if (c.kind < QUERN_SCALE_GROUP) scale.box.tensor.ndim = 1;
  }
  fill(random);

  const auto of = [](const Matrix& m) { return m.given() ? m.box.get() : nullptr; };
  args.flags = c.flags;
  args.alignment = c.alignment;
  args.max_sms = c.max_sms;
  args.x = of(x), args.out = of(out), args.scale = of(scale), args.residual = of(residual);
  args.residual_out = sum_ != nullptr ? sum_->box.get() : nullptr;
  args.dense = dense_ != nullptr ? dense_->box.get() : nullptr;
  args.weight = of(weight), args.bias = of(bias);
  args.front = c.front, args.scale_kind = c.kind, args.eps = c.eps;
  if (c.bytes) args.type = c.out.kind() == Element::e4m3 ? QUERN_FP8_E4M3 : QUERN_FP8_E5M2;
}

void QuantizeProblem::fill(Random& random) {
  const auto odd = [&](double value) {
    switch (random.below(24)) {
      case 0:
        return std::numeric_limits<double>::quiet_NaN();
      case 1:
        return std::copysign(std::numeric_limits<double>::infinity(), value);
      case 2:
      case 3:
        return std::copysign(0.0, value);
      case 4:
        return std::ldexp(value, random.between(-30, 12));
      default:
        return value;
    }
  };
  const std::int64_t columns = c_.product() ? 2 * c_.n : c_.n;
  for (std::int64_t r = 0; r < c_.rows; ++r) {
    const double size = std::ldexp(1.0, random.between(c_.size_least, c_.size_most));
    // Every third row of odd input has a whole stretch of zeros, every fifth nothing else.
    for (std::int64_t k = 0; k < columns; ++k) {
      double value = size * random.normal();
      // A gate of infinity times 0 is no number that anyone would ask for.
      if (c_.odd_values && (!c_.product() || k >= c_.n)) value = odd(value);
      if (c_.odd_values && ((r % 3 == 1 && k < 300) || r % 5 == 4)) value = 0.0;
      x.put(r, k, value);
    }
    for (std::int64_t k = 0; c_.residual && k < c_.n; ++k) residual.put(r, k, random.normal());
  }
  for (std::int64_t k = 0; k < c_.n; ++k) {
    if (weight.given()) weight.put(0, k, 1.0 + 0.3 * random.normal());
    if (bias.given()) bias.put(0, k, 0.3 * random.normal());
  }
}

void QuantizeProblem::put() {
  for (Matrix* m : {&out, &scale, &residual_out, &dense}) {
    if (m->given()) m->poison();
  }
  if (c_.kind == QUERN_SCALE_STATIC) scale.put(0, 0, c_.given_scale);
  for (Matrix* m : {&x, &residual, &weight, &bias, &scale}) {
    if (m->given()) m->upload();
  }
}

void QuantizeProblem::get() {
  for (Matrix* m : {&x, &residual, &out, &scale, &residual_out, &dense}) {
    if (m->given()) m->download();
  }
}

void QuantizeProblem::call(quern_context* context) {
  put();
  auto error = sized<quern_error>();
  ASSERT_EQ(quern_quantize(context, &args, &error), QUERN_OK) << error.text;
  synchronize();
  get();
}

void QuantizeProblem::run(quern_context* context) {
  auto error = sized<quern_error>();
  ASSERT_EQ(quern_quantize_workspace(context, &args, &args.workspace_size, &error), QUERN_OK) << error.text;
  workspace_ = Buffer(args.workspace_size, 0);
  args.workspace = workspace_.data();
  ASSERT_EQ(quern_quantize_prepare(context, &args, &error), QUERN_OK) << error.text;
  args.flags |= QUERN_CALL_CACHED_ONLY;
  ASSERT_NO_FATAL_FAILURE(call(context));
  const std::vector<unsigned char> first = results();
  ASSERT_NO_FATAL_FAILURE(call(context));
  ASSERT_EQ(results() == first, true) << "a second call gives other bits";
  for (const unsigned char byte : workspace_.read()) ASSERT_EQ(byte, 0) << "the workspace is not left as it was";
}

std::vector<unsigned char> QuantizeProblem::results() const {
  std::vector<unsigned char> all;
  for (const Matrix* m : {&out, &scale, static_cast<const Matrix*>(dense_), static_cast<const Matrix*>(sum_)}) {
    if (m != nullptr) all.insert(all.end(), m->all_found().begin(), m->all_found().end());
  }
  return all;
}

// ---- The definition
QuantizeProblem::Row QuantizeProblem::exact_row(std::int64_t row) const {
  Row y(static_cast<std::size_t>(c_.n));
  double sum = 0.0;
  for (std::int64_t k = 0; k < c_.n; ++k) {
    double value = x.at(row, k), error = 0.0;
    if (c_.product()) {
      const double up = x.at(row, c_.n + k);
      const double units = units_of(c_.front, c_.x.bytes() == 2, value);
      const bool nothing = value == 0.0 || up == 0.0;
      value = activation(c_.front, value) * up;
      error = nothing || !std::isfinite(value) ? 0.0 : units * kUnit * std::fabs(value) + 0x1p-119 * std::fabs(up);
    }
    if (c_.residual) value += residual.at(row, k);
    y[static_cast<std::size_t>(k)] = {value, error};
    sum += value;
  }
  if (!c_.norm()) return y;
  const auto n = static_cast<double>(c_.n);
  const double mean = c_.front == QUERN_FRONT_LAYERNORM ? sum / n : 0.0;
  double squares = 0.0;
  for (const Exact& e : y) squares += (e.value - mean) * (e.value - mean);
  const double inverse = 1.0 / std::sqrt(squares / n + double{c_.eps});
  for (std::int64_t k = 0; k < c_.n; ++k) {
    double factor = inverse;
    if (weight.given()) factor *= weight.at(0, k) + ((c_.flags & QUERN_QUANTIZE_WEIGHT_PLUS_ONE) != 0 ? 1.0 : 0.0);
    const double shift = bias.given() ? bias.at(0, k) : -0.0;  // which leaves -0 what it is
    Exact& e = y[static_cast<std::size_t>(k)];
    // A few roundings on the way, and the mean's own.
    e.error = 16 * kUnit * (std::fabs(e.value * factor) + std::fabs(mean * factor) + std::fabs(shift));
    e.value = (e.value - mean) * factor + shift;
  }
  return y;
}

void QuantizeProblem::fail(const char* what, std::int64_t row, std::int64_t column, double given, double exact) {
  if (++wrong_ <= 4) ADD_FAILURE() << what << "[" << row << ", " << column << "] is " << given << ", not " << exact;
}

double QuantizeProblem::scale_found(std::int64_t row, std::int64_t group) const {
  return c_.scale_columns_first ? scale.found(group, row) : scale.found(row, group);
}

// `least` and `most`: what the largest magnitude is, as far as f32 arithmetic can tell.
void QuantizeProblem::check_scale(std::int64_t row, std::int64_t group, double least, double most) {
  const bool power_of_two = (c_.flags & QUERN_QUANTIZE_POWER_OF_TWO) != 0;
  const double given = scale_found(row, group);
  int exponent = 0;
  const bool rounded = !power_of_two || std::frexp(given, &exponent) == 0.5;
  const double low = scale_from(std::fmax(least, 0.0), c_.out, power_of_two),
               high = scale_from(most, c_.out, power_of_two);
  if (!rounded || !(given >= low && given <= high)) fail("scale", row, group, given, low);
}

void QuantizeProblem::check_scales(const std::vector<Row>& rows) {
  const std::int64_t down = c_.kind == QUERN_SCALE_BLOCK    ? 128
                            : c_.kind == QUERN_SCALE_TENSOR ? std::max<std::int64_t>(c_.rows, 1)
                                                            : 1;
  const std::int64_t across = c_.kind >= QUERN_SCALE_GROUP ? 128 : c_.n;
  for (std::int64_t r = 0; r < std::max<std::int64_t>(c_.rows, c_.kind == QUERN_SCALE_TENSOR); r += down) {
    for (std::int64_t k = 0; k < c_.n; k += across) {
      double least = 0.0, most = 0.0;
      for (std::int64_t i = r; i < std::min(r + down, c_.rows); ++i) {
        for (std::int64_t j = k; j < std::min(k + across, c_.n); ++j) {
          const Exact& e = rows[static_cast<std::size_t>(i)][static_cast<std::size_t>(j)];
          if (!std::isfinite(e.value)) continue;
          least = std::fmax(least, std::fabs(e.value) - e.error);
          most = std::fmax(most, std::fabs(e.value) + e.error);
        }
      }
      check_scale(r / down, k / across, least, most);
    }
  }
}

void QuantizeProblem::check_element(std::int64_t row, std::int64_t column, const Exact& y) {
  const double low = y.value - y.error, high = y.value + y.error;
  if (dense_ != nullptr) {
    const double given = dense_->found(row, column);
    const bool right =
        std::isnan(y.value) ? std::isnan(given) : given >= c_.x.rounded(low) && given <= c_.x.rounded(high);
    if (!right) fail("y", row, column, given, y.value);
  }
  if (c_.kind == QUERN_SCALE_NONE) return;
  const bool group = c_.kind >= QUERN_SCALE_GROUP, single = c_.kind <= QUERN_SCALE_TENSOR;
  const double by = scale_found(single ? 0 : c_.kind == QUERN_SCALE_BLOCK ? row / 128 : row, group ? column / 128 : 0);
  const double given = out.found(row, column);
  if (std::isnan(y.value)) {
    if (out.code(row, column) != (c_.out.is_fp8() ? 0x7f : 0)) fail("out", row, column, given, y.value);
  } else if (y.error == 0.0 && !(c_.product() && y.value == 0.0)) {
    // The quotient as f32 division gives it, rounded to the nearest code: to the bit.
    unsigned char expected[4];
    c_.out.store(expected, static_cast<float>(y.value) / static_cast<float>(by));
    // A zero's sign is that of a sum which cancelled: it has none to speak of.
    const bool zeros = c_.out.is_fp8() && ((out.code(row, column) | expected[0]) & 0x7f) == 0;
    if (out.code(row, column) != expected[0] && !zeros) fail("out", row, column, given, c_.out.load(expected));
  } else {
    const double slack = 2 * kUnit;
    const double least = c_.out.rounded(low / by - slack * std::fabs(low / by)),
                 most = c_.out.rounded(high / by + slack * std::fabs(high / by));
    if (!(given >= least && given <= most)) fail("out", row, column, given, y.value / by);
  }
}

void QuantizeProblem::check() {
  wrong_ = 0;
  std::vector<Row> rows;
  for (std::int64_t r = 0; r < c_.rows; ++r) rows.push_back(exact_row(r));
  if (c_.kind == QUERN_SCALE_STATIC) {
    EXPECT_EQ(scale.found(0, 0), scale.at(0, 0)) << "a scale that was given has been written";
  } else if (c_.kind != QUERN_SCALE_NONE) {
    check_scales(rows);
  }
  for (std::int64_t r = 0; r < c_.rows; ++r) {
    for (std::int64_t k = 0; k < c_.n; ++k) {
      check_element(r, k, rows[static_cast<std::size_t>(r)][static_cast<std::size_t>(k)]);
      if (sum_ == nullptr) continue;
      // The sum in f32, as it goes into the norm, rounded to x's dtype.
      const double exact = c_.x.rounded(static_cast<float>(x.at(r, k) + residual.at(r, k)));
      if (sum_->found(r, k) != exact) fail("residual_out", r, k, sum_->found(r, k), exact);
    }
  }
  EXPECT_EQ(wrong_, 0) << "wrong in all";
  for (const Matrix* m : {&x, &residual, &out, &scale, &residual_out, &dense}) {
    if (!m->given()) continue;
    EXPECT_EQ(m->spoilt(), 0) << "bytes written beside the columns";
  }
}

}  // namespace quern::test
