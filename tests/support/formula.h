// Random formulas for the tests of expressions.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>

#include "sources/expression/tree.h"

namespace quern::ops::expression {

// How many functions, from the first on, are of numbers and smooth enough to be compared with f64: no casts.
inline constexpr std::size_t kOfNumbers = [] {
  std::size_t count = 0;
  while (kFunctions[count].name != "f16") ++count;
  return count;
}();

// A random formula with needless brackets and spaces, its numbers any of f32 up to `largest`. The seed is printed by
// whoever fails.
class FormulaWriter {
 public:
  explicit FormulaWriter(std::uint32_t seed, float largest = 3e38F) : random_(seed), largest_(largest) {}

  std::string number(int depth) {
    if (depth == 0 || one_in(5)) return space(leaf());
    switch (below(6)) {
      case 0:
        return space("-" + enclosed(number(depth - 1)));
      case 1: {
        const Function& function = kFunctions[below(kOfNumbers)];
        std::string text = std::string(function.name) + space("(");
        for (std::size_t i = 0; i < function.arguments; ++i) {
          text += i > 0 ? "," : "";
          text += function.name == kSelect && i == 0 ? truth(depth - 1) : number(depth - 1);
        }
        return space(text + ")");
      }
      default: {
        const char* const operators[] = {"+", "-", "*", "/"};
        return maybe(number(depth - 1)) + operators[below(4)] + maybe(number(depth - 1));
      }
    }
  }

 private:
  std::string truth(int depth) {
    if (depth <= 0 || one_in(2)) {
      const char* const operators[] = {"<", "<=", ">", ">=", "==", "!="};
      return enclosed(number(depth > 0 ? depth - 1 : 0) + operators[below(6)] + number(0));
    }
    if (one_in(3)) return space("!" + enclosed(truth(depth - 1)));
    return maybe(truth(depth - 1)) + (one_in(2) ? "&&" : "||") + maybe(truth(depth - 1));
  }
  std::string leaf() {
    switch (below(6)) {
      case 0: {
        const float value = std::bit_cast<float>(below(0x7f800000));
        char text[32];
        std::snprintf(text, sizeof(text), "%.*g", static_cast<int>(9 + below(4)), static_cast<double>(value));
        return std::strtof(text, nullptr) > largest_ || value < 1e-38F ? "1" : text;
      }
      case 1:
        return std::to_string(below(100));
      case 2:
        return "scalar" + std::to_string(below(8));
      case 3: {
        const std::uint32_t index = below(8);  // of one kind for good
        return std::string(kOperandKinds[index % 3].name) + std::to_string(index);
      }
      default:
        return std::string(kResults[below(3)].name);
    }
  }
  std::uint32_t below(std::size_t n) { return static_cast<std::uint32_t>(random_() % n); }
  bool one_in(std::uint32_t n) { return below(n) == 0; }
  std::string space(const std::string& text) { return one_in(4) ? " " + text + "\t" : text; }
  std::string enclosed(const std::string& text) { return "(" + text + ")"; }
  std::string maybe(const std::string& text) { return one_in(2) ? enclosed(text) : text; }

  std::mt19937 random_;
  float largest_;
};

}  // namespace quern::ops::expression
