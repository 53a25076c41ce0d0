// The two 16-bit floating-point formats as the tests see them: conversions of their own, independent of the kernels'.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>

#include "capi/quern.h"

namespace quern::test {

enum class Format { f16, bf16 };

inline const char* name_of(Format format) { return format == Format::f16 ? "f16" : "bf16"; }
inline DLDataType dtype_of(Format format) {
  return {static_cast<std::uint8_t>(format == Format::f16 ? kDLFloat : kDLBfloat), 16, 1};
}
inline constexpr DLDataType kInt32{kDLInt, 32, 1};
inline constexpr DLDataType kFloat32{kDLFloat, 32, 1};

// Not a number in either format, and not the one that a kernel would compute.
inline constexpr std::uint16_t kNan16 = 0xfff3;

// Explicit bits of the significand, and the exponent of the smallest normal number.
struct Precision {
  int bits;
  int least;
};
inline Precision precision_of(Format format) { return format == Format::f16 ? Precision{10, -14} : Precision{7, -126}; }
// Half the distance from 1 to the next number: what rounding costs, relative.
inline double unit_roundoff(Format format) { return std::ldexp(1.0, -precision_of(format).bits - 1); }

// Round to nearest even.
inline std::uint16_t encode(double value, Format format) {
  const Precision p = precision_of(format);
  const int bias = 1 - p.least;
  const auto sign = static_cast<std::uint16_t>(std::signbit(value) ? 0x8000 : 0);
  if (std::isnan(value)) return kNan16;
  const double magnitude = std::fabs(value);
  const auto infinite = static_cast<std::uint16_t>((2 * bias + 1) << p.bits);
  if (magnitude == 0.0) return sign;
  int exponent = std::isinf(magnitude) ? bias + 1 : std::ilogb(magnitude);
  if (exponent > bias) return sign | infinite;
  if (exponent < p.least) exponent = p.least;
  // A carry out of the significand runs into the exponent, as it should.
  const auto units = static_cast<long>(std::nearbyint(std::ldexp(magnitude, p.bits - exponent)));
  const long bits = ((static_cast<long>(exponent - p.least) << p.bits) + units);
  return static_cast<std::uint16_t>(sign | (bits > infinite ? infinite : bits));
}

inline double decode_slowly(std::uint16_t bits, Format format) {
  const Precision p = precision_of(format);
  const int field = (bits & 0x7fff) >> p.bits, bias = 1 - p.least;
  const int fraction = bits & ((1 << p.bits) - 1);
  double value = 0;
  if (field == 2 * bias + 1) {
    value = fraction != 0 ? std::numeric_limits<double>::quiet_NaN() : std::numeric_limits<double>::infinity();
  } else if (field == 0) {
    value = std::ldexp(fraction, p.least - p.bits);
  } else {
    value = std::ldexp(fraction + (1 << p.bits), p.least - p.bits + field - 1);
  }
  return (bits & 0x8000) != 0 ? -value : value;
}

// Every number of a format, by its bits.
inline const float* decode_table(Format format) {
  using Table = std::array<float, 65536>;
  const auto fill = [](Format of) {
    auto table = std::make_unique<Table>();
    for (std::size_t i = 0; i < table->size(); ++i)
      (*table)[i] = static_cast<float>(decode_slowly(static_cast<std::uint16_t>(i), of));
    return table;
  };
  static const std::unique_ptr<Table> f16 = fill(Format::f16), bf16 = fill(Format::bf16);
  return (format == Format::f16 ? f16 : bf16)->data();
}
inline float decode(std::uint16_t bits, Format format) { return decode_table(format)[bits]; }

}  // namespace quern::test
