// SPDX-License-Identifier: Apache-2.0
#include "bindings/engine/text/template_expression.h"

#include <algorithm>
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
  const int count = arguments_of_test(wanted);
  if (count < 0) fail("there is no test " + wanted);
  ArgumentList list;
  if (accept("(")) {
    list = arguments();
  } else if (count > 0) {
    list.values.push_back(postfix(primary(), false));
  }
  if (list.values.size() != static_cast<std::size_t>(count))
    fail("the test " + wanted + " takes " + std::to_string(count) + " arguments");
  return [tested = std::move(tested), negated, wanted, given = evaluated(std::move(list))](Scope& scope) {
    const Value value = tested(scope);
    return value_of(passes_test(value, wanted, given(scope)) != negated);
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
  // Filters are of what has been negated.
  Expression value = postfix(primary(), !negative);
  if (!negative) return value;
  return postfix([value](Scope& scope) { return calculate('-', value_of(0), value(scope), scope); }, true);
}

// What stands behind a value: fields, indices, calls of methods, and filters where they are its own.
Expression ExpressionReader::postfix(Expression value, bool filters) {
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
    } else if (filters && accept("|")) {
      const std::string filter = name();
      ArgumentList list;
      if (accept("(")) list = arguments();
      value = [value = std::move(value), filter, given = evaluated(std::move(list))](Scope& scope) {
        const Value to = value(scope);
        Value result = apply_filter(to, filter, given(scope), scope);
        scope.charge(result == nullptr || result == to ? 0 : weight_of(*result));
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

// Behind a backslash, as Python has it.
std::string ExpressionReader::escaped() {
  const char c = text_[at_++];
  const std::size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
  if (digits == 0) {
    constexpr std::string_view kLetters = "abfnrtv0", kBytes("\a\b\f\n\r\t\v\0", 8);
    const std::size_t at = kLetters.find(c);
    if (at != std::string_view::npos) return {kBytes[at]};
    return c == '\'' || c == '"' || c == '\\' ? std::string{c} : c == '\n' ? std::string() : std::string{'\\', c};
  }
  std::uint32_t point = 0;
  const char* const begin = text_.data() + at_;
  const auto [end, failure] = std::from_chars(begin, begin + std::min(digits, text_.size() - at_), point, 16);
  if (failure != std::errc{} || end != begin + digits || point > 0x10ffff)
    fail("a character's number in a text has not " + std::to_string(digits) + " digits");
  at_ += digits;
  const auto byte = [](std::uint32_t bits) { return static_cast<char>(bits); };
  if (point < 0x80) return {byte(point)};
  if (point < 0x800) return {byte(0xc0 | point >> 6), byte(0x80 | (point & 0x3f))};
  if (point < 0x10000) return {byte(0xe0 | point >> 12), byte(0x80 | (point >> 6 & 0x3f)), byte(0x80 | (point & 0x3f))};
  return {byte(0xf0 | point >> 18), byte(0x80 | (point >> 12 & 0x3f)), byte(0x80 | (point >> 6 & 0x3f)),
          byte(0x80 | (point & 0x3f))};
}

std::string ExpressionReader::string(char quote) {
  std::string text;
  while (at_ < text_.size() && text_[at_] != quote) {
    char c = text_[at_++];
    if (c == '\\' && at_ < text_.size()) {
      text += escaped();
      continue;
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
    if (accept(")")) return list(")", {});
    Expression inner = whole();
    if (accept(",")) return list(")", {std::move(inner)});
    expect(")");
    return inner;
  }
  if (c == '\'' || c == '"') {
    ++at_;
    std::string text = string(c);
    for (skip(); at_ < text_.size() && (text_[at_] == '\'' || text_[at_] == '"'); skip()) {  // texts in a row are one
      const char quote = text_[at_++];
      text += string(quote);
    }
    return constant(text);
  }
  if (std::isdigit(static_cast<unsigned char>(c)) != 0) {
    double number = 0.0;
    const auto [end, failure] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), number);
    if (failure != std::errc{}) fail("there is no such number");
    at_ = static_cast<std::size_t>(end - text_.data());
    return constant(*number_of(number));
  }
  if (accept("[")) return list("]", {});
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
  if (accept("(")) return call(named);
  return [named](Scope& scope) {
    scope.charge(0);
    return scope.find(named);
  };
}

// Behind its opening bracket: a function, or one that the template defines.
Expression ExpressionReader::call(const std::string& named) {
  return [named, given = evaluated(arguments())](Scope& scope) {
    scope.charge(0);
    const Arguments arguments = given(scope);
    const Macro* const macro = scope.macro(named);
    if (macro == nullptr) return call_function(named, arguments);
    std::string text = (*macro)(scope, arguments);
    scope.charge(text.size());
    return value_of(std::move(text));
  };
}

// The rest of a list, up to its end; one that cannot be changed is as good.
Expression ExpressionReader::list(const char* end, std::vector<Expression> items) {
  while (!accept(end)) {
    items.push_back(whole());
    if (!accept(",") && !text_.substr(at_).starts_with(end)) fail(std::string("',' or '") + end + "' is wanted");
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

std::vector<std::pair<std::string, Expression>> ExpressionReader::parameters() {
  std::vector<std::pair<std::string, Expression>> all;
  expect("(");
  while (!accept(")")) {
    std::string parameter = name();
    all.emplace_back(std::move(parameter), accept("=") ? whole() : Expression());
    if (!accept(",") && !text_.substr(at_).starts_with(")")) fail("',' or ')' is wanted");
  }
  return all;
}

}  // namespace quern::engine
