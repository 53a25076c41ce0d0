// A DLTensor with room for its shape: compact, row-major, borrowed by quern for the length of a call.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>

#include "quern.h"

namespace quern::demo {

inline constexpr DLDataType kBf16{kDLBfloat, 16, 1};
inline constexpr DLDataType kF32{kDLFloat, 32, 1};
inline constexpr DLDataType kI32{kDLInt, 32, 1};

class Tensor {
 public:
  // At most four dimensions.
  Tensor(void* data, DLDevice device, DLDataType dtype, std::initializer_list<std::int64_t> shape) {
    for (const std::int64_t extent : shape) shape_[static_cast<std::size_t>(tensor_.ndim++)] = extent;
    tensor_.data = data;
    tensor_.device = device;
    tensor_.dtype = dtype;
    tensor_.shape = shape_.data();
  }
  Tensor(const Tensor&) = delete;
  Tensor& operator=(const Tensor&) = delete;
  operator const DLTensor*() const { return &tensor_; }  // NOLINT: it stands where quern.h wants one

 private:
  std::array<std::int64_t, 4> shape_{};
  DLTensor tensor_{};
};

}  // namespace quern::demo
