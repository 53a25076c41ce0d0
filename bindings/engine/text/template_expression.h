// Expressions of chat templates, read once into functions of the variables.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bindings/engine/text/template_value.h"

namespace quern::engine {

using Expression = std::function<Value(Scope&)>;

// Reads the inside of a {{ }} or a {% %}. Throws std::runtime_error, without the line.
class ExpressionReader {
 public:
  explicit ExpressionReader(std::string_view text) : text_(text) {}

  // a if b else c
  Expression whole();
  // Without that: what a for goes through, where `if` means something else.
  Expression disjunction();
  // The names in brackets behind a macro's, each with what it is where it is not given; empty: undefined.
  std::vector<std::pair<std::string, Expression>> parameters();
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
  Expression postfix(Expression value, bool filters);
  Expression primary();
  Expression call(const std::string& named);
  Expression list(const char* end, std::vector<Expression> items);
  Expression subscript(Expression of);
  ArgumentList arguments();
  static std::function<Arguments(Scope&)> evaluated(ArgumentList list);
  std::string string(char quote);
  std::string escaped();
  void skip();
  void count();
  void expect(std::string_view wanted);
  [[noreturn]] void fail(const std::string& what) const;

  std::string_view text_;
  std::size_t at_ = 0;
  int depth_ = 0, operations_ = 0;
};

// template_calls.cpp: functions and methods by name; template_filters.cpp: filters and tests. Each throws
// std::runtime_error where there is none.
Value call_function(const std::string& name, const Arguments& arguments);
Value call_method(const Value& of, const std::string& name, const Arguments& arguments);
Value apply_filter(const Value& to, const std::string& name, const Arguments& arguments, Scope& scope);
bool passes_test(const Value& value, const std::string& name, const Arguments& arguments);
// How many arguments the test of this name takes; -1 where there is none.
int arguments_of_test(const std::string& name);

}  // namespace quern::engine
