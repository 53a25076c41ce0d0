// SPDX-License-Identifier: Apache-2.0
#include "bindings/engine/text/template_expression.h"

#include <cctype>
#include <charconv>
#include <cmath>
#include <stdexcept>

namespace quern::engine {
namespace {

constexpr int kMostNested = 64;        // of a template's brackets
constexpr int kMostOperations = 2000;  // of an expression: each lies within the next

bool is_letter(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

}  // namespace

void ExpressionReader::fail(const std::string& what) const { throw std::runtime_error(what); }

void ExpressionReader::count() {
  if (++operations_ > kMostOperations) fail("an expression has more than 2000 operations");
}

void ExpressionReader::skip() {
  while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_])) != 0) ++at_;
}

bool ExpressionReader::accept(std::string_view wanted) {
  skip();
  if (!text_.substr(at_).starts_with(wanted)) return false;
  const std::size_t end = at_ + wanted.size();
  if (is_letter(wanted.back()) && end < text_.size() && is_letter(text_[end])) return false;
  at_ = end;
  return true;
}

void ExpressionReader::expect(std::string_view wanted) {
  if (!accept(wanted))
    fail("'" + std::string(wanted) + "' is wanted in front of '" + std::string(text_.substr(at_, 20)) + "'");
}

std::string ExpressionReader::name() {
  skip();
  const std::size_t begin = at_;
  while (at_ < text_.size() && is_letter(text_[at_])) ++at_;
  if (begin == at_ || std::isdigit(static_cast<unsigned char>(text_[begin])) != 0)
    fail("a name is wanted in front of '" + std::string(text_.substr(begin, 20)) + "'");
  return std::string(text_.substr(begin, at_ - begin));
}

void ExpressionReader::finish() {
  skip();
  if (at_ < text_.size()) fail("'" + std::string(text_.substr(at_, 20)) + "' is not known here");
}

Expression ExpressionReader::whole() {
  if (++depth_ > kMostNested) fail("brackets lie in each other more than 64 deep");
  Expression then = disjunction();
  if (accept("if")) {
    Expression condition = disjunction();
    Expression otherwise = accept("else") ? whole() : [](Scope&) -> Value { return nullptr; };
    then = [then, condition, otherwise](Scope& scope) {
      return is_true(condition(scope)) ? then(scope) : otherwise(scope);
    };
  }
  --depth_;
  return then;
}

Expression ExpressionReader::disjunction() {
  Expression left = conjunction();
  while (accept("or")) {
    count();
    left = [left = std::move(left), right = conjunction()](Scope& scope) {
      Value value = left(scope);
      return is_true(value) ? value : right(scope);
    };
  }
  return left;
}

Expression ExpressionReader::conjunction() {
  Expression left = negation();
  while (accept("and")) {
    count();
    left = [left = std::move(left), right = negation()](Scope& scope) {
      Value value = left(scope);
      return is_true(value) ? right(scope) : value;
    };
  }
  return left;
}

Expression ExpressionReader::negation() {
  bool negated = false, any = false;
  while (accept("not")) negated = !negated, any = true;
  Expression value = comparison();
  if (!any) return value;
  return [value, negated](Scope& scope) { return value_of(is_true(value(scope)) != negated); };
}

Expression ExpressionReader::comparison() {
  using Compare = bool (*)(const Value&, const Value&);
  static constexpr std::pair<const char*, Compare> kCompares[] = {
      {"==", are_equal},
      {"!=", [](const Value& a, const Value& b) { return !are_equal(a, b); }},
      {"<=", [](const Value& a, const Value& b) { return !is_less(b, a); }},
      {">=", [](const Value& a, const Value& b) { return !is_less(a, b); }},
      {"<", is_less},
      {">", [](const Value& a, const Value& b) { return is_less(b, a); }},
      {"in", is_in}};
  Expression left = sum();
  for (;;) {
    count();
    if (accept("is")) {
      left = test(std::move(left));
      continue;
    }
    Compare compare = nullptr;
    const std::size_t before = at_;
    if (accept("not")) {
      if (!accept("in")) {
        at_ = before;
        return left;
      }
      compare = [](const Value& a, const Value& b) { return !is_in(a, b); };
    }
    for (const auto& [sign, each] : kCompares) {
      if (compare == nullptr && accept(sign)) compare = each;
    }
    if (compare == nullptr) return left;
    left = [left = std::move(left), compare, right = sum()](Scope& scope) {
      const Value a = left(scope);
      return value_of(compare(a, right(scope)));
    };
  }
}

Expression ExpressionReader::test(Expression tested) {
  const bool negated = accept("not");
  const std::string wanted = name();
  passes_test(value_of(Json()), wanted);  // throws where there is none of this name
  return [tested = std::move(tested), negated, wanted](Scope& scope) {
    return value_of(passes_test(tested(scope), wanted) != negated);
  };
}

Expression ExpressionReader::sum() {
  Expression left = product();
  for (;;) {
    count();
    const char what = accept("+") ? '+' : accept("-") ? '-' : accept("~") ? '~' : '\0';
    if (what == '\0') return left;
    left = [left = std::move(left), what, right = product()](Scope& scope) {
      const Value a = left(scope);
      return calculate(what, a, right(scope), scope);
    };
  }
}

Expression ExpressionReader::product() {
  Expression left = unary();
  for (;;) {
    count();
    const bool floor = accept("//");
    const char what = floor || accept("/") ? '/' : accept("*") ? '*' : accept("%") ? '%' : '\0';
    if (what == '\0') return left;
    left = [left = std::move(left), what, floor, right = unary()](Scope& scope) {
      const Value a = left(scope), result = calculate(what, a, right(scope), scope);
      return floor ? number_of(std::floor(result->number())) : result;
    };
  }
}

Expression ExpressionReader::unary() {
  bool negative = false;
  while (accept("-")) negative = !negative;
  Expression value = postfix();
  if (!negative) return value;
  return [value](Scope& scope) { return calculate('-', value_of(0), value(scope), scope); };
}

Expression ExpressionReader::postfix() {
  Expression value = primary();
  for (;;) {
    count();
    if (accept(".")) {
      const std::string member = name();
      if (accept("(")) {
        value = [value = std::move(value), member, given = evaluated(arguments())](Scope& scope) {
          const Value of = value(scope);
          Value result = call_method(of, member, given(scope));
          scope.charge(result != nullptr && result->is_string() ? result->string().size() : 0);
          return result;
        };
      } else {
        value = [value = std::move(value), index = value_of(member)](Scope& scope) {
          return item_of(value(scope), index);
        };
      }
    } else if (accept("[")) {
      value = subscript(std::move(value));
    } else if (accept("|")) {
      const std::string filter = name();
      ArgumentList list;
      if (accept("(")) list = arguments();
      value = [value = std::move(value), filter, given = evaluated(std::move(list))](Scope& scope) {
        const Value to = value(scope);
        Value result = apply_filter(to, filter, given(scope));
        scope.charge(result != nullptr && result->is_string() ? result->string().size() : 0);
        return result;
      };
    } else {
      return value;
    }
  }
}

Expression ExpressionReader::subscript(Expression of) {
  Expression parts[3];
  int part = 0;
  bool slice = false;
  while (!accept("]")) {
    if (accept(":")) {
      slice = true;
      if (++part > 2) fail("a slice has more than three parts");
    } else {
      if (parts[part] != nullptr) fail("']' is wanted");
      parts[part] = whole();
    }
  }
  if (!slice && parts[0] == nullptr) fail("an index is wanted");
  if (!slice) return [of = std::move(of), index = parts[0]](Scope& scope) { return item_of(of(scope), index(scope)); };
  return [of = std::move(of), from = parts[0], to = parts[1], by = parts[2]](Scope& scope) {
    const auto given = [&](const Expression& each) { return each == nullptr ? nullptr : each(scope); };
    Value result = slice_of(of(scope), given(from), given(to), given(by));
    scope.charge(result->is_string() ? result->string().size() : result->items().size() * sizeof(Json));
    return result;
  };
}

// Behind its opening bracket.
ExpressionReader::ArgumentList ExpressionReader::arguments() {
  ArgumentList list;
  while (!accept(")")) {
    const std::size_t before = at_;
    skip();
    if (at_ < text_.size() && is_letter(text_[at_]) && std::isdigit(static_cast<unsigned char>(text_[at_])) == 0) {
      std::string named = name();
      skip();
      if (text_.substr(at_).starts_with("=") && !text_.substr(at_).starts_with("==")) {
        ++at_;
        list.named.emplace_back(std::move(named), whole());
        if (!accept(",") && !text_.substr(at_).starts_with(")")) fail("',' or ')' is wanted");
        continue;
      }
    }
    at_ = before;
    list.values.push_back(whole());
    if (!accept(",") && !text_.substr(at_).starts_with(")")) fail("',' or ')' is wanted");
  }
  return list;
}

std::function<Arguments(Scope&)> ExpressionReader::evaluated(ArgumentList list) {
  return [list = std::move(list)](Scope& scope) {
    Arguments arguments;
    for (const Expression& each : list.values) arguments.values.push_back(each(scope));
    for (const auto& [name, each] : list.named) arguments.named[name] = each(scope);
    return arguments;
  };
}

std::string ExpressionReader::string(char quote) {
  std::string text;
  while (at_ < text_.size() && text_[at_] != quote) {
    char c = text_[at_++];
    if (c == '\\' && at_ < text_.size()) {
      c = text_[at_++];
      c = c == 'n' ? '\n' : c == 't' ? '\t' : c == 'r' ? '\r' : c;
    }
    text += c;
  }
  if (at_ == text_.size()) fail("a text has no end");
  ++at_;
  return text;
}

Expression ExpressionReader::primary() {
  skip();
  if (at_ == text_.size()) fail("a value is wanted");
  const char c = text_[at_];
  const auto constant = [](Json json) -> Expression {
    return [value = value_of(std::move(json))](Scope& scope) {
      scope.charge(0);
      return value;
    };
  };
  if (accept("(")) {
    Expression inner = whole();
    expect(")");
    return inner;
  }
  if (c == '\'' || c == '"') {
    ++at_;
    return constant(string(c));
  }
  if (std::isdigit(static_cast<unsigned char>(c)) != 0) {
    double number = 0.0;
    const auto [end, failure] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), number);
    if (failure != std::errc{}) fail("there is no such number");
    at_ = static_cast<std::size_t>(end - text_.data());
    return constant(*number_of(number));
  }
  if (accept("[")) {
    std::vector<Expression> items;
    while (!accept("]")) {
      items.push_back(whole());
      if (!accept(",") && !text_.substr(at_).starts_with("]")) fail("',' or ']' is wanted");
    }
    return [items](Scope& scope) {
      std::vector<Json> values;
      for (const Expression& item : items) {
        const Value value = item(scope);
        values.push_back(value == nullptr ? Json() : *value);
      }
      scope.charge(values.size() * sizeof(Json));
      return value_of(not_too_deep(Json::array(std::move(values))));
    };
  }
  if (accept("{")) {
    std::vector<std::pair<Expression, Expression>> members;
    while (!accept("}")) {
      Expression key = whole();
      expect(":");
      members.emplace_back(std::move(key), whole());
      if (!accept(",") && !text_.substr(at_).starts_with("}")) fail("',' or '}' is wanted");
    }
    return [members](Scope& scope) {
      Json object = Json::object();
      for (const auto& [key, each] : members) {
        const Value value = each(scope);
        object[text_of(key(scope))] = value == nullptr ? Json() : *value;
      }
      scope.charge(members.size() * sizeof(Json));
      return value_of(not_too_deep(std::move(object)));
    };
  }
  for (const auto& [word, json] : {std::pair{"true", Json(true)},
                                   {"True", Json(true)},
                                   {"false", Json(false)},
                                   {"False", Json(false)},
                                   {"none", Json()},
                                   {"None", Json()}}) {
    if (accept(word)) return constant(json);
  }
  const std::string named = name();
  if (accept("(")) {
    return [named, given = evaluated(arguments())](Scope& scope) {
      scope.charge(0);
      return call_function(named, given(scope));
    };
  }
  return [named](Scope& scope) {
    scope.charge(0);
    return scope.find(named);
  };
}

}  // namespace quern::engine
