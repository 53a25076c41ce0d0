// JavaScript's values as C++ takes them, by Node-API; what fails is thrown there.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <node_api.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>

#include "quern.h"

namespace quern::node {

// A JavaScript exception is pending: nothing more is to be said.
struct Thrown {};

class Js {
 public:
  explicit Js(napi_env env) : env_(env) {}

  void check(napi_status status) const {
    if (status == napi_ok) return;
    bool pending = false;
    napi_is_exception_pending(env_, &pending);
    if (!pending) napi_throw_error(env_, nullptr, "quern: Node-API refused a call");
    throw Thrown();
  }
  [[noreturn]] void refuse(const std::string& text) const {
    napi_throw_type_error(env_, nullptr, text.c_str());
    throw Thrown();
  }
  [[nodiscard]] napi_value property(napi_value object, const char* name) const {
    napi_value value = nullptr;
    check(napi_get_named_property(env_, object, name, &value));
    return value;
  }
  void set(napi_value object, const char* name, napi_value value) const {
    check(napi_set_named_property(env_, object, name, value));
  }
  [[nodiscard]] napi_valuetype type(napi_value value) const {
    napi_valuetype found = napi_undefined;
    check(napi_typeof(env_, value, &found));
    return found;
  }
  [[nodiscard]] bool is_absent(napi_value value) const {
    const napi_valuetype found = type(value);
    return found == napi_undefined || found == napi_null;
  }
  [[nodiscard]] double number(napi_value value, const std::string& argument) const {
    double made = 0;
    if (type(value) != napi_number) refuse(argument + ": a number is wanted");
    check(napi_get_value_double(env_, value, &made));
    return made;
  }
  // A whole number between two, given as a number or a BigInt.
  template <typename Integer>
  [[nodiscard]] Integer integer(napi_value value, const std::string& argument) const {
    if (type(value) == napi_bigint) {
      bool whole = false;
      if constexpr (std::is_same_v<Integer, std::uint64_t>) {
        std::uint64_t made = 0;
        check(napi_get_value_bigint_uint64(env_, value, &made, &whole));
        if (whole) return made;
      } else {
        std::int64_t made = 0;
        check(napi_get_value_bigint_int64(env_, value, &made, &whole));
        if (whole && static_cast<std::int64_t>(static_cast<Integer>(made)) == made) return static_cast<Integer>(made);
      }
    } else {
      const double given = number(value, argument);
      // Beyond 2^53 a number is not the one that was written.
      if (given == static_cast<double>(static_cast<std::int64_t>(given)) && given >= -9007199254740992.0 &&
          given <= 9007199254740992.0) {
        const auto made = static_cast<std::int64_t>(given);
        if (static_cast<std::int64_t>(static_cast<Integer>(made)) == made && (made >= 0 || std::is_signed_v<Integer>)) {
          return static_cast<Integer>(made);
        }
      }
    }
    refuse(argument + ": not a whole number of the field's width");
  }
  [[nodiscard]] std::string text(napi_value value, const std::string& argument) const {
    if (type(value) != napi_string) refuse(argument + ": a string is wanted");
    std::size_t length = 0;
    check(napi_get_value_string_utf8(env_, value, nullptr, 0, &length));
    std::string made(length, '\0');
    check(napi_get_value_string_utf8(env_, value, made.data(), length + 1, &length));
    return made;
  }
  [[nodiscard]] bool is_pending() const {
    bool pending = false;
    check(napi_is_exception_pending(env_, &pending));
    return pending;
  }
  [[nodiscard]] std::uint32_t length(napi_value value, const std::string& argument) const {
    bool is_array = false;
    std::uint32_t count = 0;
    check(napi_is_array(env_, value, &is_array));
    if (!is_array) refuse(argument + ": an array is wanted");
    check(napi_get_array_length(env_, value, &count));
    return count;
  }
  [[nodiscard]] napi_value element(napi_value array, std::uint32_t place) const {
    napi_value value = nullptr;
    check(napi_get_element(env_, array, place, &value));
    return value;
  }
  // An address, or a handle of the driver's.
  [[nodiscard]] void* address(napi_value value, const std::string& argument) const {
    return reinterpret_cast<void*>(static_cast<std::uintptr_t>(integer<std::uint64_t>(value, argument)));
  }
  // A typed array's memory and its bytes.
  [[nodiscard]] std::pair<void*, std::size_t> memory(napi_value array) const {
    napi_typedarray_type type = napi_uint8_array;
    std::size_t count = 0;
    void* data = nullptr;
    check(napi_get_typedarray_info(env_, array, &type, &count, &data, nullptr, nullptr));
    return {data, count * bytes_of(type)};
  }
  [[nodiscard]] std::size_t elements(napi_value array) const {
    std::size_t count = 0;
    check(napi_get_typedarray_info(env_, array, nullptr, &count, nullptr, nullptr, nullptr));
    return count;
  }
  [[nodiscard]] napi_env env() const { return env_; }

 private:
  static std::size_t bytes_of(napi_typedarray_type type) {
    switch (type) {
      case napi_int8_array:
      case napi_uint8_array:
      case napi_uint8_clamped_array:
        return 1;
      case napi_int16_array:
      case napi_uint16_array:
        return 2;
      case napi_int32_array:
      case napi_uint32_array:
      case napi_float32_array:
        return 4;
      default:
        return 8;
    }
  }

  napi_env env_;
};

// Throws what a call of quern.h returned, as an Error with status and native; and results, where a list came with it.
inline void checked(const Js& js, std::int32_t status, const quern_error& error, napi_value results = nullptr) {
  if (status == QUERN_OK) return;
  napi_value text = nullptr, code = nullptr, made = nullptr, number = nullptr, native = nullptr;
  js.check(napi_create_string_utf8(js.env(), error.text, NAPI_AUTO_LENGTH, &text));
  js.check(napi_create_string_utf8(js.env(), quern_status_name(status), NAPI_AUTO_LENGTH, &code));
  js.check(napi_create_error(js.env(), code, text, &made));
  js.check(napi_create_int32(js.env(), status, &number));
  js.check(napi_create_int64(js.env(), error.native, &native));
  js.set(made, "status", number);
  js.set(made, "native", native);
  if (results != nullptr) js.set(made, "results", results);
  js.check(napi_throw(js.env(), made));
  throw Thrown();
}

}  // namespace quern::node
