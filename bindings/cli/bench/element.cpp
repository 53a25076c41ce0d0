// SPDX-License-Identifier: Apache-2.0
#include "bindings/cli/bench/element.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace quern::cli {
namespace {

struct Element {
  const char* name;
  DLDataType type;
  int mantissa = 0;  // bits; of floating-point types
  int bias = 0;
  double largest = 0;
};
constexpr Element kElements[] = {
    {"bf16", {kDLBfloat, 16, 1}, 7, 127, 3.3895e38},
    {"f16", {kDLFloat, 16, 1}, 10, 15, 65504},
    {"f32", {kDLFloat, 32, 1}, 23, 127, 3.4e38},
    {"e4m3", {kDLFloat8_e4m3fn, 8, 1}, 3, 7, 448},
    {"e5m2", {kDLFloat8_e5m2, 8, 1}, 2, 15, 57344},
    {"int8", {kDLInt, 8, 1}},
    {"uint8", {kDLUInt, 8, 1}},
    {"int32", {kDLInt, 32, 1}},
    {"uint32", {kDLUInt, 32, 1}},
    {"int64", {kDLInt, 64, 1}},
    {"bool", {kDLBool, 8, 1}},
};

const Element* find(DLDataType type) {
  for (const Element& element : kElements) {
    if (element.type.code == type.code && element.type.bits == type.bits) return &element;
  }
  return nullptr;
}

}  // namespace

std::optional<DLDataType> element_type(std::string_view name) {
  for (const Element& element : kElements) {
    if (element.name == name) return element.type;
  }
  return {};
}

std::string element_name(DLDataType type) {
  const Element* element = find(type);
  return element == nullptr ? "?" : element->name;
}

std::string known_elements() {
  std::string all;
  for (const Element& element : kElements) all += (all.empty() ? "" : ", ") + std::string(element.name);
  return all;
}

std::size_t element_size(std::string_view name) {
  const std::optional<DLDataType> type = element_type(name);
  return type ? type->bits / 8U : 0;
}

bool is_float(DLDataType type) {
  const Element* element = find(type);
  return element != nullptr && element->mantissa != 0;
}

std::uint32_t encode(double value, DLDataType type) {
  const Element& element = *find(type);
  const std::uint32_t sign = std::signbit(value) ? 1U << (type.bits - 1) : 0;
  const double magnitude = std::min(std::fabs(value), element.largest);
  if (magnitude == 0) return sign;
  if (type.bits == 32) return sign | std::bit_cast<std::uint32_t>(static_cast<float>(magnitude));
  // Units in the last place: of the number's binade, but no finer than those of the smallest normal numbers.
  int exponent = 0;
  std::frexp(magnitude, &exponent);  // magnitude is in [2^(exponent-1), 2^exponent)
  exponent = std::max(exponent - 1, 1 - element.bias);
  const auto units = static_cast<std::uint32_t>(std::nearbyint(std::ldexp(magnitude, element.mantissa - exponent)));
  // A full mantissa carries into the exponent, as the encoding has it.
  return sign | (units + (static_cast<std::uint32_t>(exponent + element.bias - 1) << element.mantissa));
}

}  // namespace quern::cli
