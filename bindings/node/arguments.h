// An op's args struct out of a JavaScript object's properties: a tensor is {data, shape, strides, code, bits}, over a
// typed array, or has {address, deviceType, deviceId} for its data.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <node_api.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "described.h"
#include "js.h"
#include "quern.h"

namespace quern::node {

using described::blank;
using described::Common;
using described::Field;
using described::Op;

// A call's tensors, for the time of the call.
class Tensors {
 public:
  explicit Tensors(const Js& js) : js_(js) {}

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
    if (const napi_value address = js_.property(given, "address"); !js_.is_absent(address)) {
      tensor.data = js_.address(address, argument);
      tensor.device = {js_.integer<std::int32_t>(js_.property(given, "deviceType"), argument),
                       js_.integer<std::int32_t>(js_.property(given, "deviceId"), argument)};
      return &tensor;
    }
    const napi_value data = js_.property(given, "data");
    if (js_.is_absent(data)) return &tensor;  // for prepare and workspace
    bool is_typed = false;
    js_.check(napi_is_typedarray(js_.env(), data, &is_typed));
    if (!is_typed) js_.refuse(argument + ": a tensor's data is a typed array");
    std::size_t bytes = 0;
    std::tie(tensor.data, bytes) = js_.memory(data);
    check_reach(argument, made, strided, bytes);
    return &tensor;
  }

 private:
  struct Tensor {
    DLTensor tensor = {};
    std::vector<std::int64_t> extents;
  };

  std::vector<std::int64_t> extents(napi_value list, const std::string& argument) {
    std::vector<std::int64_t> made(js_.length(list, argument + ": shape and strides"));
    for (std::uint32_t i = 0; i < made.size(); ++i) {
      made[i] = js_.integer<std::int64_t>(js_.element(list, i), argument);
    }
    return made;
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

  const Js& js_;
  std::vector<std::unique_ptr<Tensor>> tensors_;
};

// A call's args struct and tensors, for the time of the call.
class Arguments {
 public:
  Arguments(const Js& js, quern_context* context, const Op& op, napi_value given)
      : js_(js), context_(context), tensors_(js) {
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
  void put(const Op& op, const std::string& name, napi_value value) {
    if (name == "workspace") {
      const DLTensor* tensor = tensors_.read(name, value);
      common().workspace = tensor->data;
      common().workspace_size = static_cast<std::uint64_t>(tensor->shape[0]) * tensor->dtype.bits / 8;
      return;
    }
    if (name == "stream") {
      common().stream = js_.address(value, name);
      return;
    }
    const Field* part = nullptr;
    for (const Field& field : op.fields) {
      if (field.kind == described::kPart) part = &field;
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
      case described::kTensor:
        return place(tensors_.read(name, value));
      case described::kTensors:
      case described::kFloats: {
        const std::uint32_t count = js_.length(value, name);
        std::vector<const DLTensor*> tensors;
        std::vector<float> numbers;
        for (std::uint32_t i = 0; i < count; ++i) {
          const napi_value item = js_.element(value, i);
          if (field.kind == described::kFloats) {
            numbers.push_back(static_cast<float>(js_.number(item, name)));
          } else {
            tensors.push_back(js_.is_absent(item) ? nullptr : tensors_.read(name, item));
          }
        }
        std::memcpy(memory + field.count, &count, sizeof count);
        if (field.kind == described::kFloats) {
          return place(static_cast<const float*>(numbers_.emplace_back(std::move(numbers)).data()));
        }
        return place(static_cast<const DLTensor* const*>(lists_.emplace_back(std::move(tensors)).data()));
      }
      case described::kExpression: {
        const quern_expression* made = nullptr;
        quern_error error = blank();
        const std::string formula = js_.text(value, name);
        checked(js_, quern_expression_create(context_, formula.c_str(), &made, &error), error);
        return place(made);
      }
      case described::kInt32:
        return place(js_.integer<std::int32_t>(value, name));
      case described::kUint32:
        return place(js_.integer<std::uint32_t>(value, name));
      case described::kInt64:
        return place(js_.integer<std::int64_t>(value, name));
      case described::kUint64:
        return place(js_.integer<std::uint64_t>(value, name));
      case described::kFloat:
        return place(static_cast<float>(js_.number(value, name)));
      case described::kDouble:
        return place(js_.number(value, name));
      case described::kPart:
        break;  // has no name
    }
  }

  const Js& js_;
  quern_context* context_;
  alignas(16) std::array<std::byte, 2048> memory_ = {};
  Tensors tensors_;
  std::vector<std::vector<const DLTensor*>> lists_;  // moved, their elements stay where they are
  std::vector<std::vector<float>> numbers_;
  std::vector<std::unique_ptr<std::vector<std::uint64_t>>> parts_;
};

}  // namespace quern::node
