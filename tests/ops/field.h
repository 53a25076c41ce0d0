// A tensor of any element type that pointwise and copy take, of up to six dimensions with strides of any sign, on the
// device with its mirror here.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "tests/ops/device.h"
#include "tests/ops/element.h"
#include "tests/ops/random.h"

namespace quern::test {

enum class Stored : std::uint8_t { f32, f16, bf16, e4m3, e5m2, i8, u8, i16, i32, i64, boolean };
constexpr Stored kAllStored[] = {Stored::f32, Stored::f16, Stored::bf16, Stored::e4m3, Stored::e5m2,   Stored::i8,
                                 Stored::u8,  Stored::i16, Stored::i32,  Stored::i64,  Stored::boolean};

inline const char* name_of(Stored type) {
  constexpr const char* kNames[] = {"f32",   "f16",   "bf16",  "e4m3",  "e5m2", "int8",
                                    "uint8", "int16", "int32", "int64", "bool"};
  return kNames[static_cast<int>(type)];
}
inline std::int64_t bytes_of(Stored type) {
  constexpr std::int64_t kBytes[] = {4, 2, 2, 1, 1, 1, 1, 2, 4, 8, 1};
  return kBytes[static_cast<int>(type)];
}
inline bool is_whole(Stored type) { return type >= Stored::i8; }
inline DLDataType type_of(Stored type) {
  if (type == Stored::boolean) return {kDLBool, 8, 1};
  if (type == Stored::u8) return {kDLUInt, 8, 1};
  if (is_whole(type)) return {kDLInt, static_cast<std::uint8_t>(8 * bytes_of(type)), 1};
  constexpr Element::Kind kKinds[] = {Element::f32, Element::f16, Element::bf16, Element::e4m3, Element::e5m2};
  return Element(kKinds[static_cast<int>(type)]).type();
}
inline Element element_of(Stored type) {
  constexpr Element::Kind kKinds[] = {Element::f32, Element::f16, Element::bf16, Element::e4m3, Element::e5m2};
  return kKinds[static_cast<int>(type)];
}
inline std::int64_t least_of(Stored type) {
  if (type == Stored::u8 || type == Stored::boolean) return 0;
  return type == Stored::i64 ? INT64_MIN : -(std::int64_t{1} << (8 * bytes_of(type) - 1));
}
inline std::int64_t largest_of(Stored type) {
  if (type == Stored::boolean) return 1;
  if (type == Stored::u8) return 255;
  return type == Stored::i64 ? INT64_MAX : (std::int64_t{1} << (8 * bytes_of(type) - 1)) - 1;
}

// What a number becomes by being stored: floating-point types hold it in `real`, others in `whole`.
struct Held {
  double real = 0;
  std::int64_t whole = 0;
  friend bool operator==(const Held& a, const Held& b) {
    return a.whole == b.whole && (a.real == b.real || (std::isnan(a.real) && std::isnan(b.real)));
  }
};
inline Held stored(Stored type, double number) {
  if (!is_whole(type)) return {element_of(type).rounded(number), 0};
  if (type == Stored::boolean) return {0, number != 0 ? 1 : 0};
  if (std::isnan(number)) return {};
  if (number >= static_cast<double>(largest_of(type))) return {0, largest_of(type)};
  if (number <= static_cast<double>(least_of(type))) return {0, least_of(type)};
  return {0, static_cast<std::int64_t>(number)};
}
inline Held stored_whole(Stored type, std::int64_t whole) {
  if (!is_whole(type)) return {element_of(type).rounded(static_cast<double>(static_cast<float>(whole))), 0};
  if (type == Stored::boolean) return {0, whole != 0 ? 1 : 0};
  return {0, std::clamp(whole, least_of(type), largest_of(type))};
}

using Extents = std::vector<std::int64_t>;

inline std::int64_t count_of(const Extents& shape) {
  std::int64_t count = 1;
  for (const std::int64_t extent : shape) count *= extent;
  return count;
}
// Calls `visit` with the indices of every element, in row-major order.
template <class Visit>
void each_index(const Extents& shape, Visit visit) {
  Extents index(shape.size(), 0);
  for (std::int64_t left = count_of(shape); left > 0; --left) {
    visit(index);
    for (std::size_t d = shape.size(); d-- > 0;) {
      if (++index[d] < shape[d]) break;
      index[d] = 0;
    }
  }
}

// Stays where it is. Filled with bytes of 0xff at first, with as many around the elements.
class Field {
 public:
  // Compact where there are no strides. `offset`: bytes of the first element behind a 16-byte boundary.
  Field(Stored type, Extents shape, Extents strides = {}, std::int64_t offset = 0)
      : type_(type), shape_(std::move(shape)), strides_(std::move(strides)) {
    if (strides_.size() != shape_.size()) {
      strides_.assign(shape_.size(), 1);
      for (std::size_t d = shape_.size(); d-- > 1;)
        strides_[d - 1] = strides_[d] * std::max<std::int64_t>(shape_[d], 1);
    }
    std::int64_t low = 0, high = 1;
    for (std::size_t d = 0; d < shape_.size(); ++d) {
      const std::int64_t reach = (std::max<std::int64_t>(shape_[d], 1) - 1) * strides_[d];
      (reach < 0 ? low : high) += reach;
    }
    first_ = (-low * bytes_of(type_) + kGuard + 15) / 16 * 16 + offset;
    host_.assign(static_cast<std::size_t>(first_ + high * bytes_of(type_) + kGuard), 0xff);
    buffer_ = Buffer(host_.size(), 0xff);
    tensor_.device = dl_device();
    tensor_.dtype = type_of(type_);
    tensor_.ndim = static_cast<std::int32_t>(shape_.size());
    tensor_.shape = shape_.data();
    tensor_.strides = strides_.data();
    tensor_.data = buffer_.data();
    tensor_.byte_offset = static_cast<std::uint64_t>(first_);
  }
  Field(const Field&) = delete;
  Field& operator=(const Field&) = delete;

  // Index 0 stands for all of a dimension that is missing or 1.
  Held get(const Extents& index) const {
    const unsigned char* at = &host_[place(index)];
    if (!is_whole(type_)) return {element_of(type_).load(at), 0};
    std::int64_t whole = 0;
    std::memcpy(&whole, at, static_cast<std::size_t>(bytes_of(type_)));
    const int unused = 64 - 8 * static_cast<int>(bytes_of(type_));
    if (type_ == Stored::u8) return {0, whole};
    if (type_ == Stored::boolean) return {0, whole != 0 ? 1 : 0};
    return {0, static_cast<std::int64_t>(static_cast<std::uint64_t>(whole) << unused) >> unused};
  }
  // As an expression reads it: f32.
  double number(const Extents& index) const {
    const Held held = get(index);
    return is_whole(type_) ? static_cast<double>(static_cast<float>(held.whole)) : held.real;
  }
  void set(const Held& value, const Extents& index) {
    unsigned char* at = &host_[place(index)];
    if (is_whole(type_)) {
      std::memcpy(at, &value.whole, static_cast<std::size_t>(bytes_of(type_)));
    } else {
      element_of(type_).store(at, value.real);
    }
  }
  // Numbers of every size, now and then a special one.
  void fill(Random& random) {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    const double special[] = {0.0,     -0.0,    kInfinity, -kInfinity, std::nan(""), 0x1p-149, -0x1p-130,
                              65519.0, -3.4e38, 448.5,     127.5,      -128.75,      0x1p31,   -0x1p63};
    each_index(shape_, [&](const Extents& index) {
      if (is_whole(type_)) {
        const auto bits = static_cast<std::int64_t>(random.next() >> random.below(64));
        set(stored_whole(type_, random.below(2) == 0 ? bits : -bits), index);
      } else {
        const double scale = std::ldexp(1.0, random.between(-8, 8));
        set({random.below(9) == 0 ? special[random.below(std::size(special))] : random.normal() * scale, 0}, index);
      }
    });
  }

  void upload() { buffer_.write(host_); }
  void download() { host_ = buffer_.read(); }
  // Whether everything but the elements is still as it was at first.
  bool is_clean_outside() const {
    std::vector<bool> inside(host_.size(), false);
    each_index(shape_, [&](const Extents& index) {
      for (std::int64_t b = 0; b < bytes_of(type_); ++b) inside[place(index) + static_cast<std::size_t>(b)] = true;
    });
    for (std::size_t i = 0; i < host_.size(); ++i) {
      if (!inside[i] && host_[i] != 0xff) return false;
    }
    return true;
  }
  bool is_untouched() const {
    return std::all_of(host_.begin(), host_.end(), [](unsigned char byte) { return byte == 0xff; });
  }
  const DLTensor* tensor() const { return &tensor_; }
  DLTensor& change() { return tensor_; }
  const std::vector<unsigned char>& memory() const { return host_; }
  const Extents& shape() const { return shape_; }
  Stored type() const { return type_; }
  Extents& extents() { return shape_; }
  Extents& strides() { return strides_; }

 private:
  static constexpr std::int64_t kGuard = 64;

  std::size_t place(const Extents& index) const {
    std::int64_t at = 0;
    const std::size_t missing = index.size() - shape_.size();
    for (std::size_t d = 0; d < shape_.size(); ++d) at += (shape_[d] == 1 ? 0 : index[d + missing]) * strides_[d];
    return static_cast<std::size_t>(first_ + at * bytes_of(type_));
  }

  Stored type_;
  Extents shape_, strides_;
  std::int64_t first_ = 0;
  std::vector<unsigned char> host_;
  Buffer buffer_;
  DLTensor tensor_{};
};

// Strides for a shape: any order of the dimensions, gaps, some of them backwards.
inline Extents any_strides(Random& random, const Extents& shape) {
  std::vector<std::size_t> order(shape.size());
  for (std::size_t d = 0; d < order.size(); ++d) order[d] = d;
  if (random.below(2) == 0) random.shuffle(order);
  Extents strides(shape.size(), 0);
  std::int64_t step = random.below(4) == 0 ? 2 : 1;
  for (std::size_t i = order.size(); i-- > 0;) {
    strides[order[i]] = random.below(5) == 0 ? -step : step;
    step = step * shape[order[i]] + (random.below(4) == 0 ? static_cast<std::int64_t>(random.below(9)) : 0);
  }
  return strides;
}

}  // namespace quern::test
