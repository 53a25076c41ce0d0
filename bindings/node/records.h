// The structs of quern.h that are no op's, as JavaScript's objects: what calls tell, and what they are given.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <node_api.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "context.h"
#include "js.h"
#include "quern.h"

namespace quern::node {

// ---- What calls tell ------------------------------------------------------------------------------------------------

// A number; a BigInt where a number would not be exact.
template <typename Value>
  requires std::is_arithmetic_v<Value>
napi_value value_of(const Js& js, Value value) {
  napi_value made = nullptr;
  constexpr std::uint64_t kExact = 1ULL << 53;
  if constexpr (std::is_same_v<Value, std::uint64_t>) {
    if (value > kExact) {
      js.check(napi_create_bigint_uint64(js.env(), value, &made));
      return made;
    }
  } else if constexpr (std::is_same_v<Value, std::int64_t>) {
    if (value > static_cast<std::int64_t>(kExact) || value < -static_cast<std::int64_t>(kExact)) {
      js.check(napi_create_bigint_int64(js.env(), value, &made));
      return made;
    }
  }
  js.check(napi_create_double(js.env(), static_cast<double>(value), &made));
  return made;
}
inline napi_value value_of(const Js& js, const char* text) {
  napi_value made = nullptr;
  js.check(napi_create_string_utf8(js.env(), text == nullptr ? "" : text, NAPI_AUTO_LENGTH, &made));
  return made;
}
inline napi_value buffer_of(const Js& js, const void* start, std::uint64_t size) {
  napi_value made = nullptr;
  if (start == nullptr) {  // asked for by key alone
    js.check(napi_get_null(js.env(), &made));
  } else {
    js.check(napi_create_buffer_copy(js.env(), static_cast<std::size_t>(size), start, nullptr, &made));
  }
  return made;
}

#define QUERN_READ(type)                                        \
  inline napi_value object_of(const Js& js, const type& from) { \
    napi_value made = nullptr;                                  \
    js.check(napi_create_object(js.env(), &made));
#define QUERN_MEMBER(field, name) js.set(made, name, value_of(js, from.field));
#define QUERN_BYTES(field, name, size) js.set(made, name, buffer_of(js, from.field, from.size));
#define QUERN_READ_END() \
  return made;           \
  }
#include "records.inc"
#undef QUERN_READ
#undef QUERN_MEMBER
#undef QUERN_BYTES
#undef QUERN_READ_END

// ---- What they are given --------------------------------------------------------------------------------------------

// A call's own callback, on the thread that called: what it returns cancels where it is true, and so does what it
// throws, which goes on behind the call.
struct Progress {
  const Js* js;
  napi_value function;

  template <typename Result>
  static std::int32_t tell(void* user, std::uint64_t done, std::uint64_t total, const Result* result) {
    const Progress& self = *static_cast<Progress*>(user);
    napi_handle_scope scope = nullptr;
    bool cancels = true;
    try {
      const Js& js = *self.js;
      if (js.is_pending()) return 1;
      js.check(napi_open_handle_scope(js.env(), &scope));
      napi_value undefined = nullptr, returned = nullptr, truth = nullptr;
      js.check(napi_get_undefined(js.env(), &undefined));
      const std::array<napi_value, 3> arguments = {value_of(js, done), value_of(js, total), object_of(js, *result)};
      js.check(napi_call_function(js.env(), undefined, self.function, arguments.size(), arguments.data(), &returned));
      js.check(napi_coerce_to_bool(js.env(), returned, &truth));
      js.check(napi_get_value_bool(js.env(), truth, &cancels));
    } catch (const Thrown&) {
    }
    if (scope != nullptr) napi_close_handle_scope(self.js->env(), scope);
    return cancels ? 1 : 0;
  }
};

struct ToldLine : Later::Told {
  ToldLine(std::int32_t level, const char* text) : level(level), text(text) {}
  [[nodiscard]] std::vector<napi_value> arguments(const Js& js) const override {
    return {value_of(js, level), value_of(js, text.c_str())};
  }
  std::int32_t level;
  std::string text;
};

struct ToldEvent : Later::Told {
  explicit ToldEvent(const quern_event& from) : event(from), texts{from.op, from.target, from.key, from.text} {}
  [[nodiscard]] std::vector<napi_value> arguments(const Js& js) const override {
    quern_event kept = event;
    kept.op = texts[0].c_str();
    kept.target = texts[1].c_str();
    kept.key = texts[2].c_str();
    kept.text = texts[3].c_str();
    return {object_of(js, kept)};
  }
  quern_event event;
  std::array<std::string, 4> texts;
};

// Structs out of objects, and all that they point to, for the time of a call.
class Given {
 public:
  // `context`: who keeps the callbacks of its options; null where there are none.
  explicit Given(const Js& js, Context* context = nullptr) : js_(js), context_(context) {}

#define QUERN_FILLED(type)               \
  type& read(napi_value object, type*) { \
    type& made = keep<type>();           \
    check_names(#type, object, names(static_cast<type*>(nullptr)));
#define QUERN_NUMBER(field, name) number(object, name, made.field);
#define QUERN_TEXT(field, name) made.field = text(js_.property(object, name), name);
#define QUERN_MEASURED(field, name, length) made.field = measured(js_.property(object, name), name, made.length);
#define QUERN_TEXTS(field, name, count) made.field = texts(js_.property(object, name), name, made.count);
#define QUERN_NUMBERS(field, name, count) made.field = numbers(js_.property(object, name), name, made.count);
#define QUERN_DTYPE(field, name) made.field = dtype(js_.property(object, name), name);
#define QUERN_STRUCT(field, name, type)                                           \
  if (const napi_value part = js_.property(object, name); !js_.is_absent(part)) { \
    made.field = &read(part, static_cast<type*>(nullptr));                        \
  }
#define QUERN_PROGRESS(field, name, user, result)                        \
  if (const napi_value told = function(object, name); told != nullptr) { \
    made.field = Progress::tell<result>;                                 \
    made.user = &progress_.emplace_back(Progress{&js_, told});           \
  }
#define QUERN_LOG(field, name, user)                                          \
  if (const napi_value told = function(object, name); told != nullptr) {      \
    made.field = [](void* to, std::int32_t level, const char* line) {         \
      static_cast<Later*>(to)->tell(std::make_unique<ToldLine>(level, line)); \
    };                                                                        \
    made.user = later(told, name);                                            \
  }
#define QUERN_EVENT(field, name, user)                                    \
  if (const napi_value told = function(object, name); told != nullptr) {  \
    made.field = [](void* to, const quern_event* event) {                 \
      static_cast<Later*>(to)->tell(std::make_unique<ToldEvent>(*event)); \
    };                                                                    \
    made.user = later(told, name);                                        \
  }
#define QUERN_FILLED_END() \
  return made;             \
  }
#include "records.inc"
#undef QUERN_FILLED
#undef QUERN_NUMBER
#undef QUERN_TEXT
#undef QUERN_MEASURED
#undef QUERN_TEXTS
#undef QUERN_NUMBERS
#undef QUERN_DTYPE
#undef QUERN_STRUCT
#undef QUERN_PROGRESS
#undef QUERN_LOG
#undef QUERN_EVENT
#undef QUERN_FILLED_END

  // A string as C takes it; null where none was given.
  const char* text(napi_value value, const std::string& argument) {
    if (js_.is_absent(value)) return nullptr;
    const std::string& made = texts_.emplace_back(js_.text(value, argument));
    if (const std::size_t nul = made.find('\0'); nul != std::string::npos) {
      js_.refuse(argument + ": a NUL given at byte " + std::to_string(nul) + "; allowed is text without one");
    }
    return made.c_str();
  }
  const char* const* texts(napi_value value, const std::string& argument, std::uint64_t& count) {
    if (js_.is_absent(value)) return nullptr;
    std::vector<const char*>& made = lists_.emplace_back();
    for (std::uint32_t i = 0; i < js_.length(value, argument); ++i) {
      made.push_back(text(js_.element(value, i), argument + "[" + std::to_string(i) + "]"));
    }
    count = made.size();
    return made.data();
  }
  // Zeroed memory for structs of quern.h.
  template <typename Struct>
  Struct* structs(std::size_t count) {
    auto& memory = structs_.emplace_back(new std::uint64_t[(count * sizeof(Struct) + 7) / 8 + 1]());
    auto* made = reinterpret_cast<Struct*>(memory.get());
    for (std::size_t i = 0; i < count; ++i) made[i].size = sizeof(Struct);
    return made;
  }
  // Refuses what has none of these names.
  void check_names(std::string_view what, napi_value object, const std::vector<std::string_view>& known) {
    if (js_.type(object) != napi_object) js_.refuse(std::string(what) + ": an object is wanted");
    napi_value names = nullptr;
    js_.check(napi_get_property_names(js_.env(), object, &names));
    for (std::uint32_t i = 0; i < js_.length(names, "names"); ++i) {
      const std::string name = js_.text(js_.element(names, i), "name");
      if (std::find(known.begin(), known.end(), name) != known.end()) continue;
      std::string all;
      for (const std::string_view one : known) all += (all.empty() ? "" : ", ") + std::string(one);
      js_.refuse(std::string(what) + " has no field '" + name + "'; there are " + all);
    }
  }

 private:
#define QUERN_FILLED(type)                            \
  static std::vector<std::string_view> names(type*) { \
    return {
#define QUERN_NUMBER(field, name) name,
#define QUERN_TEXT(field, name) name,
#define QUERN_MEASURED(field, name, length) name,
#define QUERN_TEXTS(field, name, count) name,
#define QUERN_NUMBERS(field, name, count) name,
#define QUERN_DTYPE(field, name) name,
#define QUERN_STRUCT(field, name, type) name,
#define QUERN_PROGRESS(field, name, user, result) name,
#define QUERN_LOG(field, name, user) name,
#define QUERN_EVENT(field, name, user) name,
#define QUERN_FILLED_END() \
  }                        \
  ;                        \
  }
#include "records.inc"
#undef QUERN_FILLED
#undef QUERN_NUMBER
#undef QUERN_TEXT
#undef QUERN_MEASURED
#undef QUERN_TEXTS
#undef QUERN_NUMBERS
#undef QUERN_DTYPE
#undef QUERN_STRUCT
#undef QUERN_PROGRESS
#undef QUERN_LOG
#undef QUERN_EVENT
#undef QUERN_FILLED_END

  template <typename Struct>
  Struct& keep() {
    return *structs<Struct>(1);
  }
  template <typename Number>
  void number(napi_value object, const char* name, Number& place) {
    const napi_value value = js_.property(object, name);
    if (js_.is_absent(value)) return;
    if constexpr (std::is_floating_point_v<Number>) {
      place = static_cast<Number>(js_.number(value, name));
    } else {
      place = js_.integer<Number>(value, name);
    }
  }
  const char* measured(napi_value value, const char* name, std::uint64_t& length) {
    if (js_.is_absent(value)) return nullptr;
    const std::string& made = texts_.emplace_back(js_.text(value, name));
    length = made.size();
    return made.c_str();
  }
  const std::int64_t* numbers(napi_value value, const std::string& argument, std::uint64_t& count) {
    if (js_.is_absent(value)) return nullptr;
    std::vector<std::int64_t>& made = numbers_.emplace_back();
    for (std::uint32_t i = 0; i < js_.length(value, argument); ++i) {
      made.push_back(js_.integer<std::int64_t>(js_.element(value, i), argument));
    }
    count = made.size();
    return made.data();
  }
  // {code, bits}, as quern.types has them.
  DLDataType dtype(napi_value value, const std::string& argument) {
    if (js_.is_absent(value)) return {};
    return {js_.integer<std::uint8_t>(js_.property(value, "code"), argument),
            js_.integer<std::uint8_t>(js_.property(value, "bits"), argument), 1};
  }
  napi_value function(napi_value object, const std::string& name) {
    const napi_value value = js_.property(object, name.c_str());
    if (js_.is_absent(value)) return nullptr;
    if (js_.type(value) != napi_function) js_.refuse(name + ": a function is wanted");
    return value;
  }
  Later* later(napi_value function, const char* name) {
    return context_->callbacks.emplace_back(std::make_unique<Later>(js_, function, name)).get();
  }

  const Js& js_;
  Context* context_;
  std::deque<std::string> texts_;
  std::deque<std::vector<const char*>> lists_;
  std::deque<std::vector<std::int64_t>> numbers_;
  std::deque<Progress> progress_;
  std::deque<std::unique_ptr<std::uint64_t[]>> structs_;
};

}  // namespace quern::node
