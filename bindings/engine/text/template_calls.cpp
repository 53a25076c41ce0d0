// Functions and methods that chat templates call by name.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <ctime>
#include <stdexcept>

#include "bindings/engine/text/template_expression.h"
#include "bindings/engine/text/template_text.h"

namespace quern::engine {
namespace {

// At most `most` times.
Value split(const std::string& text, const std::string& by, std::size_t most) {
  Json parts = Json::array();
  if (by.empty()) fail("a text is split at nothing");
  std::size_t at = 0;
  for (std::size_t found = 0; most > 0 && (found = text.find(by, at)) != std::string::npos; at = found + by.size()) {
    parts.push_back(text.substr(at, found - at));
    --most;
  }
  parts.push_back(text.substr(at));
  return value_of(std::move(parts));
}

// At blanks, however many there are.
Value split_at_blanks(const std::string& text, std::size_t most) {
  Json parts = Json::array();
  for (std::size_t at = text.find_first_not_of(kBlanks); at != std::string::npos; --most) {
    const std::size_t end = most == 0 ? std::string::npos : text.find_first_of(kBlanks, at);
    parts.push_back(text.substr(at, end - at));
    at = end == std::string::npos ? end : text.find_first_not_of(kBlanks, end);
  }
  return value_of(std::move(parts));
}

Value lines_of(const std::string& text) {
  Json lines = Json::array();
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find_first_of("\r\n", at), text.size());
    lines.push_back(text.substr(at, end - at));
    at = end + (text.compare(end, 2, "\r\n") == 0 ? 2 : 1);
  }
  return value_of(std::move(lines));
}

std::size_t count_of(const std::string& text, const std::string& what) {
  if (what.empty()) fail("an empty text is counted");
  std::size_t count = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + what.size())) ++count;
  return count;
}

// What a method of texts gives; null where there is none of this name.
Value text_method(const std::string& text, const std::string& name, const Arguments& arguments) {
  if (name == "join" && !arguments.values.empty()) return joined(arguments.values[0], text, {});
  const std::string first = text_at(arguments, 0, "");
  if (name == "strip" || name == "lstrip" || name == "rstrip")
    return value_of(stripped(text, text_at(arguments, 0, kBlanks), name != "rstrip", name != "lstrip"));
  if (name == "startswith") return value_of(text.starts_with(first));
  if (name == "endswith") return value_of(text.ends_with(first));
  if (name == "upper") return value_of(upper(text));
  if (name == "lower") return value_of(lower(text));
  if (name == "capitalize") return value_of(capitalized(text));
  if (name == "title") return value_of(titled(text, [](char c) { return !is_letter(c); }));
  if (name == "replace") return value_of(replaced(text, first, text_at(arguments, 1, "")));
  if (name == "removeprefix") return value_of(text.starts_with(first) ? text.substr(first.size()) : text);
  if (name == "removesuffix")
    return value_of(text.ends_with(first) ? text.substr(0, text.size() - first.size()) : text);
  if (name == "split") {
    std::size_t most = std::string::npos;
    if (arguments.values.size() > 1 && arguments.values[1] != nullptr && arguments.values[1]->number() >= 0.0)
      most = static_cast<std::size_t>(arguments.values[1]->whole());
    const bool blanks = arguments.values.empty() || arguments.values[0] == nullptr || arguments.values[0]->is_null();
    return blanks ? split_at_blanks(text, most) : split(text, first, most);
  }
  if (name == "splitlines") return lines_of(text);
  if (name == "count") return value_of(count_of(text, first));
  if (name == "find") {
    const std::size_t at = text.find(first);
    return value_of(at == std::string::npos ? -1 : static_cast<std::int64_t>(at));
  }
  if (name == "isdigit") return value_of(!text.empty() && text.find_first_not_of("0123456789") == std::string::npos);
  return nullptr;
}

}  // namespace

Value call_function(const std::string& name, const Arguments& arguments) {
  if (name == "raise_exception") fail("it says: " + text_at(arguments, 0, ""));
  if (name == "namespace" || name == "dict") {
    Json fields = Json::object();
    for (const auto& [field, value] : arguments.named) fields[field] = value == nullptr ? Json() : *value;
    return value_of(std::move(fields));
  }
  if (name == "range") {
    const std::size_t count = arguments.values.size();
    double given[3] = {0.0, 0.0, 1.0};
    if (count < 1 || count > 3) fail("range takes one to three numbers");
    for (std::size_t i = 0; i < count; ++i) {
      if (arguments.values[i] == nullptr) fail("range is given something undefined");
      given[count == 1 ? 1 : i] = arguments.values[i]->number();
    }
    const auto [first, end, by] = given;
    if (by == 0.0) fail("range goes by 0");
    if ((end - first) / by > 10000.0) fail("range has more than 10000 numbers");
    Json numbers = Json::array();
    for (double i = first; by > 0.0 ? i < end : i > end; i += by) numbers.push_back(static_cast<std::int64_t>(i));
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
    if (Value result = text_method(of->string(), name, arguments); result != nullptr) return result;
  } else if (of->is_object()) {
    if (name == "items") return items_of(*of);
    if (name == "keys" || name == "values") {
      Json all = Json::array();
      for (const Json::Member& member : of->members()) all.push_back(name == "keys" ? Json(member.name) : member.value);
      return value_of(std::move(all));
    }
    if (name == "get") {
      const Json* found = of->find(text_at(arguments, 0, ""));
      if (found != nullptr) return {of, found};
      return arguments.values.size() > 1 ? arguments.values[1] : value_of(Json());
    }
  }
  fail(std::string(of->type_name()) + " has no method " + name);
}

}  // namespace quern::engine
