// quern for Node.js, by Node-API: contexts, aligned memory, and the three calls of any op, whose arguments are an
// object's properties. What index.js makes convenient is plain here: a tensor is {data, shape, strides, code, bits}.
// SPDX-License-Identifier: Apache-2.0
#include <node_api.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "described.h"
#include "quern.h"

namespace {

using quern::described::blank;
using quern::described::Common;
using quern::described::Constant;
using quern::described::constants;
using quern::described::Field;
using quern::described::Op;
using quern::described::ops;

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
void checked(const Js& js, std::int32_t status, const quern_error& error) {
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

// A call's args struct and tensors, for the time of the call.
class Arguments {
 public:
  Arguments(const Js& js, quern_context* context, const Op& op, napi_value given) : js_(js), context_(context) {
    const auto size = static_cast<std::uint32_t>(op.size);
    std::memcpy(memory_.data(), &size, sizeof size);
    napi_value names = nullptr;
    std::uint32_t count = 0;
    js.check(napi_get_property_names(js.env(), given, &names));
    js.check(napi_get_array_length(js.env(), names, &count));
    for (std::uint32_t i = 0; i < count; ++i) {
      napi_value key = nullptr, value = nullptr;
      js.check(napi_get_element(js.env(), names, i, &key));
      js.check(napi_get_property(js.env(), given, key, &value));
      if (!js.is_absent(value)) put(op, js.text(key, "argument"), value);
    }
  }

  [[nodiscard]] const void* get() const { return memory_.data(); }
  [[nodiscard]] Common& common() { return *reinterpret_cast<Common*>(memory_.data()); }

 private:
  struct Tensor {
    DLTensor tensor = {};
    std::vector<std::int64_t> extents;
  };

  void put(const Op& op, const std::string& name, napi_value value) {
    if (name == "workspace") {
      const DLTensor* tensor = read(name, value);
      common().workspace = tensor->data;
      common().workspace_size = static_cast<std::uint64_t>(tensor->shape[0]) * tensor->dtype.bits / 8;
      return;
    }
    const Field* part = nullptr;
    for (const Field& field : op.fields) {
      if (field.kind == quern::described::kPart) part = &field;
      if (name == field.name) return store(struct_of(part), field, name, value);
    }
    js_.refuse(std::string(op.name) + " has no argument '" + name + "'");
  }

  // The memory of the args struct, or of a part, which the args struct points to from its first use on.
  std::byte* struct_of(const Field* part) {
    if (part == nullptr) return memory_.data();
    std::byte* start = nullptr;
    std::memcpy(&start, memory_.data() + part->offset, sizeof start);
    if (start == nullptr) {
      auto& made = parts_.emplace_back(std::make_unique<std::vector<std::uint64_t>>(part->count / 8 + 1));
      start = reinterpret_cast<std::byte*>(made->data());
      const auto size = static_cast<std::uint32_t>(part->count);
      std::memcpy(start, &size, sizeof size);
      std::memcpy(memory_.data() + part->offset, &start, sizeof start);
    }
    return start;
  }

  void store(std::byte* memory, const Field& field, const std::string& name, napi_value value) {
    const auto place = [&](auto made) { std::memcpy(memory + field.offset, &made, sizeof made); };
    switch (field.kind) {
      case quern::described::kTensor:
        return place(read(name, value));
      case quern::described::kTensors:
      case quern::described::kFloats: {
        std::uint32_t count = 0;
        bool is_array = false;
        js_.check(napi_is_array(js_.env(), value, &is_array));
        if (!is_array) js_.refuse(name + ": an array is wanted");
        js_.check(napi_get_array_length(js_.env(), value, &count));
        std::vector<const DLTensor*> tensors;
        std::vector<float> numbers;
        for (std::uint32_t i = 0; i < count; ++i) {
          napi_value item = nullptr;
          js_.check(napi_get_element(js_.env(), value, i, &item));
          if (field.kind == quern::described::kFloats) {
            numbers.push_back(static_cast<float>(js_.number(item, name)));
          } else {
            tensors.push_back(js_.is_absent(item) ? nullptr : read(name, item));
          }
        }
        std::memcpy(memory + field.count, &count, sizeof count);
        if (field.kind == quern::described::kFloats) {
          return place(static_cast<const float*>(numbers_.emplace_back(std::move(numbers)).data()));
        }
        return place(static_cast<const DLTensor* const*>(lists_.emplace_back(std::move(tensors)).data()));
      }
      case quern::described::kExpression: {
        const quern_expression* made = nullptr;
        quern_error error = blank();
        const std::string formula = js_.text(value, name);
        checked(js_, quern_expression_create(context_, formula.c_str(), &made, &error), error);
        return place(made);
      }
      case quern::described::kInt32:
        return place(js_.integer<std::int32_t>(value, name));
      case quern::described::kUint32:
        return place(js_.integer<std::uint32_t>(value, name));
      case quern::described::kInt64:
        return place(js_.integer<std::int64_t>(value, name));
      case quern::described::kUint64:
        return place(js_.integer<std::uint64_t>(value, name));
      case quern::described::kFloat:
        return place(static_cast<float>(js_.number(value, name)));
      case quern::described::kDouble:
        return place(js_.number(value, name));
      case quern::described::kPart:
        break;  // has no name
    }
  }

  std::vector<std::int64_t> extents(napi_value list, const std::string& argument) {
    bool is_array = false;
    js_.check(napi_is_array(js_.env(), list, &is_array));
    if (!is_array) js_.refuse(argument + ": shape and strides are arrays of numbers");
    std::uint32_t count = 0;
    js_.check(napi_get_array_length(js_.env(), list, &count));
    std::vector<std::int64_t> made(count);
    for (std::uint32_t i = 0; i < count; ++i) {
      napi_value item = nullptr;
      js_.check(napi_get_element(js_.env(), list, i, &item));
      made[i] = js_.integer<std::int64_t>(item, argument);
    }
    return made;
  }

  const DLTensor* read(const std::string& argument, napi_value given) {
    if (js_.type(given) != napi_object) js_.refuse(argument + ": a quern.tensor is wanted");
    Tensor& made = *tensors_.emplace_back(std::make_unique<Tensor>());
    made.extents = extents(js_.property(given, "shape"), argument);
    const std::size_t dimensions = made.extents.size();
    const napi_value strides = js_.property(given, "strides");
    const bool strided = !js_.is_absent(strides);
    if (strided) {
      const std::vector<std::int64_t> steps = extents(strides, argument);
      if (steps.size() != dimensions) js_.refuse(argument + ": as many strides as extents are wanted");
      made.extents.insert(made.extents.end(), steps.begin(), steps.end());
    }
    DLTensor& tensor = made.tensor;
    tensor.device = {kDLCPU, 0};
    tensor.ndim = static_cast<std::int32_t>(dimensions);
    tensor.dtype = {js_.integer<std::uint8_t>(js_.property(given, "code"), argument),
                    js_.integer<std::uint8_t>(js_.property(given, "bits"), argument), 1};
    tensor.shape = made.extents.data();
    tensor.strides = strided ? made.extents.data() + dimensions : nullptr;
    const napi_value data = js_.property(given, "data");
    if (js_.is_absent(data)) return &tensor;  // for prepare and workspace
    bool is_typed = false;
    js_.check(napi_is_typedarray(js_.env(), data, &is_typed));
    if (!is_typed) js_.refuse(argument + ": a tensor's data is a typed array");
    napi_typedarray_type type = napi_uint8_array;
    std::size_t length = 0;
    js_.check(napi_get_typedarray_info(js_.env(), data, &type, &length, &tensor.data, nullptr, nullptr));
    check_reach(argument, made, strided, length * bytes_of(type));
    return &tensor;
  }

  // Nothing beyond an array's memory is ever handed to a kernel.
  void check_reach(const std::string& argument, const Tensor& made, bool strided, std::size_t bytes) const {
    __int128 last = 0, compact = 1;
    const auto dimensions = static_cast<std::size_t>(made.tensor.ndim);
    for (std::size_t i = dimensions; i-- > 0;) {
      const std::int64_t extent = made.extents[i];
      const __int128 stride = strided ? made.extents[dimensions + i] : compact;
      if (extent < 0 || stride < 0) js_.refuse(argument + ": negative extents and strides are not for typed arrays");
      if (extent == 0) return;
      last += (extent - 1) * stride;
      compact *= extent;
      if (last > INT64_MAX || compact > INT64_MAX) break;
    }
    if ((last + 1) * made.tensor.dtype.bits > static_cast<__int128>(bytes) * 8) {
      js_.refuse(argument + ": the shape reaches beyond the array's " + std::to_string(bytes) + " bytes");
    }
  }

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

  const Js& js_;
  quern_context* context_;
  alignas(16) std::array<std::byte, 2048> memory_ = {};
  std::vector<std::unique_ptr<Tensor>> tensors_;
  std::vector<std::vector<const DLTensor*>> lists_;  // moved, their elements stay where they are
  std::vector<std::vector<float>> numbers_;
  std::vector<std::unique_ptr<std::vector<std::uint64_t>>> parts_;
};

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

NAPI_MODULE(quern, start)
