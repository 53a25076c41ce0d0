// SPDX-License-Identifier: Apache-2.0
#include "sources/copy/fill.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace quern::ops::copy {
namespace {

// A number of fewer bits, rounded to nearest even; too large becomes infinity, or with `saturate` the largest.
std::uint64_t float_bits(double value, int exponent_bits, int mantissa_bits, bool saturate, std::uint64_t largest) {
  const std::uint64_t sign = std::signbit(value) ? std::uint64_t{1} << (exponent_bits + mantissa_bits) : 0;
  if (std::isnan(value)) return saturate ? 0x7f : (std::uint64_t{1} << (exponent_bits + mantissa_bits)) - 1;
  const int bias = (1 << (exponent_bits - 1)) - 1, least = 1 - bias;
  const double magnitude = std::fabs(value);
  std::uint64_t code = 0;
  if (std::isinf(magnitude)) {
    code = largest + 1;
  } else if (magnitude > 0) {
    const int exponent = std::max(std::ilogb(magnitude), least);
    if (exponent > bias + 1) {
      code = largest + 1;
    } else {
      const auto units = static_cast<std::uint64_t>(std::nearbyint(std::ldexp(magnitude, mantissa_bits - exponent)));
      code = (static_cast<std::uint64_t>(exponent - least) << mantissa_bits) + units;
    }
  }
  if (code > largest) code = saturate ? largest : largest + 1;
  return sign | code;
}

std::int64_t whole_of(double value, std::int64_t least, std::int64_t most) {
  if (std::isnan(value)) return 0;
  if (value <= static_cast<double>(least)) return least;
  return value >= static_cast<double>(most) ? most : static_cast<std::int64_t>(value);
}

}  // namespace

std::uint64_t fill_bits(double value, Dtype dtype) {
  switch (dtype) {
    case Dtype::f32:
      return std::bit_cast<std::uint32_t>(static_cast<float>(value));
    case Dtype::f16:
      return float_bits(value, 5, 10, false, 0x7bff);
    case Dtype::bf16:
      return float_bits(value, 8, 7, false, 0x7f7f);
    case Dtype::e4m3:
      return float_bits(value, 4, 3, true, 0x7e);
    case Dtype::e5m2:
      return float_bits(value, 5, 2, true, 0x7b);
    case Dtype::i8:
      return static_cast<std::uint8_t>(whole_of(value, INT8_MIN, INT8_MAX));
    case Dtype::u8:
      return static_cast<std::uint8_t>(whole_of(value, 0, UINT8_MAX));
    case Dtype::i16:
      return static_cast<std::uint16_t>(whole_of(value, INT16_MIN, INT16_MAX));
    case Dtype::i32:
      return static_cast<std::uint32_t>(whole_of(value, INT32_MIN, INT32_MAX));
    case Dtype::i64:
      return static_cast<std::uint64_t>(whole_of(value, INT64_MIN, INT64_MAX));
    case Dtype::boolean:
      return value != 0 ? 1 : 0;
    case Dtype::other:
      break;
  }
  if (value != 0) refuse_value("fill", value, "0, where outputs are of a type that is copied only");
  return 0;
}

}  // namespace quern::ops::copy
