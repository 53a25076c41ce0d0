// A call of norm with random tensors, and its definition in fp64.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <ostream>
#include <string>

#include "tests/ops/norm_call.h"

namespace quern::test {

struct NormCase {
  std::string name;
  std::int64_t rows = 4, n = 256;
  Element x = Element::bf16, out = Element::bf16;
  int kind = QUERN_NORM_LAYER;
  std::int64_t groups = 0, places = 0;  // of a group norm: n is channels * places
  bool channels_last = false;
  Parameter weight = Parameter::none, bias = Parameter::none, scale = Parameter::none, shift = Parameter::none;
  std::int64_t m = 1;  // rows of scale and shift
  bool residual = false;
  Where to = Where::own, sum = Where::nowhere;
  std::uint32_t flags = 0;
  std::int64_t padding = 0;  // elements between rows
  int alignment = 0, max_sms = 0;
  float eps = 1e-6f;
  double mean = 0.0, drift = 0.0;  // how far the mean moves along a row
  bool grouped() const { return kind == QUERN_NORM_GROUP; }
};
inline void PrintTo(const NormCase& c, std::ostream* out) { *out << c.name; }

inline constexpr ThreeCalls<quern_norm_args> kNorm{quern_norm, quern_norm_workspace, quern_norm_prepare};

class Norm : public NormCall<quern_norm_args> {
 public:
  explicit Norm(const NormCase& c) : NormCall(kNorm), c_(c) {
    Random random(c.name);
    add_inputs({&bias, &scale, &shift});
    set_rows(c.x, c.out, c.rows, c.n, c.padding, c.residual, c.sum);
    const std::int64_t channels = c.grouped() ? c.n / c.places : c.n;
    if (c.weight != Parameter::none) set_vector(weight, element_of(c.weight, c.x), channels, random);
    if (c.bias != Parameter::none) set_vector(bias, element_of(c.bias, c.x), channels, random);
    if (c.scale != Parameter::none) matrix(scale, element_of(c.scale, c.x), random);
    if (c.shift != Parameter::none) matrix(shift, element_of(c.shift, c.x), random);
    for (std::int64_t r = 0; r < c.rows; ++r) {
      const double size = std::ldexp(1.0, random.between(-3, 3));
      for (std::int64_t k = 0; k < c.n; ++k) {
        const double here = c.mean + c.drift * static_cast<double>(k) / static_cast<double>(c.n);
        x.put(r, k, here + size * random.normal());
        if (c.residual) residual.put(r, k, size * random.normal());
      }
    }
    for (Matrix* each : results()) {
      if (c.grouped() && each->given()) {
        each->box.tensor.ndim = 3;
        each->box.shape[1] = channels, each->box.shape[2] = c.places;
        each->box.strides[1] = c.channels_last ? 1 : c.places, each->box.strides[2] = c.channels_last ? channels : 1;
      }
    }
    args.x = x.box.get();
    args.out = place(c.to, out), args.residual_out = place(c.sum, sum);
    args.residual = given(residual), args.weight = given(weight), args.bias = given(bias);
    args.scale = given(scale), args.shift = given(shift);
    args.kind = c.kind, args.groups = static_cast<std::int32_t>(c.groups);
    args.eps = c.eps, args.flags = c.flags, args.alignment = c.alignment, args.max_sms = c.max_sms;
  }

  // Each result lies between the rounded ends of what 2^-19 of its terms leaves around the exact one; and their root
  // mean square error is below twice that of the same maths in f32, term after term.
  void check() const {
    std::int64_t wrong = 0, wrong_sums = 0;
    double squares = 0.0, plain_squares = 0.0;
    const std::int64_t count = c_.grouped() ? c_.n / c_.groups : c_.n;
    for (std::int64_t r = 0; r < c_.rows; ++r) {
      for (std::int64_t first = 0; first < c_.n; first += count) {
        const Moments<double> exact = moments<double>(r, first, count);
        const Moments<float> plain = moments<float>(r, first, count);
        for (std::int64_t e = first; e < first + count; ++e) {
          const std::int64_t k = place_of(e);
          const double value = affine<double>(r, k, (s(r, k) - exact.mean) * exact.inverse);
          const double terms = (std::fabs(s(r, k)) + exact.size) * exact.inverse;
          const double spread = 0x1p-19 * bound(r, k, terms);
          const double found = result(c_.to, out).found(r, k);
          wrong += !(found >= c_.out.rounded(value - spread) && found <= c_.out.rounded(value + spread));
          const float straight = affine<float>(r, k, (static_cast<float>(s(r, k)) - plain.mean) * plain.inverse);
          squares += (found - value) * (found - value);
          plain_squares += (c_.out.rounded(straight) - value) * (c_.out.rounded(straight) - value);
          if (c_.sum != Where::nowhere)
            wrong_sums += result(c_.sum, sum).found(r, k) != c_.x.rounded(static_cast<float>(s(r, k)));
        }
      }
    }
    EXPECT_EQ(wrong, 0);
    EXPECT_EQ(wrong_sums, 0);
    EXPECT_LE(std::sqrt(squares), 2.0 * std::sqrt(plain_squares) + 1e-6);
    expect_unspoilt();
  }

  Matrix bias, scale, shift;

 private:
  template <class T>
  struct Moments {
    T mean, inverse;
    T size = 0;  // of a number, on the mean
  };

  void matrix(Matrix& to, Element element, Random& random) {
    to.set(element, c_.m, c_.n, c_.n + c_.padding);
    for (std::int64_t r = 0; r < c_.m; ++r) {
      for (std::int64_t k = 0; k < c_.n; ++k) to.put(r, k, random.normal());
    }
  }
  double s(std::int64_t r, std::int64_t k) const { return x.at(r, k) + (c_.residual ? residual.at(r, k) : 0.0); }
  template <class T>
  Moments<T> moments(std::int64_t r, std::int64_t first, std::int64_t count) const {
    T mean = 0, size = 0, total = 0;
    if (c_.kind == QUERN_NORM_LAYER || c_.grouped()) {
      for (std::int64_t e = first; e < first + count; ++e) {
        mean += static_cast<T>(s(r, place_of(e)));
        size += static_cast<T>(std::fabs(s(r, place_of(e))));
      }
      mean /= static_cast<T>(count), size /= static_cast<T>(count);
    }
    for (std::int64_t e = first; e < first + count; ++e) {
      const T d = static_cast<T>(s(r, place_of(e))) - mean;
      total += d * d;
    }
    if (c_.kind != QUERN_NORM_L2) total /= static_cast<T>(count);
    return {mean, T{1} / std::sqrt(total + static_cast<T>(c_.eps)), size};
  }
  // Where element e of a sample lies, counted by channel and place; and which channel lies in column k.
  std::int64_t place_of(std::int64_t e) const {
    return c_.channels_last ? e % c_.places * (c_.n / c_.places) + e / c_.places : e;
  }
  std::int64_t channel(std::int64_t k) const {
    return !c_.grouped() ? k : c_.channels_last ? k % (c_.n / c_.places) : k / c_.places;
  }
  double factor(std::int64_t k) const {
    return (weight.given() ? weight.at(0, channel(k)) : 1.0) +
           ((c_.flags & QUERN_NORM_WEIGHT_PLUS_ONE) != 0 ? 1.0 : 0.0);
  }
  double scale_at(std::int64_t r, std::int64_t k) const {
    if (!scale.given()) return 1.0;
    return scale.at(r / (c_.rows / c_.m), k) + ((c_.flags & QUERN_NORM_SCALE_ALONE) != 0 ? 0.0 : 1.0);
  }
  template <class T>
  T affine(std::int64_t r, std::int64_t k, T y) const {
    y *= static_cast<T>(factor(k));
    if (bias.given()) y += static_cast<T>(bias.at(0, channel(k)));
    y *= static_cast<T>(scale_at(r, k));
    if (shift.given()) y += static_cast<T>(shift.at(r / (c_.rows / c_.m), k));
    return y;
  }
  double bound(std::int64_t r, std::int64_t k, double y) const {
    y *= std::fabs(factor(k));
    if (bias.given()) y += std::fabs(bias.at(0, channel(k)));
    y *= std::fabs(scale_at(r, k));
    return y + (shift.given() ? std::fabs(shift.at(r / (c_.rows / c_.m), k)) : 0.0);
  }

  const NormCase c_;
};

// A layer norm with weight and bias.
inline NormCase plain_norm(const std::string& name, std::int64_t rows, std::int64_t n) {
  NormCase c;
  c.name = name, c.rows = rows, c.n = n, c.weight = c.bias = Parameter::like_x;
  return c;
}

}  // namespace quern::test
