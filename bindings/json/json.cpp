// SPDX-License-Identifier: Apache-2.0
#include "bindings/json/json.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_map>

namespace quern {
namespace {

using Foreign = nlohmann::ordered_json;

// Builds the value as the parser reports it: the time and the memory that a text takes grow with its length, however it
// is made up. Of members of one name the last counts.
class Builder : public nlohmann::json_sax<Foreign> {
 public:
  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(std::int64_t value) override { return add(value); }
  bool number_unsigned(std::uint64_t value) override { return add(value); }
  bool number_float(double value, const std::string&) override { return add(value); }
  bool string(std::string& value) override { return add(std::move(value)); }
  bool binary(Foreign::binary_t&) override { return false; }  // no text has it
  bool start_object(std::size_t) override {
    open_.push_back({Json::Object(), {}, {}, true});
    return true;
  }
  bool key(std::string& name) override {
    open_.back().name = std::move(name);
    return true;
  }
  bool end_object() override {
    Json object = Json::object(std::move(open_.back().members));
    open_.pop_back();
    return add(std::move(object));
  }
  bool start_array(std::size_t) override {
    open_.emplace_back();
    return true;
  }
  bool end_array() override {
    std::vector<Json> items;
    items.reserve(open_.back().members.size());
    for (Json::Member& item : open_.back().members) items.push_back(std::move(item.value));
    open_.pop_back();
    return add(Json::array(std::move(items)));
  }
  bool parse_error(std::size_t byte, const std::string&, const Foreign::exception& error) override {
    throw JsonError(error.what(), byte);
  }

  Json result;

 private:
  struct Open {
    Json::Object members;  // of an array: its items, without names
    std::string name;
    std::unordered_map<std::string, std::size_t> places;
    bool named = false;
  };

  bool add(Json value) {
    if (open_.empty()) {
      result = std::move(value);
      return true;
    }
    Open& into = open_.back();
    if (into.named) {
      const auto [place, fresh] = into.places.try_emplace(into.name, into.members.size());
      if (!fresh) {
        into.members[place->second].value = std::move(value);
        return true;
      }
    }
    into.members.push_back({std::move(into.name), std::move(value)});
    return true;
  }

  std::vector<Open> open_;
};

// Deeper than this no file of anybody's is nested, and a value is taken apart level by level.
constexpr int kDeepest = 200;

void check_depth(std::string_view text) {
  int depth = 0;
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted) {
      if (c == '\\') ++i;
      quoted = c != '"';
    } else if (c == '"') {
      quoted = true;
    } else if (c == '[' || c == '{') {
      if (++depth > kDeepest) throw JsonError("nested more than " + std::to_string(kDeepest) + " levels deep", i + 1);
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
}

Foreign to_foreign(const Json& given) {
  if (given.is_boolean()) return given.boolean();
  if (given.is_string()) return given.string();
  if (given.is_unsigned()) return given.whole();
  if (given.is_number()) {
    const double number = given.number();
    // What an integer cannot hold must not be made one.
    if (!(number < 0 && number >= -0x1p63)) return Foreign(number);
    const auto whole = static_cast<std::int64_t>(number);
    return static_cast<double>(whole) == number ? Foreign(whole) : Foreign(number);
  }
  if (given.is_array()) {
    Foreign array = Foreign::array();
    for (const Json& item : given.items()) array.push_back(to_foreign(item));
    return array;
  }
  if (given.is_object()) {
    Foreign object = Foreign::object();
    for (const Json::Member& member : given.members()) object[member.name] = to_foreign(member.value);
    return object;
  }
  return nullptr;
}

}  // namespace

Json::Json(const std::vector<std::string>& values) : value_(Array(values.begin(), values.end())) {}
Json::Json(std::initializer_list<Member> members) : value_(Object(members)) {}
Json Json::array(std::vector<Json> items) {
  Json json;
  json.value_ = std::move(items);
  return json;
}
Json Json::object(Object members) {
  Json json;
  json.value_ = std::move(members);
  return json;
}

Json Json::parse(std::string_view text) {
  check_depth(text);
  try {
    Builder builder;
    Foreign::sax_parse(text, &builder);
    return std::move(builder.result);
  } catch (const Foreign::exception& error) {
    throw JsonError(error.what());
  }
}

std::string Json::dump(int indent) const {
  return to_foreign(*this).dump(indent, ' ', false, Foreign::error_handler_t::replace);
}

bool Json::is_unsigned() const {
  const auto* const number = std::get_if<std::int64_t>(&value_);
  return holds<std::uint64_t>() || (number != nullptr && *number >= 0);
}

const char* Json::type_name() const {
  if (is_null()) return "null";
  if (is_boolean()) return "boolean";
  if (is_string()) return "string";
  if (is_array()) return "array";
  return is_object() ? "object" : "number";
}

template <class T>
const T& Json::get(const char* wanted) const {
  if (const T* value = std::get_if<T>(&value_)) return *value;
  throw JsonError("a JSON " + std::string(type_name()) + " where " + wanted + " is expected");
}

bool Json::boolean() const { return get<bool>("true or false"); }
double Json::number() const {
  if (const auto* whole = std::get_if<std::int64_t>(&value_)) return static_cast<double>(*whole);
  if (const auto* whole = std::get_if<std::uint64_t>(&value_)) return static_cast<double>(*whole);
  return get<double>("a number");
}
std::uint64_t Json::whole() const {
  if (const auto* number = std::get_if<std::int64_t>(&value_); number != nullptr && *number >= 0)
    return static_cast<std::uint64_t>(*number);
  return get<std::uint64_t>("a whole number from 0 on");
}
const std::string& Json::string() const { return get<std::string>("a string"); }
const Json::Array& Json::items() const { return get<Array>("an array"); }
const Json::Object& Json::members() const { return get<Object>("an object"); }

const Json* Json::find(std::string_view name) const {
  const Object* object = std::get_if<Object>(&value_);
  if (object == nullptr) return nullptr;
  const auto found = std::find_if(object->begin(), object->end(), [&](const Member& m) { return m.name == name; });
  return found == object->end() ? nullptr : &found->value;
}

const Json& Json::at(std::string_view name) const {
  if (const Json* found = find(name)) return *found;
  throw JsonError("a JSON " + std::string(type_name()) + " has no member '" + std::string(name) + "'");
}

Json& Json::operator[](std::string_view name) {
  if (is_null()) value_ = Object();
  Object* object = std::get_if<Object>(&value_);
  if (object == nullptr) throw JsonError("a JSON " + std::string(type_name()) + " where an object is expected");
  for (Member& member : *object) {
    if (member.name == name) return member.value;
  }
  object->push_back({std::string(name), Json()});
  return object->back().value;
}

void Json::push_back(Json item) {
  if (is_null()) value_ = Array();
  Array* array = std::get_if<Array>(&value_);
  if (array == nullptr) throw JsonError("a JSON " + std::string(type_name()) + " where an array is expected");
  array->push_back(std::move(item));
}

void Json::update(const Json& other) {
  for (const Member& member : other.members()) (*this)[member.name] = member.value;
}

bool operator==(const Json& a, const Json& b) {
  if (a.is_number() && b.is_number()) {
    if (a.is_unsigned() && b.is_unsigned()) return a.whole() == b.whole();
    return a.number() == b.number();
  }
  if (a.is_array() && b.is_array()) return a.items() == b.items();
  if (a.is_object() && b.is_object()) {
    return a.members().size() == b.members().size() &&
           std::all_of(a.members().begin(), a.members().end(), [&](const Json::Member& member) {
             const Json* other = b.find(member.name);
             return other != nullptr && *other == member.value;
           });
  }
  if (a.is_string() && b.is_string()) return a.string() == b.string();
  if (a.is_boolean() && b.is_boolean()) return a.boolean() == b.boolean();
  return a.is_null() && b.is_null();
}

}  // namespace quern
