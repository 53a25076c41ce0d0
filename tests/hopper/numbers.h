// Whole numbers in the types of the products, small enough that every sum is exact.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace quern::hopper_tests {

inline std::size_t size_of(const std::string& type) { return type == "bf16" || type == "f16" ? 2 : 1; }

// From -2 to 2.
inline std::vector<int> small_numbers(std::size_t count, unsigned seed) {
  std::mt19937 generator(seed);
  std::vector<int> values(count);
  for (int& v : values) v = static_cast<int>(generator() % 5) - 2;
  return values;
}

inline std::vector<unsigned char> encode_all(const std::string& type, const std::vector<int>& values) {
  if (type == "i8") return {values.begin(), values.end()};
  const unsigned one = type == "bf16" ? 0x3f80 : type == "e4m3" ? 0x38 : type == "f16" ? 0x3c00 : 0x3c;
  const unsigned two = type == "bf16" || type == "f16" ? 0x4000 : 0x40;
  const std::size_t size = size_of(type);
  std::vector<unsigned char> bytes;
  for (const int value : values) {
    const unsigned magnitude = value == 0 ? 0 : value * value == 1 ? one : two;
    const unsigned code = magnitude | (value < 0 ? 0x80u << 8 * (size - 1) : 0);
    for (std::size_t i = 0; i < size; ++i) bytes.push_back(static_cast<unsigned char>(code >> 8 * i));
  }
  return bytes;
}

}  // namespace quern::hopper_tests
