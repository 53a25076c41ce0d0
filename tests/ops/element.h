// The element types of tensors as the tests see them: stored and loaded by conversions of their own.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <ostream>

#include "tests/ops/number.h"

namespace quern::test {

class Element {
 public:
  enum Kind : std::uint8_t { f16, bf16, f32, e4m3, e5m2, i8 };
  constexpr Element(Kind kind) : kind_(kind) {}  // NOLINT(google-explicit-constructor): an Element is its kind

  constexpr Kind kind() const { return kind_; }
  const char* name() const {
    constexpr const char* kNames[] = {"f16", "bf16", "f32", "e4m3", "e5m2", "int8"};
    return kNames[kind_];
  }
  DLDataType type() const {
    switch (kind_) {
      case f16:
      case bf16:
        return dtype_of(format());
      case f32:
        return kFloat32;
      case e4m3:
        return {kDLFloat8_e4m3fn, 8, 1};
      case i8:
        return {kDLInt, 8, 1};
      case e5m2:
        break;
    }
    return {kDLFloat8_e5m2, 8, 1};
  }
  constexpr std::size_t bytes() const { return kind_ == f32 ? 4 : kind_ == f16 || kind_ == bf16 ? 2 : 1; }
  constexpr bool is_fp8() const { return kind_ == e4m3 || kind_ == e5m2; }
  // Half the distance from 1 to the next number: what rounding costs, relative.
  double roundoff() const {
    constexpr int kBits[] = {10, 7, 23, 3, 2, 6};
    return std::ldexp(1.0, -kBits[kind_] - 1);
  }
  // The largest finite number.
  double largest() const {
    constexpr double kLargest[] = {65504.0, 3.3895313892515355e38, 3.4028234663852886e38, 448.0, 57344.0, 127.0};
    return kLargest[kind_];
  }

  // Rounds to nearest even. The 8-bit kinds saturate, infinities too, and keep NaN; of int8, which has none, it becomes 0.
  void store(void* to, double value) const {
    if (kind_ == i8) {
      const auto code = static_cast<std::int8_t>(std::isnan(value) ? 0.0 : std::nearbyint(std::clamp(value, -127.0, 127.0)));
      std::memcpy(to, &code, 1);
      return;
    }
    if (kind_ == f32) {
      const auto single = static_cast<float>(value);
      std::memcpy(to, &single, 4);
    } else if (is_fp8()) {
      const std::uint8_t bits = encode_fp8(value);
      std::memcpy(to, &bits, 1);
    } else {
      const std::uint16_t bits = encode(value, format());
      std::memcpy(to, &bits, 2);
    }
  }
  double load(const void* from) const {
    if (kind_ == i8) return *static_cast<const std::int8_t*>(from);
    if (kind_ == f32) {
      float single = 0;
      std::memcpy(&single, from, 4);
      return single;
    }
    if (is_fp8()) return decode_fp8(*static_cast<const std::uint8_t*>(from));
    std::uint16_t bits = 0;
    std::memcpy(&bits, from, 2);
    return decode(bits, format());
  }
  // What a value becomes by being stored and loaded.
  double rounded(double value) const {
    unsigned char memory[4];
    store(memory, value);
    return load(memory);
  }

 private:
  constexpr Format format() const { return kind_ == f16 ? Format::f16 : Format::bf16; }
  int mantissa() const { return kind_ == e4m3 ? 3 : 2; }
  int bias() const { return kind_ == e4m3 ? 7 : 15; }

  // OCP 8-bit floating point specification (OFP8), 2023: every code by its definition.
  double decode_fp8(std::uint8_t bits) const {
    const int m = mantissa(), exponent = (bits & 0x7f) >> m, fraction = bits & ((1 << m) - 1);
    double value = 0;
    if (kind_ == e4m3 ? (bits & 0x7f) == 0x7f : exponent == 31 && fraction != 0) {
      value = std::numeric_limits<double>::quiet_NaN();
    } else if (kind_ == e5m2 && exponent == 31) {
      value = std::numeric_limits<double>::infinity();
    } else if (exponent == 0) {
      value = std::ldexp(fraction, 1 - bias() - m);
    } else {
      value = std::ldexp(fraction + (1 << m), exponent - bias() - m);
    }
    return (bits & 0x80) != 0 ? -value : value;
  }
  std::uint8_t encode_fp8(double value) const {
    if (std::isnan(value)) return 0x7f;
    const std::uint8_t sign = std::signbit(value) ? 0x80 : 0;
    const int m = mantissa(), least = 1 - bias();
    const double magnitude = std::fmin(std::fabs(value), largest());
    if (magnitude == 0.0) return sign;
    const int exponent = std::max(std::ilogb(magnitude), least);
    const auto units = static_cast<int>(std::nearbyint(std::ldexp(magnitude, m - exponent)));
    return static_cast<std::uint8_t>(sign | (((exponent - least) << m) + units));
  }

  Kind kind_;
};

inline void PrintTo(const Element& element, std::ostream* out) { *out << element.name(); }

}  // namespace quern::test
