// SPDX-License-Identifier: Apache-2.0
#include "bindings/engine/template_expression.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <stdexcept>

namespace quern::engine {
namespace {

constexpr int kMostNested = 64;        // of a template's brackets
constexpr int kMostOperations = 2000;  // of an expression: each lies within the next
constexpr int kMostDeep = 16;          // of values in values
constexpr std::size_t kMostSteps = 1'000'000, kMostBytes = 64u << 20;

int depth_of(const Json& json) {
  int depth = 0;
  if (json.is_array()) {
    for (const Json& item : json.items()) depth = std::max(depth, depth_of(item));
  } else if (json.is_object()) {
    for (const Json::Member& member : json.members()) depth = std::max(depth, depth_of(member.value));
  } else {
    return 0;
  }
  return depth + 1;
}
// Values are copied and freed one within the other.
Json not_too_deep(Json json) {
  if (depth_of(json) > kMostDeep) throw std::runtime_error("values lie in each other more than 16 deep");
  return json;
}

std::int64_t whole_of(const Value& value) {
  if (value == nullptr || !value->is_number()) throw std::runtime_error("a whole number is wanted");
  const double number = value->number();
  if (std::floor(number) != number || std::abs(number) > 1e15) throw std::runtime_error("a whole number is wanted");
  return static_cast<std::int64_t>(number);
}

bool are_equal(const Value& a, const Value& b) { return a == nullptr || b == nullptr ? a == b : *a == *b; }

bool is_in(const Value& item, const Value& in) {
  if (item == nullptr || in == nullptr) throw std::runtime_error("`in` is asked of something undefined");
  if (in->is_string()) return in->string().find(item->string()) != std::string::npos;
  if (in->is_object()) return in->find(item->string()) != nullptr;
  return std::find(in->items().begin(), in->items().end(), *item) != in->items().end();
}

bool is_less(const Value& a, const Value& b) {
  if (a == nullptr || b == nullptr) throw std::runtime_error("something undefined is compared");
  return a->is_string() ? a->string() < b->string() : a->number() < b->number();
}

Value number_of(double value) {
  if (std::floor(value) == value && std::abs(value) <= 1e15) return value_of(static_cast<std::int64_t>(value));
  return value_of(value);
}

Value calculate(char what, const Value& a, const Value& b, Scope& scope) {
  if (what == '~' || (what == '+' && a != nullptr && a->is_string())) {
    if (what == '+' && (b == nullptr || !b->is_string()))
      throw std::runtime_error("a text and something else are added");
    std::string text = text_of(a) + text_of(b);
    scope.charge(text.size());
    return value_of(std::move(text));
  }
  if (a == nullptr || b == nullptr) throw std::runtime_error("something undefined is calculated with");
  if (what == '+' && a->is_array()) {
    std::vector<Json> items = a->items();
    items.insert(items.end(), b->items().begin(), b->items().end());
    scope.charge(items.size() * sizeof(Json));
    return value_of(Json::array(std::move(items)));
  }
  const double x = a->number(), y = b->number();
  if ((what == '/' || what == '%') && y == 0.0) throw std::runtime_error("something is divided by 0");
  return number_of(what == '+'   ? x + y
                   : what == '-' ? x - y
                   : what == '*' ? x * y
                   : what == '/' ? x / y
                                 : x - y * std::floor(x / y));
}

Value item_of(const Value& of, const Value& index) {
  if (of == nullptr) throw std::runtime_error("something undefined has no members");
  if (index == nullptr) throw std::runtime_error("an index is undefined");
  if (of->is_object()) {
    const Json* found = of->find(index->string());
    return found == nullptr ? nullptr : Value(of, found);
  }
  if (index->is_string()) return nullptr;  // of no object: undefined, as in Jinja
  const auto size = static_cast<std::int64_t>(of->is_string() ? of->string().size() : of->items().size());
  std::int64_t at = whole_of(index);
  if (at < 0) at += size;
  if (at < 0 || at >= size) return nullptr;
  const auto place = static_cast<std::size_t>(at);
  return of->is_string() ? value_of(of->string().substr(place, 1)) : Value(of, &of->items()[place]);
}

// of[from:to:step], as Python's.
Value slice_of(const Value& of, const Value& from, const Value& to, const Value& by) {
  if (of == nullptr) throw std::runtime_error("something undefined has no members");
  const auto size = static_cast<std::int64_t>(of->is_string() ? of->string().size() : of->items().size());
  const std::int64_t step = by == nullptr ? 1 : whole_of(by);
  if (step == 0) throw std::runtime_error("a slice's step is 0");
  const std::int64_t least = step > 0 ? 0 : -1, most = step > 0 ? size : size - 1;
  const auto bound = [&](const Value& given, std::int64_t otherwise) {
    if (given == nullptr) return otherwise;
    const std::int64_t at = whole_of(given);
    return std::clamp(at < 0 ? at + size : at, least, most);
  };
  const std::int64_t begin = bound(from, step > 0 ? 0 : size - 1), end = bound(to, step > 0 ? size : -1);
  std::string text;
  std::vector<Json> items;
  for (std::int64_t i = begin; step > 0 ? i < end : i > end; i += step) {
    const auto at = static_cast<std::size_t>(i);
    if (of->is_string()) {
      text += of->string()[at];
    } else {
      items.push_back(of->items()[at]);
    }
  }
  return of->is_string() ? value_of(std::move(text)) : value_of(Json::array(std::move(items)));
}

bool is_letter(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

}  // namespace

Value value_of(Json json) { return std::make_shared<const Json>(std::move(json)); }

bool is_true(const Value& value) {
  if (value == nullptr || value->is_null()) return false;
  if (value->is_boolean()) return value->boolean();
  if (value->is_number()) return value->number() != 0.0;
  if (value->is_string()) return !value->string().empty();
  return value->is_array() ? !value->items().empty() : !value->members().empty();
}

std::string text_of(const Value& value) {
  if (value == nullptr) return "";
  if (value->is_string()) return value->string();
  if (value->is_null()) return "None";
  if (value->is_boolean()) return value->boolean() ? "True" : "False";
  if (!value->is_number()) throw std::runtime_error("a list or a mapping is written: join and tojson say how");
  return value->dump();
}

Value Scope::find(std::string_view name) const {
  for (auto frame = frames_.rbegin(); frame != frames_.rend(); ++frame) {
    if (const auto found = frame->find(name); found != frame->end()) return found->second;
  }
  return nullptr;
}

void Scope::set_field(const std::string& name, const std::string& field, const Value& value) {
  for (auto frame = frames_.rbegin(); frame != frames_.rend(); ++frame) {
    const auto found = frame->find(name);
    if (found == frame->end()) continue;
    if (found->second == nullptr || !found->second->is_object()) break;
    Json changed = *found->second;
    changed[field] = value == nullptr ? Json() : *value;
    found->second = value_of(not_too_deep(std::move(changed)));
    return;
  }
  throw std::runtime_error(name + " is no namespace");
}

void Scope::charge(std::size_t bytes) {
  bytes_ += bytes;
  if (++steps_ > kMostSteps) throw std::runtime_error("it takes more than 1000000 steps");
  if (bytes_ > kMostBytes) throw std::runtime_error("it makes more than 64 MiB of text");
}

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
