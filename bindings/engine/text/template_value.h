// Values of chat templates, and what operators make of them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bindings/json/json.h"

namespace quern::engine {

// Shared, and so cheap to hand on; null: undefined.
using Value = std::shared_ptr<const Json>;

Value value_of(Json json);
bool is_true(const Value& value);
// As it is written into the prompt.
std::string text_of(const Value& value);

// The variables, those of the innermost loop first, and what a run may still cost. A template may come from anywhere.
class Scope {
 public:
  using Frame = std::map<std::string, Value, std::less<>>;
  explicit Scope(Frame variables) { frames_.push_back(std::move(variables)); }

  Value find(std::string_view name) const;
  void set(const std::string& name, Value value) { frames_.back()[name] = std::move(value); }
  // A field of a namespace, wherever that was made.
  void set_field(const std::string& name, const std::string& field, const Value& value);
  void enter() { frames_.emplace_back(); }
  void leave() { frames_.pop_back(); }
  // Throws std::runtime_error where a run has become too long. `bytes`: what a step makes.
  void charge(std::size_t bytes);

 private:
  std::vector<Frame> frames_;
  std::size_t steps_ = 0, bytes_ = 0;
};

// What operators do. Each throws std::runtime_error where values are not of its kind.
Value number_of(double value);
bool are_equal(const Value& a, const Value& b);
bool is_less(const Value& a, const Value& b);
bool is_in(const Value& item, const Value& in);
// '+', '-', '*', '/', '%', and '~', which joins texts.
Value calculate(char what, const Value& a, const Value& b, Scope& scope);
Value item_of(const Value& of, const Value& index);
// of[from:to:by], as Python's; null: left out.
Value slice_of(const Value& of, const Value& from, const Value& to, const Value& by);
// Values are copied and freed one within the other: throws where they lie in each other more than 16 deep.
Json not_too_deep(Json json);

}  // namespace quern::engine
