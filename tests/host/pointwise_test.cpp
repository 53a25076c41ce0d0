// Every pointwise function over a dense sample of f32, against f64; and that every target's compiler takes them.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdio>
#include <functional>
#include <limits>
#include <random>

#include "tests/host/kernels.h"

namespace quern::host_tests {
namespace {

constexpr double kSmallestNormal = 0x1p-126;
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

double sigmoid(double x) { return x > 0 ? 1 / (1 + std::exp(-x)) : std::exp(x) / (1 + std::exp(x)); }
// x times what tends to 0 is 0 at -infinity too, from below.
double gated(double x, double gate) { return gate == 0 ? std::copysign(0.0, x) : x * gate; }
double gelu_tanh_argument(double x) { return 2 * std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x); }

struct Function {
  const char* name;
  int which;        // in pointwise.cuh
  double most_ulp;  // 0: to the bit
  std::function<double(double)> exact;
};
const Function kFunctions[] = {
    {"abs", 0, 0, [](double x) { return std::abs(x); }},
    {"exp", 1, 1.5, [](double x) { return std::exp(x); }},
    {"log", 2, 1.5, [](double x) { return std::log(x); }},
    {"sqrt", 3, 0.5, [](double x) { return std::sqrt(x); }},
    {"rsqrt", 4, 1.5, [](double x) { return 1 / std::sqrt(x); }},
    {"tanh", 5, 3, [](double x) { return std::tanh(x); }},
    {"erf", 6, 3, [](double x) { return std::erf(x); }},
    {"sigmoid", 7, 4, [](double x) { return sigmoid(x); }},
    {"relu", 8, 0, [](double x) { return x < 0 ? 0 : x; }},
    {"silu", 9, 4, [](double x) { return gated(x, sigmoid(x)); }},
    {"gelu", 10, 4.5, [](double x) { return gated(x, std::erfc(-x / std::sqrt(2.0)) / 2); }},
    {"gelu_tanh", 11, 4, [](double x) { return gated(x, sigmoid(gelu_tanh_argument(x))); }},
    {"exp2", 16, 1.5, [](double x) { return std::exp2(x); }},
    {"expm1", 17, 2, [](double x) { return std::expm1(x); }},
    {"log2", 18, 1.5, [](double x) { return std::log2(x); }},
    {"log1p", 19, 2, [](double x) { return std::log1p(x); }},
    {"sin", 20, 3, [](double x) { return std::sin(x); }},
    {"cos", 21, 3, [](double x) { return std::cos(x); }},
    {"floor", 22, 0, [](double x) { return std::floor(x); }},
    {"ceil", 23, 0, [](double x) { return std::ceil(x); }},
    {"trunc", 24, 0, [](double x) { return std::trunc(x); }},
    {"round", 25, 0, [](double x) { return std::nearbyint(x); }},
};

double ulp(double value) {
  int exponent = 0;
  std::frexp(std::max(std::abs(value), kSmallestNormal), &exponent);
  return std::ldexp(1.0, exponent - 24);
}

// All exponents and signs, every so many mantissas; and what is near a special value.
std::vector<float> sample() {
  std::vector<float> values;
  for (std::uint64_t bits = 0; bits < (std::uint64_t{1} << 32); bits += 2053) {
    values.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
  }
  for (const float near :
       {0.0f, 1.0f, 2.0f, 0.6f, 0.9f, 4.0f, 11.0f, 14.5f, 20.0f, 87.3f, 88.7f, 104.0f, 110.0f, 128.0f}) {
    const auto bits = std::bit_cast<std::uint32_t>(near);
    for (std::uint32_t i = 0; i < 500; ++i) {
      values.push_back(std::bit_cast<float>(bits + i));
      values.push_back(-std::bit_cast<float>(bits + i));
      if (bits > i) values.push_back(std::bit_cast<float>(bits - i)), values.push_back(-std::bit_cast<float>(bits - i));
    }
  }
  for (const float v :
       {kInfinity, -kInfinity, kNan, std::numeric_limits<float>::max(), -std::numeric_limits<float>::max()}) {
    values.push_back(v);
  }
  return values;
}

class Pointwise : public testing::Test {
 protected:
  std::vector<float> apply(int which, const std::vector<float>& x, const std::vector<float>& y,
                           const std::vector<float>& z) {
    std::vector<float> out(x.size(), -777.0f);
    EXPECT_EQ(kernel_(4, x.data(), y.data(), z.data(), out.data(), static_cast<int>(x.size()), which), "");
    return out;
  }
  std::vector<float> apply(int which, const std::vector<float>& x) { return apply(which, x, x, x); }

 private:
  Kernel kernel_{compile("host", "pointwise.cuh", read_file("tests/host/pointwise.cuh"), "quern_pointwise"),
                 "quern_pointwise",
                 0,
                 {}};
};

// Equal as f32 are, infinities among them; NaN equals NaN.
bool same(float got, double exact) { return std::isnan(exact) ? std::isnan(got) : got == static_cast<float>(exact); }

TEST_F(Pointwise, FunctionsOfOneAreWithinTheirUlp) {
  const std::vector<float> x = sample();
  for (const Function& f : kFunctions) {
    const std::vector<float> out = apply(f.which, x);
    double worst = 0;
    float at = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double exact = f.exact(x[i]), error = std::abs(out[i] - exact);
      if (same(out[i], exact)) continue;
      // Where f32 ends an error of an ulp decides between the largest number and infinity.
      const bool at_the_end = std::isinf(static_cast<float>(exact)) != std::isinf(out[i]);
      ASSERT_FALSE(std::isnan(exact) || std::isnan(out[i]) || (at_the_end && std::abs(exact) < 3.4028e38))
          << f.name << "(" << x[i] << ") is " << out[i] << ", not " << exact;
      ASSERT_EQ(std::signbit(out[i]), std::signbit(exact)) << f.name << "(" << x[i] << ") is " << out[i];
      if (at_the_end || error < kSmallestNormal) continue;
      if (error / ulp(exact) > worst) worst = error / ulp(exact), at = x[i];
    }
    std::printf("%-10s %.2f ulp at %.9g\n", f.name, worst, static_cast<double>(at));
    EXPECT_LE(worst, f.most_ulp) << f.name << "(" << at << ")";
  }
}

TEST_F(Pointwise, LimitsAreReached) {
  const std::vector<float> ends = {-kInfinity, kInfinity, kNan, -1e30f, -200.0f, -0.0f, 0.0f};
  const float nan = kNan, inf = kInfinity;
  struct Row {
    int which;
    std::vector<float> expected;
  };
  const Row rows[] = {
      {1, {0, inf, nan, 0, 0, 1, 1}},                   // exp
      {2, {nan, inf, nan, nan, nan, -inf, -inf}},       // log
      {3, {nan, inf, nan, nan, nan, -0.0f, 0}},         // sqrt
      {5, {-1, 1, nan, -1, -1, -0.0f, 0}},              // tanh
      {6, {-1, 1, nan, -1, -1, -0.0f, 0}},              // erf
      {7, {0, 1, nan, 0, 0, 0.5f, 0.5f}},               // sigmoid
      {8, {0, inf, nan, 0, 0, -0.0f, 0}},               // relu
      {9, {-0.0f, inf, nan, -0.0f, -0.0f, -0.0f, 0}},   // silu
      {10, {-0.0f, inf, nan, -0.0f, -0.0f, -0.0f, 0}},  // gelu
      {11, {-0.0f, inf, nan, -0.0f, -0.0f, -0.0f, 0}},  // gelu_tanh
      {16, {0, inf, nan, 0, 0, 1, 1}},                  // exp2
      {17, {-1, inf, nan, -1, -1, -0.0f, 0}},           // expm1
      {18, {nan, inf, nan, nan, nan, -inf, -inf}},      // log2
      {19, {nan, inf, nan, nan, nan, -0.0f, 0}},        // log1p
  };
  for (const Row& row : rows) {
    const std::vector<float> out = apply(row.which, ends);
    for (std::size_t i = 0; i < ends.size(); ++i) {
      EXPECT_TRUE(same(out[i], row.expected[i])) << "function " << row.which << " of " << ends[i] << " is " << out[i];
    }
  }
}

TEST_F(Pointwise, MinMaxAndClampKeepNan) {
  std::vector<float> x, y, z;
  const float values[] = {-kInfinity, -2, -0.0f, 1, 3, kInfinity, kNan};
  for (const float a : values) {
    for (const float b : values) {
      for (const float c : values) x.push_back(a), y.push_back(b), z.push_back(c);
    }
  }
  const std::vector<float> least = apply(12, x, y, z), most = apply(13, x, y, z), clamped = apply(15, x, y, z);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const bool two = std::isnan(x[i]) || std::isnan(y[i]), three = two || std::isnan(z[i]);
    EXPECT_TRUE(same(least[i], two ? kNan : std::min(x[i], y[i]))) << x[i] << " " << y[i];
    EXPECT_TRUE(same(most[i], two ? kNan : std::max(x[i], y[i]))) << x[i] << " " << y[i];
    EXPECT_TRUE(same(clamped[i], three ? kNan : std::min(std::max(x[i], y[i]), z[i])))
        << x[i] << " " << y[i] << " " << z[i];
  }
}

// Bases and exponents whose power f32 holds, near its ends and near 1 where the logarithm is hardest; and anything at
// all.
void powers(std::vector<float>* x, std::vector<float>* y) {
  std::mt19937 random(7);
  const auto unit = [&] { return static_cast<double>(random() >> 8) * 0x1p-24; };
  for (int i = 0; i < 1'000'000; ++i) {
    switch (i % 4) {
      case 0: {
        x->push_back(std::bit_cast<float>(static_cast<std::uint32_t>(random() % 0x7f800000)));
        y->push_back(static_cast<float>((unit() * 300 - 160) / std::log2(static_cast<double>(x->back()))));
        break;
      }
      case 1: {
        x->push_back(static_cast<float>(0.5 + 1.5 * unit()));
        y->push_back(static_cast<float>((unit() * 300 - 160) / std::log2(static_cast<double>(x->back()))));
        break;
      }
      case 2: {
        x->push_back(static_cast<float>(unit() * 16 - 8));
        y->push_back(static_cast<float>(static_cast<int>(random() % 41) - 20));
        break;
      }
      default:
        x->push_back(std::bit_cast<float>(static_cast<std::uint32_t>(random())));
        y->push_back(std::bit_cast<float>(static_cast<std::uint32_t>(random())));
    }
  }
  const float special[] = {0,       -0.0f, 1,      -1,        2,          -2,       3,
                           -3,      0.5f,  -0.5f,  kInfinity, -kInfinity, kNan,     1e-45f,
                           -1e-45f, 3e38f, -3e38f, 16777215,  -16777215,  16777216, 33554432};
  for (const float a : special) {
    for (const float b : special) x->push_back(a), y->push_back(b);
  }
}

TEST_F(Pointwise, PowHasTheSpecialCasesOfIeee754) {
  std::vector<float> x, y;
  powers(&x, &y);
  const std::vector<float> out = apply(14, x, y, x);
  double worst = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double exact = std::pow(static_cast<double>(x[i]), static_cast<double>(y[i])),
                 error = std::abs(out[i] - exact);
    const bool at_the_end = std::abs(exact) > 3.4028e38 && std::abs(out[i]) > 3.4028e38f;
    if (same(out[i], exact)) continue;
    ASSERT_EQ(std::signbit(out[i]), std::signbit(exact)) << x[i] << "^" << y[i];
    if (at_the_end || error < kSmallestNormal) continue;
    ASSERT_TRUE(std::isfinite(exact) && std::isfinite(out[i]))
        << x[i] << "^" << y[i] << " is " << out[i] << ", not " << exact;
    worst = std::max(worst, error / ulp(exact));
  }
  std::printf("pow        %.2f ulp\n", worst);
  EXPECT_LE(worst, 4);
}

TEST_F(Pointwise, Atan2KnowsTheQuadrants) {
  std::vector<float> y, x;
  powers(&y, &x);
  const std::vector<float> out = apply(26, y, x, y);
  // apply() gives the first list as x of the kernel, which is atan2's y.
  double worst = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double exact = std::atan2(static_cast<double>(y[i]), static_cast<double>(x[i]));
    if (same(out[i], exact)) continue;
    ASSERT_FALSE(std::isnan(exact) || std::isnan(out[i])) << y[i] << " " << x[i];
    ASSERT_EQ(std::signbit(out[i]), std::signbit(exact)) << y[i] << " " << x[i];
    const double error = std::abs(out[i] - exact);
    if (error >= kSmallestNormal) worst = std::max(worst, error / ulp(exact));
  }
  std::printf("atan2      %.2f ulp\n", worst);
  EXPECT_LE(worst, 3);
}

class PointwiseOn : public testing::TestWithParam<const char*> {};
TEST_P(PointwiseOn, Compiles) {
  EXPECT_FALSE(
      compile(GetParam(), "pointwise.cuh", read_file("tests/host/pointwise.cuh"), "quern_pointwise").image.empty());
}
INSTANTIATE_TEST_SUITE_P(EveryTarget, PointwiseOn,
                         testing::Values("sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a", "sm_120a", "gfx90a", "host64"),
                         [](const testing::TestParamInfo<const char*>& target) { return std::string(target.param); });

}  // namespace
}  // namespace quern::host_tests
