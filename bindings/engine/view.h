// A DLTensor with room for its shape and strides: part of some memory, borrowed by quern for the length of a call.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <initializer_list>

#include "quern.h"

namespace quern::engine {

inline constexpr DLDataType kBf16{kDLBfloat, 16, 1}, kF32{kDLFloat, 32, 1}, kI32{kDLInt, 32, 1}, kI64{kDLInt, 64, 1},
    kE4m3{kDLFloat8_e4m3fn, 8, 1};

class View {
 public:
  View() = default;
  // At most four dimensions; without strides compact, else one for each, in elements.
  View(void* data, DLDevice device, DLDataType dtype, std::initializer_list<std::int64_t> shape,
       std::initializer_list<std::int64_t> strides = {})
      : strided_(strides.size() != 0) {
    std::copy(shape.begin(), shape.end(), shape_.begin());
    std::copy(strides.begin(), strides.end(), strides_.begin());
    tensor_.data = data;
    tensor_.device = device;
    tensor_.dtype = dtype;
    tensor_.ndim = static_cast<std::int32_t>(shape.size());
  }
  // Where quern.h wants a tensor; NULL of a view of nothing.
  operator const DLTensor*() const {  // NOLINT(google-explicit-constructor)
    if (tensor_.ndim == 0) return nullptr;
    tensor_.shape = shape_.data();
    tensor_.strides = strided_ ? strides_.data() : nullptr;
    return &tensor_;
  }

 private:
  bool strided_ = false;
  mutable std::array<std::int64_t, 4> shape_{}, strides_{};
  mutable DLTensor tensor_{};
};

}  // namespace quern::engine
