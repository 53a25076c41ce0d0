// A tensor on the device with its mirror here: numbers are set and read by their indices, whatever the strides.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <vector>

#include "tests/ops/device.h"
#include "tests/ops/element.h"
#include "tests/ops/tensor_box.h"

namespace quern::test {

// The width of an integer's elements: 32 or 64.
struct IntegerBits {
  int bits;
};

// Stays where it is. Filled with bytes of 0xff at first, which are NaN in every floating-point type.
class Array {
 public:
  using Extents = std::vector<std::int64_t>;

  Array(Element element, Extents shape, Extents strides = {})
      : element_(element), type_(element.type()), shape_(std::move(shape)) {
    make(std::move(strides), element.bytes());
  }
  Array(IntegerBits of, Extents shape, Extents strides = {})
      : element_(Element::f32), type_{kDLInt, static_cast<std::uint8_t>(of.bits), 1}, shape_(std::move(shape)) {
    make(std::move(strides), static_cast<std::size_t>(of.bits) / 8);
  }
  static Array bytes(std::int64_t count) {
    Array array(Element::i8, {count});
    array.box_.tensor.dtype = {kDLUInt, 8, 1};
    return array;
  }
  Array(Array&& other) noexcept
      : element_(other.element_),
        type_(other.type_),
        shape_(std::move(other.shape_)),
        strides_(std::move(other.strides_)),
        size_(other.size_),
        host_(std::move(other.host_)),
        buffer_(std::move(other.buffer_)) {
    set_box();
    box_.tensor.dtype = other.box_.tensor.dtype;
  }
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;

  template <class... Index>
  double get(Index... index) const {
    return element_.load(&host_[at(index...)]);
  }
  template <class... Index>
  void set(double value, Index... index) {
    element_.store(&host_[at(index...)], value);
  }
  template <class... Index>
  std::int64_t integer(Index... index) const {
    std::int64_t value = 0;
    std::memcpy(&value, &host_[at(index...)], size_);
    return size_ == 4 ? static_cast<std::int32_t>(value) : size_ == 1 ? static_cast<std::uint8_t>(value) : value;
  }
  template <class... Index>
  void set_integer(std::int64_t value, Index... index) {
    std::memcpy(&host_[at(index...)], &value, size_);
  }
  void fill(const std::vector<std::int64_t>& values) {
    for (std::size_t i = 0; i < values.size(); ++i) set_integer(values[i], static_cast<std::int64_t>(i));
  }
  template <class... Index>
  bool is_untouched(Index... index) const {
    for (std::size_t i = 0; i < size_; ++i) {
      if (host_[at(index...) + i] != 0xff) return false;
    }
    return true;
  }

  // As it was made.
  void poison() { host_.assign(host_.size(), 0xff); }
  void upload() { buffer_.write(host_); }
  void download() { host_ = buffer_.read(); }
  const std::vector<unsigned char>& memory() const { return host_; }
  std::int64_t extent(int d) const { return shape_[static_cast<std::size_t>(d)]; }
  Element element() const { return element_; }
  TensorBox& box() { return box_; }
  const DLTensor* tensor() { return box_.get(); }

 private:
  void make(Extents strides, std::size_t size) {
    size_ = size;
    strides_ = std::move(strides);
    if (strides_.empty()) {
      strides_.assign(shape_.size(), 1);
      for (std::size_t d = shape_.size() - 1; d-- > 0;) strides_[d] = strides_[d + 1] * shape_[d + 1];
    }
    std::int64_t count = 1;
    for (std::size_t d = 0; d < shape_.size(); ++d) count += (shape_[d] - 1) * strides_[d];
    for (const std::int64_t extent : shape_) count = extent == 0 ? 0 : count;
    host_.assign(static_cast<std::size_t>(count) * size_, 0xff);
    buffer_ = Buffer(host_.size(), 0xff);
    set_box();
  }
  void set_box() {
    box_.tensor = DLTensor{};
    box_.tensor.device = dl_device();
    box_.tensor.dtype = type_;
    box_.tensor.ndim = static_cast<std::int32_t>(shape_.size());
    for (std::size_t d = 0; d < shape_.size(); ++d) box_.shape[d] = shape_[d], box_.strides[d] = strides_[d];
    box_.tensor.shape = box_.shape;
    box_.tensor.strides = box_.strides;
    box_.place(buffer_.data());
  }
  template <class... Index>
  std::size_t at(Index... index) const {
    const std::array<std::int64_t, sizeof...(Index)> indices{static_cast<std::int64_t>(index)...};
    std::int64_t place = 0;
    for (std::size_t d = 0; d < indices.size(); ++d) place += indices[d] * strides_[d];
    return static_cast<std::size_t>(place) * size_;
  }

  Element element_;
  DLDataType type_;
  Extents shape_, strides_;
  std::size_t size_ = 0;
  std::vector<unsigned char> host_;
  Buffer buffer_;
  TensorBox box_;
};

}  // namespace quern::test
