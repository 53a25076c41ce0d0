// A pointwise formula's value in double precision.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>

#include "sources/expression/tree.h"
#include "sources/tensor.h"

namespace quern::ops::verify {

// What a formula reads for one element of a result.
struct Leaves {
  double acc = 0, gate = 0, up = 0;
  std::function<double(int operand)> operand;
  std::array<double, expression::kScalars> scalars{};
  std::array<std::int64_t, expression::kDimensions + 1> indices{};  // the last is `place`
};

// As pointwise and copy store a number: 8 bits saturate, integers are cut towards 0 and saturate, NaN becomes 0 there.
double as_stored(double value, Dtype dtype);

class Formula {
 public:
  // Throws Error(QUERN_INVALID).
  explicit Formula(const std::string& text) : tree_(expression::parse(text)) {}

  double at(const Leaves& leaves) const;
  // What its functions may cost of a result's root mean square: more where something in it is rounded to fewer bits.
  double slack() const;

 private:
  // A truth value is an integer, 0 or 1; an integer's value is in `whole`.
  struct Value {
    double number = 0;
    std::int64_t whole = 0;
    bool is_whole = false;
    double real() const { return is_whole ? static_cast<double>(whole) : number; }
  };
  Value of(const expression::Node& node, const Leaves& leaves) const;
  Value operation(std::string_view symbol, Value a, Value b) const;
  Value function(std::string_view name, const std::array<Value, 3>& given) const;

  expression::Tree tree_;
};

}  // namespace quern::ops::verify
