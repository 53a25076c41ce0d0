// Filters and tests that chat templates call by name.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "bindings/engine/text/template_expression.h"
#include "bindings/engine/text/template_text.h"

namespace quern::engine {
namespace {

// ---- Tests

bool is_whole(const Json& json) { return json.is_number() && json.dump().find_first_of(".eE") == std::string::npos; }
std::int64_t whole_of(const Value& value, const char* what) {
  if (value == nullptr || !is_whole(*value)) fail(std::string(what) + " is no whole number");
  return static_cast<std::int64_t>(value->number());
}

struct Test {
  std::string_view name;
  int arguments;
  bool (*passes)(const Value& value, const Value& by);
};
template <bool (Json::*kIs)() const>
bool is(const Value& value, const Value&) {
  return value != nullptr && (value.get()->*kIs)();
}
bool equals(const Value& a, const Value& b) { return are_equal(a, b); }
bool differs(const Value& a, const Value& b) { return !are_equal(a, b); }
bool less(const Value& a, const Value& b) { return is_less(a, b); }
bool greater(const Value& a, const Value& b) { return is_less(b, a); }
bool at_most(const Value& a, const Value& b) { return !is_less(b, a); }
bool at_least(const Value& a, const Value& b) { return !is_less(a, b); }
bool iterable(const Value& value, const Value&) {
  return value != nullptr && (value->is_array() || value->is_string() || value->is_object());
}

constexpr std::array<Test, 37> kTests{{
    {"defined", 0, [](const Value& v, const Value&) { return v != nullptr; }},
    {"undefined", 0, [](const Value& v, const Value&) { return v == nullptr; }},
    {"none", 0, is<&Json::is_null>},
    {"string", 0, is<&Json::is_string>},
    {"mapping", 0, is<&Json::is_object>},
    {"number", 0, is<&Json::is_number>},
    {"boolean", 0, is<&Json::is_boolean>},
    {"integer", 0, [](const Value& v, const Value&) { return v != nullptr && is_whole(*v); }},
    {"float", 0, [](const Value& v, const Value&) { return v != nullptr && v->is_number() && !is_whole(*v); }},
    {"true", 0, [](const Value& v, const Value&) { return v != nullptr && v->is_boolean() && v->boolean(); }},
    {"false", 0, [](const Value& v, const Value&) { return v != nullptr && v->is_boolean() && !v->boolean(); }},
    {"iterable", 0, iterable},
    {"sequence", 0, iterable},
    {"callable", 0, [](const Value&, const Value&) { return false; }},
    {"odd", 0, [](const Value& v, const Value&) { return whole_of(v, "what may be odd") % 2 != 0; }},
    {"even", 0, [](const Value& v, const Value&) { return whole_of(v, "what may be even") % 2 == 0; }},
    {"lower", 0, [](const Value& v, const Value&) { return text_of(v) == lower(text_of(v)); }},
    {"upper", 0, [](const Value& v, const Value&) { return text_of(v) == upper(text_of(v)); }},
    {"divisibleby", 1,
     [](const Value& v, const Value& by) {
       const std::int64_t divisor = whole_of(by, "a divisor");
       if (divisor == 0) fail("something is divided by 0");
       return whole_of(v, "what is divided") % divisor == 0;
     }},
    {"in", 1, is_in},
    {"sameas", 1, equals},
    {"equalto", 1, equals},
    {"eq", 1, equals},
    {"==", 1, equals},
    {"ne", 1, differs},
    {"!=", 1, differs},
    {"lt", 1, less},
    {"lessthan", 1, less},
    {"<", 1, less},
    {"gt", 1, greater},
    {"greaterthan", 1, greater},
    {">", 1, greater},
    {"le", 1, at_most},
    {"<=", 1, at_most},
    {"ge", 1, at_least},
    {">=", 1, at_least},
    {"escaped", 0, [](const Value&, const Value&) { return false; }},
}};

const Test* find_test(std::string_view name) {
  const auto found = std::find_if(kTests.begin(), kTests.end(), [&](const Test& each) { return each.name == name; });
  return found == kTests.end() ? nullptr : &*found;
}

// ---- Filters

// What is named or stands in the n-th place; null where it is not given.
Value argument(const Arguments& arguments, std::size_t n, const char* name) {
  if (const auto named = arguments.named.find(name); named != arguments.named.end()) return named->second;
  return n < arguments.values.size() ? arguments.values[n] : nullptr;
}

// What a filter goes through: items, a text's characters, an object's names; none where it is undefined.
std::vector<Value> elements(const Value& of, Scope& scope) {
  std::vector<Value> all;
  if (of == nullptr) return all;
  if (of->is_string()) {
    for (std::string& character : characters_of(of->string())) all.push_back(value_of(std::move(character)));
  } else if (of->is_object()) {
    for (const Json::Member& member : of->members()) all.push_back(value_of(member.name));
  } else {
    for (const Json& item : of->items()) all.emplace_back(of, &item);
  }
  scope.charge(all.size() * sizeof(Json));
  return all;
}
Value list_of(const std::vector<Value>& all) {
  std::vector<Json> items;
  items.reserve(all.size());
  for (const Value& each : all) items.push_back(each == nullptr ? Json() : *each);
  return value_of(not_too_deep(Json::array(std::move(items))));
}

// select, reject, selectattr, rejectattr: those that pass a test, which is truth where none is named.
Value selected(const Value& to, const std::string& name, const Arguments& arguments, Scope& scope) {
  const bool by_attribute = name.ends_with("attr"), wanted = name.starts_with("select");
  const std::size_t at = by_attribute ? 1 : 0;
  if (by_attribute && arguments.values.empty()) fail(name + " takes a field's name");
  std::string test;
  Arguments given;
  if (arguments.values.size() > at) {
    test = text_of(arguments.values[at]);
    given.values.assign(arguments.values.begin() + static_cast<std::ptrdiff_t>(at) + 1, arguments.values.end());
    const int count = arguments_of_test(test);
    if (count < 0) fail("there is no test " + test);
    if (given.values.size() != static_cast<std::size_t>(count))
      fail("the test " + test + " takes " + std::to_string(count) + " arguments");
  }
  std::vector<Value> kept;
  for (const Value& each : elements(to, scope)) {
    const Value value = by_attribute ? attribute_of(each, arguments.values[0]) : each;
    if ((test.empty() ? is_true(value) : passes_test(value, test, given)) == wanted) kept.push_back(each);
  }
  return list_of(kept);
}

// A field of each, or what another filter makes of each.
Value mapped(const Value& to, const Arguments& arguments, Scope& scope) {
  std::vector<Value> made;
  const auto attribute = arguments.named.find("attribute"), otherwise = arguments.named.find("default");
  if (attribute == arguments.named.end() && arguments.values.empty()) fail("map takes attribute, or a filter's name");
  Arguments rest = arguments;
  if (!rest.values.empty()) rest.values.erase(rest.values.begin());
  for (const Value& each : elements(to, scope)) {
    if (attribute == arguments.named.end()) {
      made.push_back(apply_filter(each, text_of(arguments.values[0]), rest, scope));
      continue;
    }
    Value value = attribute_of(each, attribute->second);
    if (value == nullptr && otherwise != arguments.named.end()) value = otherwise->second;
    made.push_back(std::move(value));
  }
  return list_of(made);
}

// Texts in any case unless it is said otherwise.
Value key_of(const Value& value, const Value& attribute, bool in_case) {
  const Value key = attribute == nullptr ? value : attribute_of(value, attribute);
  return key != nullptr && key->is_string() && !in_case ? value_of(lower(key->string())) : key;
}

Value sorted(const Value& to, const Value& reverse, const Value& in_case, const Value& attribute, Scope& scope) {
  std::vector<std::pair<Value, Value>> keyed;
  for (const Value& each : elements(to, scope)) keyed.emplace_back(key_of(each, attribute, is_true(in_case)), each);
  const bool backwards = is_true(reverse);
  std::stable_sort(keyed.begin(), keyed.end(), [&](const auto& a, const auto& b) {
    return backwards ? is_less(b.first, a.first) : is_less(a.first, b.first);
  });
  std::vector<Value> all;
  for (auto& [key, value] : keyed) all.push_back(std::move(value));
  return list_of(all);
}

// The first of each key.
Value unique(const Value& to, const Value& in_case, const Value& attribute, Scope& scope) {
  std::vector<Value> keys, kept;
  constexpr std::size_t kMostUnique = 4096;
  for (const Value& each : elements(to, scope)) {
    const Value key = key_of(each, attribute, is_true(in_case));
    if (std::any_of(keys.begin(), keys.end(), [&](const Value& other) { return are_equal(key, other); })) continue;
    keys.push_back(key), kept.push_back(each);
    if (keys.size() > kMostUnique) fail("unique leaves more than 4096 items");
  }
  return list_of(kept);
}

Value extreme(const Value& to, const std::string& name, const Value& attribute, Scope& scope) {
  Value best, best_key;
  for (const Value& each : elements(to, scope)) {
    const Value key = key_of(each, attribute, false);
    if (best == nullptr || (name == "min" ? is_less(key, best_key) : is_less(best_key, key)))
      best = each, best_key = key;
  }
  return best;
}

Value sum(const Value& to, const Value& attribute, Scope& scope) {
  double all = 0.0;
  for (const Value& each : elements(to, scope)) {
    const Value value = attribute == nullptr ? each : attribute_of(each, attribute);
    if (value == nullptr) fail("something undefined is added");
    all += value->number();
  }
  return number_of(all);
}

// A number of a text; what is none is `otherwise`, 0 where it is not given.
Value converted(const Value& to, const std::string& name, const Value& otherwise) {
  double number = 0.0;
  bool known = to != nullptr && (to->is_number() || to->is_boolean());
  if (known) {
    number = to->is_boolean() ? (to->boolean() ? 1.0 : 0.0) : to->number();
  } else if (to != nullptr && to->is_string()) {
    const std::string text = stripped(to->string(), kBlanks, true, true);
    const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
    known = failure == std::errc{} && end == text.data() + text.size() && std::isfinite(number);
  }
  if (!known && otherwise != nullptr) return otherwise;
  if (!known) number = 0.0;
  return name == "int" ? number_of(std::trunc(number)) : value_of(number);
}

Value rounded(const Value& to, const Value& places, const Value& method) {
  if (to == nullptr) fail("something undefined is given to the filter round");
  const std::int64_t precision = places == nullptr ? 0 : whole_of(places, "round's precision");
  if (precision < 0 || precision > 15) fail("round's precision is " + std::to_string(precision) + "; allowed: 0 to 15");
  const std::string how = method == nullptr ? "common" : text_of(method);
  const double by = std::pow(10.0, static_cast<double>(precision)), x = to->number();
  if (how == "ceil") return value_of(std::ceil(x * by) / by);
  if (how == "floor") return value_of(std::floor(x * by) / by);
  if (how != "common") fail("round's method is " + how + "; allowed: common, ceil, floor");
  // By its digits: a product with 100 would be rounded itself.
  char digits[400];
  std::snprintf(digits, sizeof digits, "%.*f", static_cast<int>(precision), x);
  return value_of(std::strtod(digits, nullptr));
}

// Lines behind the first one; empty ones stay empty.
Value indented(const std::string& text, const Value& width, const Value& first, const Value& blank) {
  const std::string by =
      width == nullptr     ? std::string(4, ' ')
      : width->is_string() ? width->string()
                           : std::string(static_cast<std::size_t>(std::min<std::uint64_t>(width->whole(), 1000)), ' ');
  std::string result;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const bool empty = end == at;
    if (at == 0 ? is_true(first) : !empty || is_true(blank)) result += by;
    result.append(text, at, end - at);
    if (end < text.size()) result += '\n';
    at = end + 1;
  }
  return value_of(std::move(result));
}

Value reversed(const Value& to, Scope& scope) {
  std::vector<Value> all = elements(to, scope);
  std::reverse(all.begin(), all.end());
  if (to == nullptr || !to->is_string()) return list_of(all);
  std::string text;
  for (const Value& each : all) text += each->string();
  return value_of(std::move(text));
}

Value sorted_items(const Value& to, const Arguments& arguments, Scope& scope) {
  const Value in_case = argument(arguments, 0, "case_sensitive"), by = argument(arguments, 1, "by"),
              reverse = argument(arguments, 2, "reverse");
  const std::string field = by == nullptr ? "key" : text_of(by);
  if (field != "key" && field != "value") fail("dictsort is by " + field + "; allowed: key, value");
  return sorted(items_of(*to), reverse, in_case, value_of(field == "key" ? 0 : 1), scope);
}

Value json_text(const Value& to, const Arguments& arguments) {
  for (const auto& [name, value] : arguments.named) {
    const bool known = name == "indent" || (name == "ensure_ascii" && !is_true(value));
    if (!known) fail("tojson is given " + name + "; allowed: indent, and ensure_ascii as false");
  }
  const Value indent = argument(arguments, 0, "indent");
  if (indent == nullptr || indent->is_null()) return value_of(json_of(*to, -1));
  return value_of(json_of(*to, static_cast<int>(std::min<std::uint64_t>(indent->whole(), 64))));
}

Value end_of(const Value& to, bool first, Scope& scope) {
  if (to != nullptr && to->is_array())
    return to->items().empty() ? nullptr : Value(to, first ? &to->items().front() : &to->items().back());
  const std::vector<Value> all = elements(to, scope);
  return all.empty() ? nullptr : first ? all.front() : all.back();
}

std::size_t size_of(const Value& of) {
  if (of == nullptr) return 0;
  if (of->is_string()) return characters_of(of->string()).size();
  return of->is_object() ? of->members().size() : of->items().size();
}

// Those that take something undefined, too; false where there is none of this name.
bool apply_lenient(const Value& to, const std::string& name, const Arguments& arguments, Scope& scope, Value* result) {
  const auto attribute = [&](std::size_t n) { return argument(arguments, n, "attribute"); };
  if (name == "default" || name == "d") {
    const bool falsy = is_true(argument(arguments, 1, "boolean"));
    const Value otherwise = argument(arguments, 0, "default_value");
    *result = (falsy ? is_true(to) : to != nullptr) ? to : otherwise == nullptr ? value_of("") : otherwise;
  } else if (name == "trim") {
    *result = value_of(stripped(text_of(to), text_at(arguments, 0, kBlanks), true, true));
  } else if (name == "string") {
    *result = value_of(text_of(to));
  } else if (name == "upper") {
    *result = value_of(upper(text_of(to)));
  } else if (name == "lower") {
    *result = value_of(lower(text_of(to)));
  } else if (name == "capitalize") {
    *result = value_of(capitalized(text_of(to)));
  } else if (name == "title") {
    *result = value_of(titled(
        text_of(to), [](char c) { return std::string_view(" \t\r\n\v\f-({[<").find(c) != std::string_view::npos; }));
  } else if (name == "select" || name == "reject" || name == "selectattr" || name == "rejectattr") {
    *result = selected(to, name, arguments, scope);
  } else if (name == "map") {
    *result = mapped(to, arguments, scope);
  } else if (name == "list") {
    *result = to != nullptr && to->is_array() ? to : list_of(elements(to, scope));
  } else if (name == "reverse") {
    *result = reversed(to, scope);
  } else if (name == "unique") {
    *result = unique(to, argument(arguments, 0, "case_sensitive"), attribute(1), scope);
  } else if (name == "sort") {
    *result =
        sorted(to, argument(arguments, 0, "reverse"), argument(arguments, 1, "case_sensitive"), attribute(2), scope);
  } else if (name == "min" || name == "max") {
    *result = extreme(to, name, attribute(1), scope);
  } else if (name == "sum") {
    *result = sum(to, attribute(0), scope);
  } else if (name == "int" || name == "float") {
    *result = converted(to, name, argument(arguments, 0, "default"));
  } else if (name == "join") {
    *result = joined(to, text_at(arguments, 0, ""), attribute(1));
  } else if (name == "first" || name == "last") {
    *result = end_of(to, name == "first", scope);
  } else if (name == "length" || name == "count") {
    *result = value_of(size_of(to));
  } else {
    return false;
  }
  return true;
}

}  // namespace

int arguments_of_test(const std::string& name) {
  const Test* const test = find_test(name);
  return test == nullptr ? -1 : test->arguments;
}

bool passes_test(const Value& value, const std::string& name, const Arguments& arguments) {
  const Test* const test = find_test(name);
  if (test == nullptr) fail("there is no test " + name);
  return test->passes(value, test->arguments > 0 ? arguments.values.at(0) : nullptr);
}

Value apply_filter(const Value& to, const std::string& name, const Arguments& arguments, Scope& scope) {
  Value result;
  if (apply_lenient(to, name, arguments, scope, &result)) return result;
  if (to == nullptr) fail("something undefined is given to the filter " + name);
  if (name == "tojson") return json_text(to, arguments);
  if (name == "safe") return to;
  if (name == "items") return items_of(*to);
  if (name == "dictsort") return sorted_items(to, arguments, scope);
  if (name == "replace") return value_of(replaced(to->string(), text_at(arguments, 0, ""), text_at(arguments, 1, "")));
  if (name == "abs") return number_of(std::abs(to->number()));
  if (name == "round") return rounded(to, argument(arguments, 0, "precision"), argument(arguments, 1, "method"));
  if (name == "indent")
    return indented(text_of(to), argument(arguments, 0, "width"), argument(arguments, 1, "first"),
                    argument(arguments, 2, "blank"));
  fail("there is no filter " + name);
}

}  // namespace quern::engine
