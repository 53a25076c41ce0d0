// Every 8-bit code, every boundary between two of them, and the division by the scale where it is hardest.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/ops/quantize_problem.h"

namespace quern::test {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// One row, quantised by a scale that is given.
std::vector<std::uint8_t> quantised(Element x_type, Element out_type, const std::vector<unsigned char>& x, float scale,
                                    int front = QUERN_FRONT_NONE) {
  const auto length = static_cast<std::int64_t>(x.size() / x_type.bytes()),
             n = front == QUERN_FRONT_NONE ? length : length / 2;
  Buffer x_buffer(x.size()), out_buffer(static_cast<std::size_t>(n), 0xee), scale_buffer(4);
  x_buffer.write(x);
  scale_buffer.write(&scale, 4);
  TensorBox x_box, out_box, scale_box;
  x_box.set(x_type.type(), {1, length});
  out_box.set(out_type.type(), {1, n});
  scale_box.set(kFloat32, {1});
  x_box.place(x_buffer.data()), out_box.place(out_buffer.data()), scale_box.place(scale_buffer.data());
  auto args = sized<quern_quantize_args>();
  args.x = x_box.get(), args.out = out_box.get(), args.scale = scale_box.get();
  args.scale_kind = QUERN_SCALE_STATIC;
  args.front = front;
  auto error = sized<quern_error>();
  EXPECT_EQ(quern_quantize(context(), &args, &error), QUERN_OK) << error.text;
  synchronize();
  return out_buffer.read();
}

std::vector<std::uint8_t> quantised(const std::vector<float>& x, Element out_type, float scale) {
  std::vector<unsigned char> bytes(x.size() * 4);
  std::memcpy(bytes.data(), x.data(), bytes.size());
  return quantised(Element::f32, out_type, bytes, scale);
}

std::uint8_t code_of(Element type, double value) {
  unsigned char memory[4];
  type.store(memory, value);
  return memory[0];
}
double value_of(Element type, int code) {
  const unsigned char memory[4] = {static_cast<unsigned char>(code), 0, 0, 0};
  return type.load(memory);
}

class QuantizeCodes : public testing::TestWithParam<Element> {};
INSTANTIATE_TEST_SUITE_P(Types, QuantizeCodes, testing::Values(Element::e4m3, Element::e5m2, Element::i8),
                         [](const testing::TestParamInfo<Element>& type) { return std::string(type.param.name()); });

TEST_P(QuantizeCodes, WidenToTheirNumbers) {
  std::vector<std::uint8_t> codes(256);
  for (int i = 0; i < 256; ++i) codes[static_cast<std::size_t>(i)] = static_cast<std::uint8_t>(i);
  for (const Element::Kind kind : {Element::f32, Element::bf16, Element::f16}) {
    const Element out_type = kind;
    Buffer x_buffer(256), out_buffer(256 * out_type.bytes(), 0xee);
    x_buffer.write(codes);
    TensorBox x_box, out_box;
    x_box.set(GetParam().type(), {1, 256});
    out_box.set(out_type.type(), {1, 256});
    x_box.place(x_buffer.data()), out_box.place(out_buffer.data());
    auto args = sized<quern_dequantize_args>();
    args.x = x_box.get(), args.out = out_box.get();
    args.scale_kind = QUERN_SCALE_NONE;
    auto error = sized<quern_error>();
    ASSERT_EQ(quern_dequantize(context(), &args, &error), QUERN_OK) << error.text;
    synchronize();
    const std::vector<unsigned char> found = out_buffer.read();
    for (int i = 0; i < 256; ++i) {
      const double exact = value_of(GetParam(), i),
                   given = out_type.load(&found[static_cast<std::size_t>(i) * out_type.bytes()]);
      if (std::isnan(exact)) {
        EXPECT_TRUE(std::isnan(given)) << i;
      } else {
        EXPECT_EQ(given, exact) << i;
        EXPECT_EQ(std::signbit(given), std::signbit(exact)) << i;
      }
    }
  }
}

// Each number, the middle between it and the next, and the f32 numbers on either side of both.
TEST_P(QuantizeCodes, AreTheNearestOnEitherSideOfEveryBoundary) {
  std::vector<float> x;
  for (int code = 0; value_of(GetParam(), code) <= GetParam().largest() && code < 0x7f; ++code) {
    const double value = value_of(GetParam(), code), next = value_of(GetParam(), code + 1);
    // Past the largest the boundary would be half a step further on: everything beyond is the largest too.
    const double middle = std::isfinite(next) ? (value + next) / 2 : value * 1.03125;
    for (const double at : {value, middle}) {
      const auto single = static_cast<float>(at);
      for (const float y : {single, std::nextafter(single, kInfinity), std::nextafter(single, -kInfinity)}) {
        x.push_back(y);
        x.push_back(-y);
      }
    }
  }
  for (const float y : {480.0f, 512.0f, 61440.0f, 65536.0f, 1e30f, std::numeric_limits<float>::max(), kInfinity, 1e-40f,
                        std::numeric_limits<float>::denorm_min(), std::numeric_limits<float>::quiet_NaN()}) {
    x.push_back(y);
    x.push_back(-y);
  }
  x.resize((x.size() + 15) / 16 * 16, 0.0f);
  const std::vector<std::uint8_t> found = quantised(x, GetParam(), 1.0f);
  for (std::size_t i = 0; i < x.size(); ++i) EXPECT_EQ(found[i], code_of(GetParam(), x[i])) << x[i];
  EXPECT_GE(x.size(), 12u * 120u);
}

// Every number of the 16-bit types, infinities and NaNs among them.
TEST_P(QuantizeCodes, AreTheNearestToEverySixteenBitNumber) {
  for (const Element::Kind kind : {Element::f16, Element::bf16}) {
    const Element type = kind;
    std::vector<unsigned char> x(65536 * 2);
    for (std::size_t i = 0; i < 65536; ++i) {
      const auto bits = static_cast<std::uint16_t>(i);
      std::memcpy(&x[2 * i], &bits, 2);
    }
    const std::vector<std::uint8_t> found = quantised(type, GetParam(), x, 1.0f);
    for (std::size_t i = 0; i < 65536; ++i)
      ASSERT_EQ(found[i], code_of(GetParam(), type.load(&x[2 * i]))) << type.name() << " " << i;
  }
}

// The quotient that f32 division rounds to decides, to the bit. It can only be missed where the exact quotient lies
// within 2^-45 of the middle between a boundary and the f32 number next to it, which takes a scale whose significand is
// near a multiple of 1/8: those, against all boundaries' significands and the nearest numbers around each product.
TEST_P(QuantizeCodes, AreThoseOfTheQuotientInF32WhereThatIsHardest) {
  for (int eighths = 8; eighths <= 16; ++eighths) {
    for (int beside = -6; beside <= 6; ++beside) {
      float scale = static_cast<float>(eighths) / 8.0f;
      for (int i = 0; i < std::abs(beside); ++i) scale = std::nextafter(scale, beside > 0 ? kInfinity : 0.0f);
      std::vector<float> x;
      for (int sixteenths = 16; sixteenths < 32; ++sixteenths) {
        float y = static_cast<float>(sixteenths / 16.0 * double{scale});
        for (int i = 0; i < 4; ++i) y = std::nextafter(y, 0.0f);
        for (int i = 0; i < 8; ++i, y = std::nextafter(y, kInfinity)) x.push_back(y);
      }
      const std::vector<std::uint8_t> found = quantised(x, GetParam(), scale);
      for (std::size_t i = 0; i < x.size(); ++i)
        ASSERT_EQ(found[i], code_of(GetParam(), x[i] / scale)) << x[i] << " / " << scale;
    }
  }
}

TEST_P(QuantizeCodes, AreThoseOfTheQuotientInF32ForScalesOfEverySize) {
  Random random("scales");
  std::vector<float> scales = {0x1p-126f, 0x1.fffffep-126f, 0x1p100f, 0x1.fffffep99f, 1.0f, 0x1.fffffep0f, -3.0f};
  for (int i = 0; i < 60; ++i)
    scales.push_back(static_cast<float>(std::ldexp(1.0 + random.uniform(), random.between(-126, 99))));
  for (const float scale : scales) {
    std::vector<float> x;
    for (int i = 0; i < 512; ++i)
      x.push_back(
          static_cast<float>(1.5 * random.normal() * GetParam().largest() * std::ldexp(1.0, -random.between(0, 20))) *
          scale);
    const std::vector<std::uint8_t> found = quantised(x, GetParam(), scale);
    for (std::size_t i = 0; i < x.size(); ++i)
      ASSERT_EQ(found[i], code_of(GetParam(), x[i] / scale)) << x[i] << " / " << scale;
  }
}

// A scale of no use is the caller's: what f32 division makes of it, and nothing worse.
TEST_P(QuantizeCodes, OfScalesThatAreNoNumbers) {
  const std::vector<float> x = {
      0.0f, -0.0f, 1.0f,  -1.0f,  kInfinity, -kInfinity, std::numeric_limits<float>::quiet_NaN(), 3.5f, 1e-30f, -1e30f,
      7.0f, -7.0f, 0.25f, 100.0f, -100.0f,   0.5f};
  for (const float scale : {0.0f, kInfinity, std::numeric_limits<float>::quiet_NaN()}) {
    const std::vector<std::uint8_t> found = quantised(x, GetParam(), scale);
    for (std::size_t i = 0; i < x.size(); ++i)
      EXPECT_EQ(found[i], code_of(GetParam(), x[i] / scale)) << x[i] << " / " << scale;
  }
}

// A quotient beyond what f32 holds is the largest number, whatever its parts do on the way.
TEST_P(QuantizeCodes, OfQuotientsThatAreTooLarge) {
  Random random("overflow");
  const std::vector<float> x = {3e38f, -3e38f, 1.7e38f, -1.7e38f, 1e36f, -1e36f, 2e30f,     -2e30f,
                                1e20f, -1e20f, 1e10f,   -1e10f,   0.0f,  -0.0f,  kInfinity, -kInfinity};
  for (int i = 0; i < 200; ++i) {
    const auto scale = static_cast<float>(std::ldexp(1.0 + random.uniform(), random.between(-126, -10)));
    const std::vector<std::uint8_t> found = quantised(x, GetParam(), scale);
    for (std::size_t k = 0; k < x.size(); ++k)
      ASSERT_EQ(found[k], code_of(GetParam(), x[k] / scale)) << x[k] << " / " << scale;
  }
}

// Gates where e^x is no number that f32 holds, and those that are none themselves.
TEST_P(QuantizeCodes, OfGatesThatAreExtreme) {
  const std::vector<double> gates = {kInfinity, -kInfinity, std::numeric_limits<double>::quiet_NaN(),
                                     0.0,       -0.0,       300.0,
                                     -300.0,    60000.0,    -60000.0,
                                     1e38,      -1e38,      3e38,
                                     -3e38,     89.0,       -89.0,
                                     -30.0};
  for (const int front : {QUERN_FRONT_SILU_MUL, QUERN_FRONT_GELU_MUL, QUERN_FRONT_GELU_TANH_MUL}) {
    for (const Element::Kind kind : {Element::f32, Element::bf16, Element::f16}) {
      const Element type = kind;
      std::vector<unsigned char> x(2 * gates.size() * type.bytes());
      for (std::size_t i = 0; i < gates.size(); ++i) {
        type.store(&x[i * type.bytes()], gates[i]);
        type.store(&x[(gates.size() + i) * type.bytes()], 1.0);
      }
      const std::vector<std::uint8_t> found = quantised(type, GetParam(), x, 1.0f, front);
      for (std::size_t i = 0; i < gates.size(); ++i) {
        const double gate = type.load(&x[i * type.bytes()]);
        const std::uint8_t magnitude = code_of(GetParam(), gate > 0.0 ? gate : 0.0);
        const bool right = !GetParam().is_fp8() ? found[i] == magnitude
                           : std::isnan(gate)   ? found[i] == 0x7f
                                                : (found[i] & 0x7f) == magnitude &&
                                                      (gate == 0.0 || (found[i] >> 7 != 0) == (gate < 0.0));
        EXPECT_TRUE(right) << "front " << front << " of " << gate << " in " << type.name() << " is code "
                           << int{found[i]};
      }
    }
  }
}

}  // namespace
}  // namespace quern::test
