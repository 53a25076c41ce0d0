// quern for Node.js, by Node-API: contexts, aligned memory, and the three calls of any op, whose arguments are an
// object's properties. What index.js makes convenient is plain here.
// SPDX-License-Identifier: Apache-2.0
#include <node_api.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <string>
#include <utility>

#include "arguments.h"
#include "described.h"
#include "js.h"
#include "quern.h"

namespace quern::node {
namespace {

using described::Constant;
using described::constants;
using described::ops;

// A function of this module: `body` gets the arguments; what it throws is pending in JavaScript.
template <std::size_t Count, typename Body>
napi_value guarded(napi_env env, napi_callback_info info, Body body) {
  try {
    const Js js(env);
    std::array<napi_value, Count> given = {};
    std::size_t count = Count;
    js.check(napi_get_cb_info(env, info, &count, given.data(), nullptr, nullptr));
    return body(js, given);
  } catch (const Thrown&) {
    return nullptr;
  } catch (const std::exception& error) {
    napi_throw_error(env, nullptr, error.what());
    return nullptr;
  }
}

struct Context {
  quern_context* made = nullptr;
};

Context& holder_of(const Js& js, napi_value given) {
  void* found = nullptr;
  js.check(napi_get_value_external(js.env(), given, &found));
  return *static_cast<Context*>(found);
}

quern_context* context_of(const Js& js, napi_value given) {
  Context& holder = holder_of(js, given);
  if (holder.made == nullptr) js.refuse("context: is closed");
  return holder.made;
}

const Op& op_of(const Js& js, napi_value given) {
  const std::string name = js.text(given, "op");
  for (const Op& op : ops()) {
    if (name == op.name) return op;
  }
  js.refuse("op: there is none of the name '" + name + "'");
}

// open({deviceType, deviceId, missPolicy, flags, target, cachePath}) -> context
napi_value open(napi_env env, napi_callback_info info) {
  return guarded<1>(env, info, [](const Js& js, const auto& given) {
    quern_context_options options = {};
    options.size = sizeof options;
    const auto number = [&](const char* name) {
      const napi_value value = js.property(given[0], name);
      return js.is_absent(value) ? 0 : js.integer<std::int32_t>(value, name);
    };
    const auto text = [&](const char* name) {
      const napi_value value = js.property(given[0], name);
      return js.is_absent(value) ? std::string() : js.text(value, name);
    };
    options.device_type = number("deviceType");
    options.device_id = number("deviceId");
    options.miss_policy = number("missPolicy");
    options.flags = static_cast<std::uint32_t>(number("flags"));
    const std::string target = text("target"), cache_path = text("cachePath");
    options.target = target.empty() ? nullptr : target.c_str();
    options.cache_path = cache_path.empty() ? nullptr : cache_path.c_str();
    auto holder = std::make_unique<Context>();
    quern_error error = blank();
    checked(js, quern_context_create(&options, &holder->made, &error), error);
    napi_value made = nullptr;
    js.check(napi_create_external(
        js.env(), holder.get(),
        [](napi_env, void* data, void*) {
          quern_context_destroy(static_cast<Context*>(data)->made);
          delete static_cast<Context*>(data);
        },
        nullptr, &made));
    holder.release();
    return made;
  });
}

napi_value close(napi_env env, napi_callback_info info) {
  return guarded<1>(env, info, [](const Js& js, const auto& given) -> napi_value {
    quern_context_destroy(std::exchange(holder_of(js, given[0]).made, nullptr));
    return nullptr;
  });
}

// run(context, op, arguments), prepare(...), workspace(...) -> bytes
napi_value run(napi_env env, napi_callback_info info) {
  return guarded<3>(env, info, [](const Js& js, const auto& given) -> napi_value {
    const Op& op = op_of(js, given[1]);
    quern_context* context = context_of(js, given[0]);
    const Arguments arguments(js, context, op, given[2]);
    quern_error error = blank();
    checked(js, op.run(context, arguments.get(), &error), error);
    return nullptr;
  });
}

napi_value prepare(napi_env env, napi_callback_info info) {
  return guarded<3>(env, info, [](const Js& js, const auto& given) -> napi_value {
    const Op& op = op_of(js, given[1]);
    quern_context* context = context_of(js, given[0]);
    const Arguments arguments(js, context, op, given[2]);
    quern_error error = blank();
    checked(js, op.prepare(context, arguments.get(), &error), error);
    return nullptr;
  });
}

napi_value workspace(napi_env env, napi_callback_info info) {
  return guarded<3>(env, info, [](const Js& js, const auto& given) {
    const Op& op = op_of(js, given[1]);
    quern_context* context = context_of(js, given[0]);
    const Arguments arguments(js, context, op, given[2]);
    std::uint64_t bytes = 0;
    quern_error error = blank();
    checked(js, op.workspace(context, arguments.get(), &bytes, &error), error);
    napi_value made = nullptr;
    js.check(napi_create_double(js.env(), static_cast<double>(bytes), &made));
    return made;
  });
}

// allocate(bytes) -> an ArrayBuffer, zeroed and aligned to 256 bytes
napi_value allocate(napi_env env, napi_callback_info info) {
  return guarded<1>(env, info, [](const Js& js, const auto& given) {
    const auto bytes = js.integer<std::uint64_t>(given[0], "bytes");
    const std::size_t rounded = (static_cast<std::size_t>(bytes) + 255) / 256 * 256;
    void* memory = std::aligned_alloc(256, rounded == 0 ? 256 : rounded);
    if (memory == nullptr) js.refuse("bytes: no memory for " + std::to_string(bytes));
    std::memset(memory, 0, rounded);
    napi_value made = nullptr;
    const napi_status status = napi_create_external_arraybuffer(
        js.env(), memory, static_cast<std::size_t>(bytes), [](napi_env, void* data, void*) { std::free(data); },
        nullptr, &made);
    if (status != napi_ok) std::free(memory);
    js.check(status);
    return made;
  });
}

napi_value start(napi_env env, napi_value exports) {
  try {
    const Js js(env);
    const std::array<std::pair<const char*, napi_callback>, 6> functions = {{{"open", open},
                                                                             {"close", close},
                                                                             {"run", run},
                                                                             {"prepare", prepare},
                                                                             {"workspace", workspace},
                                                                             {"allocate", allocate}}};
    for (const auto& [name, callback] : functions) {
      napi_value made = nullptr;
      js.check(napi_create_function(env, name, NAPI_AUTO_LENGTH, callback, nullptr, &made));
      js.set(exports, name, made);
    }
    napi_value named = nullptr, names = nullptr;
    js.check(napi_create_object(env, &named));
    for (const Constant& one : constants()) {
      napi_value value = nullptr;
      js.check(napi_create_int64(env, one.value, &value));
      js.set(named, one.name, value);
    }
    js.set(exports, "constants", named);
    js.check(napi_create_array(env, &names));
    std::uint32_t place = 0;
    for (const Op& op : ops()) {
      napi_value name = nullptr;
      js.check(napi_create_string_utf8(env, op.name, NAPI_AUTO_LENGTH, &name));
      js.check(napi_set_element(env, names, place++, name));
    }
    js.set(exports, "ops", names);
    return exports;
  } catch (const Thrown&) {
    return nullptr;
  }
}

}  // namespace
}  // namespace quern::node

NAPI_MODULE(quern, quern::node::start)
