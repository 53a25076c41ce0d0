// Values of chat templates, and what operators make of them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
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

// What stands behind a name: positional arguments, and named ones.
struct Arguments {
  std::vector<Value> values;
  std::map<std::string, Value, std::less<>> named;
};

class Scope;
// What a template defines itself: called by its name it makes a text.
using Macro = std::function<std::string(Scope&, const Arguments&)>;

// The variables, those of the innermost loop first, and what a run may still cost. A template may come from anywhere.
class Scope {
 public:
  using Frame = std::map<std::string, Value, std::less<>>;
  explicit Scope(Frame variables) { frames_.push_back(std::move(variables)); }

  Value find(std::string_view name) const;
  void set(const std::string& name, Value value) { frames_.back()[name] = std::move(value); }
  // A field of a namespace, wherever that was made.
  void set_field(const std::string& name, const std::string& field, const Value& value);
  bool has_own(std::string_view name) const { return frames_.back().contains(name); }  // the innermost has
  void enter() { frames_.emplace_back(); }
  void leave() { frames_.pop_back(); }
  void define(const std::string& name, Macro macro) { macros_[name] = std::move(macro); }
  // Null where there is none.
  const Macro* macro(std::string_view name) const;
  // What run makes with these variables and the outermost ones: a macro does not see those where it is called. Throws
  // std::runtime_error where macros call each other without an end.
  std::string within(Frame variables, const std::function<std::string()>& run);
  // Throws std::runtime_error where a run has become too long. `bytes`: what a step makes.
  void charge(std::size_t bytes);

 private:
  std::vector<Frame> frames_;
  std::map<std::string, Macro, std::less<>> macros_;
  int calls_ = 0;                                                              // of macros within each other
  const char* bottom_ = static_cast<const char*>(__builtin_frame_address(0));  // of the stack
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
// A text cut into its characters, which are what it is indexed by.
std::vector<std::string> characters_of(const std::string& text);
// What a value takes, in bytes, about.
std::size_t weight_of(const Json& json);
// Values are copied and freed one within the other: throws where they lie in each other more than 16 deep.
Json not_too_deep(Json json);

}  // namespace quern::engine
