// The calls that are no ops': warming, the record of what was specialised, the cache, what is installed, keys.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <node_api.h>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "context.h"
#include "described.h"
#include "js.h"
#include "quern.h"
#include "records.h"

namespace quern::node {

using described::blank;

// told<call, struct>(context) -> object
template <auto Call, typename Struct>
napi_value told(napi_env env, napi_callback_info info) {
  return guarded<1>(env, info, [](const Js& js, const auto& given) {
    Struct made = {};
    made.size = sizeof made;
    quern_error error = blank();
    checked(js, Call(context_of(js, given[0]), &made, &error), error);
    return object_of(js, made);
  });
}

// What a call that gives a list has put there; where it failed with some of it, that goes with the error. `call` takes
// the list and the error.
template <auto Get, typename Struct, typename Ask>
napi_value listed(const Js& js, Ask ask) {
  struct Freed {
    ~Freed() { quern_list_free(list); }
    quern_list* list = nullptr;
  } made;
  quern_error error = blank();
  const std::int32_t status = ask(&made.list, &error);
  if (js.is_pending()) throw Thrown();  // a callback's own
  napi_value items = nullptr;
  js.check(napi_create_array(js.env(), &items));
  const std::uint64_t count = made.list == nullptr ? 0 : quern_list_count(made.list);
  for (std::uint64_t i = 0; i < count; ++i) {
    Struct item = {};
    item.size = sizeof item;
    if (Get(made.list, i, &item) != QUERN_OK) js.refuse("item " + std::to_string(i) + " of a list cannot be read");
    js.check(napi_set_element(js.env(), items, static_cast<std::uint32_t>(i), object_of(js, item)));
  }
  checked(js, status, error, items);
  return items;
}

// asked<call, getter, struct, options>(context, options) -> list
template <auto Call, auto Get, typename Struct, typename Options>
napi_value asked(napi_env env, napi_callback_info info) {
  return guarded<2>(env, info, [](const Js& js, const auto& given) {
    Given kept(js);
    quern_context* context = context_of(js, given[0]);
    const Options& options = kept.read(given[1], static_cast<Options*>(nullptr));
    return listed<Get, Struct>(
        js, [&](quern_list** list, quern_error* error) { return Call(context, &options, list, error); });
  });
}

// named<call, getter, struct>(context, text or undefined) -> list
template <auto Call, auto Get, typename Struct>
napi_value named(napi_env env, napi_callback_info info) {
  return guarded<2>(env, info, [](const Js& js, const auto& given) {
    Given kept(js);
    quern_context* context = context_of(js, given[0]);
    const char* text = kept.text(given[1], "prefix");
    return listed<Get, Struct>(js,
                               [&](quern_list** list, quern_error* error) { return Call(context, text, list, error); });
  });
}

// findings<call>(context) -> list
template <auto Call>
napi_value findings(napi_env env, napi_callback_info info) {
  return guarded<1>(env, info, [](const Js& js, const auto& given) {
    quern_context* context = context_of(js, given[0]);
    return listed<quern_list_finding, quern_finding>(
        js, [&](quern_list** list, quern_error* error) { return Call(context, list, error); });
  });
}

inline napi_value faults(napi_env env, napi_callback_info info) {
  return guarded<1>(env, info, [](const Js& js, const auto& given) {
    quern_context* context = context_of(js, given[0]);
    return listed<quern_list_fault, quern_fault>(
        js, [&](quern_list** list, quern_error* error) { return quern_faults(context, list, nullptr, error); });
  });
}

// A call that says how many. `call` takes the context, the texts that were given, the count and the error.
template <std::size_t Texts, typename Call>
napi_value counted(napi_env env, napi_callback_info info, const std::array<const char*, Texts>& names, Call call) {
  return guarded<Texts + 1>(env, info, [&](const Js& js, const auto& given) {
    Given kept(js);
    quern_context* context = context_of(js, given[0]);
    std::array<const char*, Texts> texts = {};
    for (std::size_t i = 0; i != Texts; ++i) texts[i] = kept.text(given[i + 1], names[i]);
    std::uint64_t count = 0;
    quern_error error = blank();
    checked(js, call(context, texts, &count, &error), error);
    return value_of(js, count);
  });
}

inline napi_value unload(napi_env env, napi_callback_info info) {
  return counted<1>(env, info, {"prefix"}, [](auto* context, const auto& texts, auto* count, auto* error) {
    return quern_unload(context, texts[0], count, error);
  });
}
inline napi_value cancel(napi_env env, napi_callback_info info) {
  return counted<0>(env, info, {}, [](auto* context, const auto&, auto* count, auto* error) {
    return quern_cancel(context, count, error);
  });
}
inline napi_value cache_export(napi_env env, napi_callback_info info) {
  return counted<2>(env, info, {"path", "prefix"}, [](auto* context, const auto& texts, auto* count, auto* error) {
    return quern_cache_export(context, texts[0], texts[1], count, error);
  });
}
inline napi_value cache_import(napi_env env, napi_callback_info info) {
  return counted<1>(env, info, {"path"}, [](auto* context, const auto& texts, auto* count, auto* error) {
    return quern_cache_import(context, texts[0], count, error);
  });
}

// wait(context, milliseconds) -> whether nothing is being compiled any more
inline napi_value wait(napi_env env, napi_callback_info info) {
  return guarded<2>(env, info, [](const Js& js, const auto& given) {
    quern_error error = blank();
    const auto milliseconds = js.integer<std::uint64_t>(given[1], "milliseconds");
    const std::int32_t status = quern_wait(context_of(js, given[0]), milliseconds, &error);
    if (status != QUERN_PENDING) checked(js, status, error);
    napi_value made = nullptr;
    js.check(napi_get_boolean(js.env(), status == QUERN_OK, &made));
    return made;
  });
}

inline napi_value manifest(napi_env env, napi_callback_info info) {
  return guarded<1>(env, info, [](const Js& js, const auto& given) {
    std::string text;
    for (std::uint64_t length = 0;; text.resize(length + 1)) {
      length = text.size();
      quern_error error = blank();
      checked(js, quern_manifest(context_of(js, given[0]), text.data(), &length, &error), error);
      if (length < text.size()) return value_of(js, text.c_str());
    }
  });
}

// cacheTrim(context, options) -> object
inline napi_value cache_trim(napi_env env, napi_callback_info info) {
  return guarded<2>(env, info, [](const Js& js, const auto& given) {
    Given kept(js);
    const quern_trim_options& options = kept.read(given[1], static_cast<quern_trim_options*>(nullptr));
    quern_trim_result made = {};
    made.size = sizeof made;
    quern_error error = blank();
    checked(js, quern_cache_trim(context_of(js, given[0]), &options, &made, &error), error);
    return object_of(js, made);
  });
}

constexpr std::size_t kKeyBytes = 65;  // 64 digits and a NUL

// makeKeys() -> {secretKey, publicKey}
inline napi_value make_keys(napi_env env, napi_callback_info info) {
  return guarded<1>(env, info, [](const Js& js, const auto&) {
    std::array<char, kKeyBytes> secret = {}, shown = {};
    quern_error error = blank();
    checked(js, quern_keys_make(secret.data(), shown.data(), &error), error);
    napi_value made = nullptr;
    js.check(napi_create_object(js.env(), &made));
    js.set(made, "secretKey", value_of(js, secret.data()));
    js.set(made, "publicKey", value_of(js, shown.data()));
    return made;
  });
}
// publicKey(secretKey) -> text
inline napi_value public_key(napi_env env, napi_callback_info info) {
  return guarded<1>(env, info, [](const Js& js, const auto& given) {
    Given kept(js);
    std::array<char, kKeyBytes> shown = {};
    quern_error error = blank();
    checked(js, quern_keys_public(kept.text(given[0], "secretKey"), shown.data(), &error), error);
    return value_of(js, shown.data());
  });
}
// signBundle(path, secretKey)
inline napi_value sign_bundle(napi_env env, napi_callback_info info) {
  return guarded<2>(env, info, [](const Js& js, const auto& given) -> napi_value {
    Given kept(js);
    quern_error error = blank();
    const char* path = kept.text(given[0], "path");
    checked(js, quern_bundle_sign(path, kept.text(given[1], "secretKey"), &error), error);
    return nullptr;
  });
}

}  // namespace quern::node
