// A kernel of the caller's own: readied and launched.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <node_api.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "arguments.h"
#include "context.h"
#include "js.h"
#include "quern.h"
#include "records.h"

namespace quern::node {

// Structs of a name and a text each, out of an object's properties.
template <typename Struct, typename Put>
Struct* named_texts(const Js& js, Given& kept, napi_value object, const char* argument, std::uint64_t& count, Put put) {
  if (js.is_absent(object)) return nullptr;
  napi_value names = nullptr;
  js.check(napi_get_property_names(js.env(), object, &names));
  count = js.length(names, argument);
  Struct* made = kept.structs<Struct>(count);
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::string name = js.text(js.element(names, i), argument);
    put(made[i], kept.text(js.element(names, i), argument), kept.text(js.property(object, name.c_str()), name));
  }
  return made;
}

// kernel(context, {entry, source, name, headers, constants, options, target, maxSharedBytes, flags}) -> kernel, or null
// for a target that is not the device's
inline napi_value kernel(napi_env env, napi_callback_info info) {
  return guarded<2>(env, info, [](const Js& js, const auto& given) {
    Given kept(js);
    kept.check_names(
        "kernel", given[1],
        {"entry", "source", "name", "headers", "constants", "options", "target", "maxSharedBytes", "flags"});
    const auto of = [&](const char* name) { return js.property(given[1], name); };
    const auto number = [&](const char* name) {
      return js.is_absent(of(name)) ? 0 : js.integer<std::uint32_t>(of(name), name);
    };
    const auto source = [](quern_source& made, const char* name, const char* text) {
      made.name = name;
      made.text = text;
    };
    quern_kernel_desc desc = {};
    desc.size = sizeof desc;
    desc.flags = number("flags");
    desc.max_shared_bytes = number("maxSharedBytes");
    desc.entry = kept.text(of("entry"), "entry");
    desc.target = kept.text(of("target"), "target");
    quern_source* text = kept.structs<quern_source>(1);
    source(*text, js.is_absent(of("name")) ? "kernel.cu" : kept.text(of("name"), "name"),
           kept.text(of("source"), "source"));
    desc.source = text;
    desc.headers = named_texts<quern_source>(js, kept, of("headers"), "headers", desc.header_count, source);
    desc.constants = named_texts<quern_constant>(js, kept, of("constants"), "constants", desc.constant_count,
                                                 [](quern_constant& made, const char* name, const char* value) {
                                                   made.name = name;
                                                   made.value = value;
                                                 });
    desc.options = kept.texts(of("options"), "options", desc.option_count);
    quern_kernel* made = nullptr;
    quern_error error = blank();
    checked(js, quern_kernel_prepare(context_of(js, given[0]), &desc, &made, &error), error);
    napi_value handle = nullptr;
    if (made == nullptr) {
      js.check(napi_get_null(js.env(), &handle));
    } else {
      js.check(napi_create_external(js.env(), made, nullptr, nullptr, &handle));
    }
    return handle;
  });
}

inline quern_kernel* kernel_of(const Js& js, napi_value given) {
  void* found = nullptr;
  js.check(napi_get_value_external(js.env(), given, &found));
  return static_cast<quern_kernel*>(found);
}

// kernelInfo(context, kernel) -> object
inline napi_value kernel_info(napi_env env, napi_callback_info info) {
  return guarded<2>(env, info, [](const Js& js, const auto& given) {
    static_cast<void>(context_of(js, given[0]));  // refuses a closed one, whose kernels are gone
    quern_kernel_info made = {};
    made.size = sizeof made;
    quern_error error = blank();
    checked(js, quern_kernel_get_info(kernel_of(js, given[1]), &made, &error), error);
    return object_of(js, made);
  });
}

// launch(context, kernel, {grid, block, cluster, sharedBytes, stream, flags}, arguments): an argument is a tensor,
// whose address it gives, or a typed array of one element, which is passed by value.
inline napi_value launch(napi_env env, napi_callback_info info) {
  return guarded<4>(env, info, [](const Js& js, const auto& given) -> napi_value {
    Given kept(js);
    kept.check_names("launch", given[2], {"grid", "block", "cluster", "sharedBytes", "stream", "flags"});
    quern_launch made = {};
    made.size = sizeof made;
    const auto of = [&](const char* name) { return js.property(given[2], name); };
    const auto number = [&](const char* name) {
      return js.is_absent(of(name)) ? 0 : js.integer<std::uint32_t>(of(name), name);
    };
    const auto extents = [&](const char* name, std::array<std::uint32_t*, 3> places) {
      if (js.is_absent(of(name))) return;
      const std::uint32_t count = js.length(of(name), name);
      if (count > places.size()) {
        js.refuse(std::string(name) + ": " + std::to_string(count) + " extents given; allowed are up to 3");
      }
      for (std::uint32_t i = 0; i < count; ++i) {
        *places[i] = js.integer<std::uint32_t>(js.element(of(name), i), name);
      }
    };
    made.flags = number("flags");
    made.shared_bytes = number("sharedBytes");
    if (!js.is_absent(of("stream"))) made.stream = js.address(of("stream"), "stream");
    extents("grid", {&made.grid_x, &made.grid_y, &made.grid_z});
    extents("block", {&made.block_x, &made.block_y, &made.block_z});
    extents("cluster", {&made.cluster_x, &made.cluster_y, &made.cluster_z});
    Tensors tensors(js);
    std::vector<std::uint64_t> values(js.length(given[3], "arguments"));
    std::vector<void*> places;
    for (std::uint32_t i = 0; i < values.size(); ++i) {
      const napi_value argument = js.element(given[3], i);
      const std::string name = "arguments[" + std::to_string(i) + "]";
      bool is_typed = false;
      js.check(napi_is_typedarray(js.env(), argument, &is_typed));
      if (is_typed) {
        const auto [data, bytes] = js.memory(argument);
        if (js.elements(argument) != 1) js.refuse(name + ": a typed array of one element is wanted");
        std::memcpy(&values[i], data, bytes);
      } else {
        const DLTensor* tensor = tensors.read(name, argument);
        const void* address = static_cast<const std::byte*>(tensor->data) + tensor->byte_offset;
        std::memcpy(&values[i], &address, sizeof address);
      }
      places.push_back(&values[i]);
    }
    made.args = places.data();
    made.arg_count = places.size();
    quern_error error = blank();
    checked(js, quern_kernel_launch(context_of(js, given[0]), kernel_of(js, given[1]), &made, &error), error);
    return nullptr;
  });
}

}  // namespace quern::node
