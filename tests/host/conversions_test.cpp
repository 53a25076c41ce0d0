// Conversions between f32 and the narrow types: every code, and every boundary between two codes.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "tests/host/kernels.h"

namespace quern::host_tests {
namespace {

// A narrow type by its parameters; all else here follows from them, in f64.
struct Format {
  const char* name;
  int codes;  // of either sign
  int mantissa;
  int bias;
  int first_nan;    // the first code that is NaN
  int infinity;     // the code, or -1
  bool saturating;  // too large becomes the largest finite value
  int nan;          // what NaN becomes

  double value(int code) const {
    const int exponent = code >> mantissa, fraction = code & ((1 << mantissa) - 1);
    if (exponent == 0) return std::ldexp(fraction, 1 - bias - mantissa);
    return std::ldexp(fraction + (1 << mantissa), exponent - bias - mantissa);
  }
  int largest() const { return (infinity >= 0 ? infinity : first_nan) - 1; }
};

constexpr Format kFormats[4] = {
    {"f16", 32768, 10, 15, 0x7c01, 0x7c00, false, 0x7fff},
    {"bf16", 32768, 7, 127, 0x7f81, 0x7f80, false, 0x7fff},
    {"e4m3", 128, 3, 7, 0x7f, -1, true, 0x7f},
    {"e5m2", 128, 2, 15, 0x7d, 0x7c, true, 0x7f},
};

// The code that a value rounds to, sign aside: to nearest, ties to the even code, found by search.
int nearest(const Format& f, double magnitude) {
  int low = 0, high = f.largest();
  if (magnitude >= f.value(high)) {
    // Half a step further is where the next exponent's first value would begin to be nearer.
    const double step = f.value(high) - f.value(high - 1);
    return !f.saturating && magnitude >= f.value(high) + step / 2 ? f.infinity : high;
  }
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    (f.value(middle) <= magnitude ? low : high) = middle;
  }
  const double below = magnitude - f.value(low), above = f.value(high) - magnitude;
  if (below == above) return low & 1 ? high : low;
  return below < above ? low : high;
}

int expected_code(const Format& f, float v) {
  if (std::isnan(v)) return f.nan;
  const int sign = std::signbit(v) ? f.codes : 0;
  if (std::isinf(v)) return sign | (f.saturating ? f.largest() : f.infinity);
  return sign | nearest(f, std::abs(static_cast<double>(v)));
}

// Every code's value, the middle of every two neighbours, and the f32 just beside each; then f32 of every exponent.
std::vector<float> values() {
  std::vector<float> list;
  const auto add = [&list](double v) {
    const auto middle = static_cast<float>(v);
    for (const float x : {middle, std::nextafter(middle, 0.0f), std::nextafter(middle, 1e38f)}) {
      list.push_back(x);
      list.push_back(-x);
    }
  };
  for (const Format& f : kFormats) {
    for (int code = 0; code <= f.largest(); ++code) {
      add(f.value(code));
      const double step = code < f.largest() ? f.value(code + 1) - f.value(code) : f.value(code) - f.value(code - 1);
      add(f.value(code) + step / 2);
    }
  }
  std::uint32_t bits = 1;
  for (int i = 0; i < 200000; ++i) {
    bits = bits * 1664525u + 1013904223u;
    list.push_back(std::bit_cast<float>(bits));
  }
  for (const float v : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN(),
                        std::numeric_limits<float>::max(), std::numeric_limits<float>::denorm_min()}) {
    list.push_back(v);
    list.push_back(-v);
  }
  return list;
}

struct Params {  // ConversionParams of conversions.cuh
  float* f16;
  float* bf16;
  float* e4m3;
  float* e5m2;
  const float* values;
  unsigned* narrow;
  int count;
};

class HostConversions : public testing::TestWithParam<std::uint32_t> {};

TEST_P(HostConversions, EveryCodeAndEveryBoundary) {
  const std::string target = GetParam() == 64 ? "host64" : "host";
  Kernel kernel(compile(target, "conversions.cuh", read_file("tests/host/conversions.cuh"), "quern_conversions"),
                "quern_conversions", 0, {.warp_size = GetParam()});
  std::vector<float> wide[4];
  for (int i = 0; i < 4; ++i) wide[i].assign(2 * static_cast<std::size_t>(kFormats[i].codes), -777.0f);
  const std::vector<float> list = values();
  std::vector<unsigned> narrow(4 * list.size(), ~0u);
  const Params params{wide[0].data(),
                      wide[1].data(),
                      wide[2].data(),
                      wide[3].data(),
                      list.data(),
                      narrow.data(),
                      static_cast<int>(list.size())};
  ASSERT_EQ(kernel(8, params), "");
  for (int i = 0; i < 4; ++i) {
    const Format& f = kFormats[i];
    for (int code = 0; code < 2 * f.codes; ++code) {
      const int magnitude = code % f.codes;
      const float got = wide[i][static_cast<std::size_t>(code)];
      if (magnitude >= f.first_nan) {
        ASSERT_TRUE(std::isnan(got)) << f.name << " code " << code;
        continue;
      }
      const double expected = magnitude == f.infinity ? std::numeric_limits<double>::infinity() : f.value(magnitude);
      ASSERT_EQ(got, static_cast<float>(code < f.codes ? expected : -expected)) << f.name << " code " << code;
      ASSERT_EQ(std::signbit(got), code >= f.codes) << f.name << " code " << code;
    }
    for (std::size_t v = 0; v < list.size(); ++v) {
      ASSERT_EQ(narrow[4 * v + static_cast<std::size_t>(i)], static_cast<unsigned>(expected_code(f, list[v])))
          << f.name << " of " << list[v] << " (" << std::bit_cast<std::uint32_t>(list[v]) << ")";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(WarpSizes, HostConversions, testing::Values(32u, 64u));

}  // namespace
}  // namespace quern::host_tests
