// JavaScript's values as C++ takes them, by Node-API; what fails is thrown there.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <node_api.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>

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
  [[nodiscard]] napi_env env() const { return env_; }

 private:
  napi_env env_;
};

// Throws what a call of quern.h returned, as an Error with status and native.
inline void checked(const Js& js, std::int32_t status, const quern_error& error) {
  if (status == QUERN_OK) return;
  napi_value text = nullptr, code = nullptr, made = nullptr, number = nullptr, native = nullptr;
  js.check(napi_create_string_utf8(js.env(), error.text, NAPI_AUTO_LENGTH, &text));
  js.check(napi_create_string_utf8(js.env(), quern_status_name(status), NAPI_AUTO_LENGTH, &code));
  js.check(napi_create_error(js.env(), code, text, &made));
  js.check(napi_create_int32(js.env(), status, &number));
  js.check(napi_create_int64(js.env(), error.native, &native));
  js.set(made, "status", number);
  js.set(made, "native", native);
  js.check(napi_throw(js.env(), made));
  throw Thrown();
}

}  // namespace quern::node
