// SPDX-License-Identifier: Apache-2.0
#include "bindings/engine/text/template_text.h"

#include <algorithm>
#include <cctype>

namespace quern::engine {
namespace {

template <int (*kConvert)(int)>
char converted(char c) {
  return static_cast<char>(kConvert(static_cast<unsigned char>(c)));
}

}  // namespace

std::string text_at(const Arguments& arguments, std::size_t n, const std::string& otherwise) {
  return n < arguments.values.size() ? text_of(arguments.values[n]) : otherwise;
}

bool is_letter(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; }

std::string upper(std::string text) {
  for (char& c : text) c = converted<std::toupper>(c);
  return text;
}

std::string lower(std::string text) {
  for (char& c : text) c = converted<std::tolower>(c);
  return text;
}

std::string capitalized(std::string text) {
  text = lower(std::move(text));
  if (!text.empty()) text[0] = converted<std::toupper>(text[0]);
  return text;
}

std::string titled(std::string text, bool (*parts)(char)) {
  bool first = true;
  for (char& c : text) {
    c = first ? converted<std::toupper>(c) : converted<std::tolower>(c);
    first = parts(c);
  }
  return text;
}

std::string stripped(const std::string& text, const std::string& of, bool left, bool right) {
  const std::size_t begin = left ? text.find_first_not_of(of) : 0;
  if (begin == std::string::npos) return "";
  const std::size_t end = right ? text.find_last_not_of(of) : text.size() - 1;
  return end == std::string::npos ? "" : text.substr(begin, end + 1 - begin);
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

Value joined(const Value& items, const std::string& by, const Value& attribute) {
  std::string text;
  if (items == nullptr) return value_of(std::move(text));
  for (const Json& item : items->items()) {
    if (&item != &items->items().front()) text += by;
    const Value value(items, &item);
    text += text_of(attribute == nullptr ? value : attribute_of(value, attribute));
  }
  return value_of(std::move(text));
}

Value items_of(const Json& object) {
  Json pairs = Json::array();
  for (const Json::Member& member : object.members()) pairs.push_back(Json::array({member.name, member.value}));
  return value_of(std::move(pairs));
}

Value attribute_of(const Value& of, const Value& path) {
  if (path == nullptr || !path->is_string()) return item_of(of, path);
  Value value = of;
  const std::string& names = path->string();
  for (std::size_t at = 0; at <= names.size();) {
    const std::size_t end = std::min(names.find('.', at), names.size());
    value = item_of(value, value_of(names.substr(at, end - at)));
    at = end + 1;
  }
  return value;
}

std::string json_of(const Json& json, int indent) {
  if (indent >= 0) return json.dump(indent);
  std::string text;
  if (json.is_array()) {
    for (const Json& item : json.items()) text += (text.empty() ? "" : ", ") + json_of(item, indent);
    return "[" + text + "]";
  }
  if (!json.is_object()) return json.dump();
  for (const Json::Member& member : json.members())
    text += (text.empty() ? "" : ", ") + Json(member.name).dump() + ": " + json_of(member.value, indent);
  return "{" + text + "}";
}

}  // namespace quern::engine
