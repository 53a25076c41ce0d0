// Expressions of chat templates, read once into functions of the variables.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bindings/engine/text/template_value.h"

namespace quern::engine {

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
