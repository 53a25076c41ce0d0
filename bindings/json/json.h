// A JSON value: read from text, built up, written. Objects keep the order in which their members came. The parser and
// the writer are nlohmann's, behind json.cpp alone: its header costs seconds in every unit that includes it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace quern {

// Text that is no JSON, or a value that is not of the kind asked for.
class JsonError : public std::runtime_error {
 public:
  explicit JsonError(const std::string& text, std::size_t byte = 0) : std::runtime_error(text), byte_(byte) {}
  std::size_t byte() const { return byte_; }  // where parsing ended, from 1

 private:
  std::size_t byte_;
};

class Json {
 public:
  struct Member;
  using Array = std::vector<Json>;
  using Object = std::vector<Member>;

  // Those that are defined below need what a Member is.
  Json();
  Json(std::nullptr_t);
  Json(bool value);
  template <std::signed_integral T>
  Json(T value);
  template <std::unsigned_integral T>
    requires(!std::same_as<T, bool>)
  Json(T value);
  template <std::floating_point T>
  Json(T value);
  Json(const char* value);
  Json(std::string value);
  Json(std::string_view value);
  Json(const std::vector<std::string>& values);
  // {{"name", value}, ...}: an object.
  Json(std::initializer_list<Member> members);
  static Json array();
  static Json array(std::vector<Json> items);
  // No two of the members have one name.
  static Json object();
  static Json object(std::vector<Member> members);

  // Throws JsonError, with the byte at which the text goes wrong, or is nested more than 200 levels deep.
  static Json parse(std::string_view text);
  // In lines indented by so many spaces, or on one line where it is negative. What is not UTF-8 is replaced.
  std::string dump(int indent = -1) const;

  bool is_null() const { return holds<std::monostate>(); }
  bool is_boolean() const { return holds<bool>(); }
  bool is_string() const { return holds<std::string>(); }
  bool is_array() const { return holds<Array>(); }
  bool is_object() const { return holds<Object>(); }
  bool is_unsigned() const;  // a whole number from 0 on
  bool is_number() const { return holds<std::int64_t>() || holds<std::uint64_t>() || holds<double>(); }
  // "object", "number" and so on, for messages.
  const char* type_name() const;

  // Each throws JsonError where the value is of another kind.
  bool boolean() const;
  double number() const;
  std::uint64_t whole() const;
  const std::string& string() const;
  const Array& items() const;
  const Object& members() const;

  // Null where this is no object or has no such member.
  const Json* find(std::string_view name) const;
  // Throws JsonError where there is none.
  const Json& at(std::string_view name) const;
  // The member, made where it is missing; a null becomes an object.
  Json& operator[](std::string_view name);
  // A null becomes an array.
  void push_back(Json item);
  // Takes over all members of an object.
  void update(const Json& other);

  // Numbers are equal by their value, whatever they are held as.
  friend bool operator==(const Json& a, const Json& b);

 private:
  template <class T>
  bool holds() const {
    return std::holds_alternative<T>(value_);
  }
  template <class T>
  const T& get(const char* wanted) const;

  std::variant<std::monostate, bool, std::int64_t, std::uint64_t, double, std::string, Array, Object> value_;
};

struct Json::Member {
  std::string name;
  Json value;
};

inline Json::Json() = default;
inline Json::Json(std::nullptr_t) {}
inline Json::Json(bool value) : value_(value) {}
template <std::signed_integral T>
Json::Json(T value) : value_(std::int64_t{value}) {}
template <std::unsigned_integral T>
  requires(!std::same_as<T, bool>)
Json::Json(T value) : value_(std::uint64_t{value}) {}
template <std::floating_point T>
Json::Json(T value) : value_(static_cast<double>(value)) {}
inline Json::Json(const char* value) : value_(std::string(value)) {}
inline Json::Json(std::string value) : value_(std::move(value)) {}
inline Json::Json(std::string_view value) : value_(std::string(value)) {}
inline Json Json::array() { return array({}); }
inline Json Json::object() { return object({}); }

}  // namespace quern
