// What chat templates call by name.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cctype>
#include <ctime>
#include <stdexcept>

#include "bindings/engine/text/template_expression.h"

namespace quern::engine {
namespace {

[[noreturn]] void fail(const std::string& what) { throw std::runtime_error(what); }

// The n-th argument as text; `otherwise` where there is none.
std::string text_at(const Arguments& arguments, std::size_t n, const std::string& otherwise) {
  return n < arguments.values.size() ? text_of(arguments.values[n]) : otherwise;
}

std::string stripped(const std::string& text, const std::string& of, bool left, bool right) {
  const std::size_t begin = left ? text.find_first_not_of(of) : 0;
  if (begin == std::string::npos) return "";
  const std::size_t end = right ? text.find_last_not_of(of) : text.size() - 1;
  return end == std::string::npos ? "" : text.substr(begin, end + 1 - begin);
}

template <int (*kConvert)(int)>
std::string converted(std::string text) {
  for (char& c : text) c = static_cast<char>(kConvert(static_cast<unsigned char>(c)));
  return text;
}

std::string replaced(const std::string& text, const std::string& from, const std::string& to) {
  if (from.empty()) fail("an empty text is replaced");
  std::string result;
  std::size_t at = 0;
  for (std::size_t found = 0; (found = text.find(from, at)) != std::string::npos; at = found + from.size())
    result.append(text, at, found - at).append(to);
  result.append(text, at);
  if (result.size() > 64u << 20) fail("it makes more than 64 MiB of text");
  return result;
}

Value split(const std::string& text, const std::string& by) {
  Json parts = Json::array();
  if (by.empty()) fail("a text is split at nothing");
  std::size_t at = 0;
  for (std::size_t found = 0; (found = text.find(by, at)) != std::string::npos; at = found + by.size())
    parts.push_back(text.substr(at, found - at));
  parts.push_back(text.substr(at));
  return value_of(std::move(parts));
}

Value items_of(const Json& object) {
  Json pairs = Json::array();
  for (const Json::Member& member : object.members()) pairs.push_back(Json::array({member.name, member.value}));
  return value_of(std::move(pairs));
}

// As Python's json writes it, on one line.
std::string json_of(const Json& json) {
  std::string text;
  if (json.is_array()) {
    for (const Json& item : json.items()) text += (text.empty() ? "" : ", ") + json_of(item);
    return "[" + text + "]";
  }
  if (!json.is_object()) return json.dump();
  for (const Json::Member& member : json.members())
    text += (text.empty() ? "" : ", ") + Json(member.name).dump() + ": " + json_of(member.value);
  return "{" + text + "}";
}

constexpr const char* kBlanks = " \t\n\r\v\f";

}  // namespace

Value call_function(const std::string& name, const Arguments& arguments) {
  if (name == "raise_exception") fail("it says: " + text_at(arguments, 0, ""));
  if (name == "namespace" || name == "dict") {
    Json fields = Json::object();
    for (const auto& [field, value] : arguments.named) fields[field] = value == nullptr ? Json() : *value;
    return value_of(std::move(fields));
  }
  if (name == "range") {
    double bounds[2] = {0.0, 0.0};
    if (arguments.values.empty() || arguments.values.size() > 2) fail("range takes one or two numbers");
    for (std::size_t i = 0; i < arguments.values.size(); ++i) {
      if (arguments.values[i] == nullptr) fail("range is given something undefined");
      bounds[i + 2 - arguments.values.size()] = arguments.values[i]->number();
    }
    if (bounds[1] - bounds[0] > 10000.0) fail("range has more than 10000 numbers");
    Json numbers = Json::array();
    for (double i = bounds[0]; i < bounds[1]; i += 1.0) numbers.push_back(static_cast<std::int64_t>(i));
    return value_of(std::move(numbers));
  }
  if (name == "strftime_now") {
    const std::time_t now = std::time(nullptr);
    std::tm local{};
    localtime_r(&now, &local);
    char text[128];
    return value_of(
        std::string(text, std::strftime(text, sizeof text, text_at(arguments, 0, "%d %b %Y").c_str(), &local)));
  }
  fail("there is no function " + name);
}

Value call_method(const Value& of, const std::string& name, const Arguments& arguments) {
  if (of == nullptr) fail("something undefined has no method " + name);
  if (of->is_string()) {
    const std::string& text = of->string();
    const std::string first = text_at(arguments, 0, "");
    if (name == "strip" || name == "lstrip" || name == "rstrip")
      return value_of(stripped(text, text_at(arguments, 0, kBlanks), name != "rstrip", name != "lstrip"));
    if (name == "startswith") return value_of(text.starts_with(first));
    if (name == "endswith") return value_of(text.ends_with(first));
    if (name == "upper") return value_of(converted<std::toupper>(text));
    if (name == "lower") return value_of(converted<std::tolower>(text));
    if (name == "replace") return value_of(replaced(text, first, text_at(arguments, 1, "")));
    if (name == "split") return split(text, text_at(arguments, 0, " "));
  } else if (of->is_object()) {
    if (name == "items") return items_of(*of);
    if (name == "get") {
      const Json* found = of->find(text_at(arguments, 0, ""));
      if (found != nullptr) return {of, found};
      return arguments.values.size() > 1 ? arguments.values[1] : value_of(Json());
    }
  }
  fail(std::string(of->type_name()) + " has no method " + name);
}

Value apply_filter(const Value& to, const std::string& name, const Arguments& arguments) {
  if (name == "default" || name == "d") {
    const bool falsy = arguments.values.size() > 1 && is_true(arguments.values[1]);
    if (falsy ? is_true(to) : to != nullptr) return to;
    return arguments.values.empty() ? value_of("") : arguments.values[0];
  }
  if (name == "trim") return value_of(stripped(text_of(to), kBlanks, true, true));
  if (name == "string") return value_of(text_of(to));
  if (name == "upper") return value_of(converted<std::toupper>(text_of(to)));
  if (name == "lower") return value_of(converted<std::tolower>(text_of(to)));
  if (to == nullptr) fail("something undefined is given to the filter " + name);
  if (name == "length" || name == "count")
    return value_of(to->is_string()   ? to->string().size()
                    : to->is_object() ? to->members().size()
                                      : to->items().size());
  if (name == "tojson") {
    const auto indent = arguments.named.find("indent");
    return value_of(indent == arguments.named.end() ? json_of(*to) : to->dump(4));
  }
  if (name == "safe" || (name == "list" && to->is_array())) return to;
  if (name == "items") return items_of(*to);
  if (name == "replace") return value_of(replaced(to->string(), text_at(arguments, 0, ""), text_at(arguments, 1, "")));
  if (name == "first" || name == "last") {
    if (to->items().empty()) return nullptr;
    return {to, name == "first" ? &to->items().front() : &to->items().back()};
  }
  if (name == "join") {
    std::string text;
    for (const Json& item : to->items()) {
      if (&item != &to->items().front()) text += text_at(arguments, 0, "");
      text += text_of(value_of(item));
    }
    return value_of(std::move(text));
  }
  fail("there is no filter " + name);
}

bool passes_test(const Value& value, const std::string& name) {
  const Json* json = value.get();
  if (name == "defined") return json != nullptr;
  if (name == "undefined") return json == nullptr;
  if (name == "none") return json != nullptr && json->is_null();
  if (name == "string") return json != nullptr && json->is_string();
  if (name == "mapping") return json != nullptr && json->is_object();
  if (name == "number") return json != nullptr && json->is_number();
  if (name == "boolean") return json != nullptr && json->is_boolean();
  if (name == "true") return json != nullptr && json->is_boolean() && json->boolean();
  if (name == "false") return json != nullptr && json->is_boolean() && !json->boolean();
  if (name == "iterable" || name == "sequence")
    return json != nullptr && (json->is_array() || json->is_string() || json->is_object());
  fail("there is no test " + name);
}

}  // namespace quern::engine
