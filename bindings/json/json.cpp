// SPDX-License-Identifier: Apache-2.0
#include "bindings/json/json.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace quern {
namespace {

using Foreign = nlohmann::ordered_json;

Json from_foreign(const Foreign& given) {
  switch (given.type()) {
    case Foreign::value_t::boolean:
      return given.get<bool>();
    case Foreign::value_t::number_integer:
      return given.get<std::int64_t>();
    case Foreign::value_t::number_unsigned:
      return given.get<std::uint64_t>();
    case Foreign::value_t::number_float:
      return given.get<double>();
    case Foreign::value_t::string:
      return given.get<std::string>();
    case Foreign::value_t::array: {
      Json array = Json::array();
      for (const Foreign& item : given) array.push_back(from_foreign(item));
      return array;
    }
    case Foreign::value_t::object: {
      Json object = Json::object();
      for (const auto& [name, value] : given.items()) object[name] = from_foreign(value);
      return object;
    }
    default:
      return nullptr;
  }
}

Foreign to_foreign(const Json& given) {
  if (given.is_boolean()) return given.boolean();
  if (given.is_string()) return given.string();
  if (given.is_unsigned()) return given.whole();
  if (given.is_number()) {
    const double number = given.number();
    const auto whole = static_cast<std::int64_t>(number);
    return number < 0 && static_cast<double>(whole) == number ? Foreign(whole) : Foreign(number);
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
Json Json::object() {
  Json json;
  json.value_ = Object();
  return json;
}

Json Json::parse(std::string_view text) {
  try {
    return from_foreign(Foreign::parse(text));
  } catch (const Foreign::parse_error& error) {
    throw JsonError(error.what(), error.byte);
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
