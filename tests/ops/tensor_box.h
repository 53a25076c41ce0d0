// A tensor as the C ABI takes it, with the memory of its shape.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>

#include "capi/quern.h"
#include "tests/ops/device.h"

namespace quern::test {

// A DLTensor with its shape and strides beside it. Stays where it is.
class TensorBox {
 public:
  TensorBox() = default;
  TensorBox(const TensorBox&) = delete;
  TensorBox& operator=(const TensorBox&) = delete;

  // Compact when `strides` is empty.
  void set(DLDataType dtype, std::initializer_list<std::int64_t> extents,
           std::initializer_list<std::int64_t> steps = {}) {
    tensor = DLTensor{};
    tensor.device = dl_device();
    tensor.dtype = dtype;
    tensor.ndim = static_cast<std::int32_t>(extents.size());
    std::copy(extents.begin(), extents.end(), shape);
    std::copy(steps.begin(), steps.end(), strides);
    tensor.shape = shape;
    tensor.strides = steps.size() > 0 ? strides : nullptr;
  }
  void place(void* data, std::uint64_t byte_offset = 0) {
    tensor.data = data;
    tensor.byte_offset = byte_offset;
  }
  const DLTensor* get() const { return &tensor; }
  bool given() const { return tensor.shape != nullptr; }

  DLTensor tensor{};
  std::int64_t shape[4] = {};
  std::int64_t strides[4] = {};
};

}  // namespace quern::test
