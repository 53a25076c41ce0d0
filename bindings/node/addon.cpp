// quern for Node.js, by Node-API: contexts, aligned memory, and the three calls of any op, whose arguments are an
// object's properties. What index.js makes convenient is plain here.
// SPDX-License-Identifier: Apache-2.0
#include <node_api.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "administration.h"
#include "arguments.h"
#include "context.h"
#include "described.h"
#include "js.h"
#include "kernel.h"
#include "quern.h"
#include "records.h"

namespace quern::node {
namespace {

using described::Constant;
using described::constants;
using described::ops;

const Op& op_of(const Js& js, napi_value given) {
  const std::string name = js.text(given, "op");
  for (const Op& op : ops()) {
    if (name == op.name) return op;
  }
  js.refuse("op: there is none of the name '" + name + "'");
}

// open(options) -> context: the fields of quern_context_options
napi_value open(napi_env env, napi_callback_info info) {
  return guarded<1>(env, info, [](const Js& js, const auto& given) {
    auto holder = std::make_unique<Context>(js.env());
    Given kept(js, holder.get());
    const quern_context_options& options = kept.read(given[0], static_cast<quern_context_options*>(nullptr));
    quern_error error = blank();
    checked(js, quern_context_create(&options, &holder->made, &error), error);
    napi_value made = nullptr;
    js.check(napi_create_external(
        js.env(), holder.get(), [](napi_env, void* data, void*) { delete static_cast<Context*>(data); }, nullptr,
        &made));
    holder.release()->close_with_process();
    return made;
  });
}

napi_value close(napi_env env, napi_callback_info info) {
  return guarded<1>(env, info, [](const Js& js, const auto& given) -> napi_value {
    holder_of(js, given[0]).close();
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

// address(tensor) -> BigInt: where its first element is
napi_value address(napi_env env, napi_callback_info info) {
  return guarded<1>(env, info, [](const Js& js, const auto& given) {
    Tensors tensors(js);
    const DLTensor* tensor = tensors.read("tensor", given[0]);
    napi_value made = nullptr;
    js.check(napi_create_bigint_uint64(js.env(), reinterpret_cast<std::uintptr_t>(tensor->data), &made));
    return made;
  });
}

napi_value start(napi_env env, napi_value exports) {
  try {
    const Js js(env);
    const std::pair<const char*, napi_callback> functions[] = {
        {"open", open},
        {"close", close},
        {"run", run},
        {"prepare", prepare},
        {"workspace", workspace},
        {"allocate", allocate},
        {"address", address},
        {"deviceInfo", told<quern_device, quern_device_info>},
        {"stats", told<quern_get_stats, quern_stats>},
        {"cacheStats", told<quern_cache_get_stats, quern_cache_stats>},
        {"warm", asked<quern_warm, quern_list_warm_result, quern_warm_result, quern_warm_options>},
        {"load", asked<quern_load, quern_list_warm_result, quern_warm_result, quern_warm_options>},
        {"tune", asked<quern_tune, quern_list_tune_result, quern_tune_result, quern_tune_options>},
        {"verify", asked<quern_verify, quern_list_verify_result, quern_verify_result, quern_verify_options>},
        {"unload", unload},
        {"wait", wait},
        {"cancel", cancel},
        {"manifest", manifest},
        {"cacheList", named<quern_cache_list, quern_list_entry, quern_entry>},
        {"cacheInspect", named<quern_cache_inspect, quern_list_entry, quern_entry>},
        {"cacheVerify", findings<quern_cache_verify>},
        {"cacheTrim", cache_trim},
        {"cacheExport", cache_export},
        {"cacheImport", cache_import},
        {"doctor", findings<quern_doctor>},
        {"failures", findings<quern_failures>},
        {"faults", faults},
        {"makeKeys", make_keys},
        {"publicKey", public_key},
        {"signBundle", sign_bundle},
        {"kernel", kernel},
        {"kernelInfo", kernel_info},
        {"launch", launch},
    };
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
