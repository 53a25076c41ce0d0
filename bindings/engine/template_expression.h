// Expressions of chat templates, read once into functions of the variables.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
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

using Expression = std::function<Value(Scope&)>;
// What stands behind a name: positional arguments, and named ones.
struct Arguments {
  std::vector<Value> values;
  std::map<std::string, Value, std::less<>> named;
};

// Reads the inside of a {{ }} or a {% %}. Throws std::runtime_error, without the line.
class ExpressionReader {
 public:
  explicit ExpressionReader(std::string_view text) : text_(text) {}

  // a if b else c
  Expression whole();
  // Without that: what a for goes through, where `if` means something else.
  Expression disjunction();
  // Takes a word or an operator where it is next.
  bool accept(std::string_view wanted);
  std::string name();
  void finish();

 private:
  struct ArgumentList {
    std::vector<Expression> values;
    std::vector<std::pair<std::string, Expression>> named;
  };
  Expression conjunction();
  Expression negation();
  Expression comparison();
  Expression test(Expression tested);
  Expression sum();
  Expression product();
  Expression unary();
  Expression postfix();
  Expression primary();
  Expression subscript(Expression of);
  ArgumentList arguments();
  static std::function<Arguments(Scope&)> evaluated(ArgumentList list);
  std::string string(char quote);
  void skip();
  void count();
  void expect(std::string_view wanted);
  [[noreturn]] void fail(const std::string& what) const;

  std::string_view text_;
  std::size_t at_ = 0;
  int depth_ = 0, operations_ = 0;
};

// template_calls.cpp: functions, methods, filters and tests by name. Each throws std::runtime_error where there is
// none.
Value call_function(const std::string& name, const Arguments& arguments);
Value call_method(const Value& of, const std::string& name, const Arguments& arguments);
Value apply_filter(const Value& to, const std::string& name, const Arguments& arguments);
bool passes_test(const Value& value, const std::string& name);

}  // namespace quern::engine
