// A call as it would be with its tensors elsewhere.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "capi/quern.h"
#include "sources/repeat/fields.h"
#include "sources/repeat/signature.h"

namespace quern::ops {

// Where each tensor's bytes lie, from its address on; those of Signature::addresses(), in their order.
struct Extents {
  std::array<std::int64_t, Signature::kMostAddresses> begin, end;
  std::size_t size = 0;
  bool known = true;  // none is longer than what a place between others can be

  template <std::size_t from, std::size_t to>
  void plain(const void*) {}
  void stream(void*) {}
  void handle(const void*) {}
  void floats(const float*, std::uint32_t, std::uint32_t) {}
  void workspace(const void* at, std::uint64_t bytes) {
    if (at != nullptr) add(0, static_cast<std::int64_t>(bytes > kMost ? kMost : bytes));
  }
  void tensor(const DLTensor* tensor);
  void tensors(const DLTensor* const* list, std::uint32_t count, std::uint32_t) {
    for (std::uint32_t i = 0; i < count; ++i) tensor(list[i]);
  }
  template <class Part>
  void part(const Part* part) {
    if (part != nullptr) each_field(*part, *this);
  }

  static constexpr std::uint64_t kMost = std::uint64_t{1} << 39;

 private:
  void add(std::int64_t from, std::int64_t to) {
    known = known && from >= -static_cast<std::int64_t>(kMost) && to <= static_cast<std::int64_t>(kMost);
    // What has no bytes has a place all the same.
    begin[size] = from, end[size++] = to > from ? to : from + 1;
  }
};

// A copy of a call whose signature fits, with other addresses.
template <class Args>
class Moved {
 public:
  Moved(const Args& args, const std::uint64_t* addresses) : args_(args), next_(addresses) { each_field(args_, *this); }
  Moved(const Moved&) = delete;
  Moved& operator=(const Moved&) = delete;

  const Args& args() const { return args_; }

  template <std::size_t from, std::size_t to>
  void plain(const void*) {}
  void stream(void*) {}
  void handle(const void*) {}
  void floats(const float*, std::uint32_t, std::uint32_t) {}
  void workspace(void*& at, std::uint64_t) {
    if (at != nullptr) at = next();
  }
  void tensor(const DLTensor*& tensor) {
    if (tensor != nullptr) tensor = moved(*tensor);
  }
  template <class List>
  void tensors(List& list, std::uint32_t count, std::uint32_t) {
    const DLTensor** const copy = lists_.data() + listed_;
    for (std::uint32_t i = 0; i < count; ++i) copy[i] = list[i] != nullptr ? moved(*list[i]) : nullptr;
    listed_ += count;
    if (count != 0) list = copy;
  }
  void part(const quern_epilogue*& part) { copy_part(part, epilogue_); }
  void part(const quern_rope_options*& part) { copy_part(part, rope_); }

 private:
  void* next() { return reinterpret_cast<void*>(*next_++); }  // NOLINT(performance-no-int-to-ptr)
  const DLTensor* moved(const DLTensor& tensor) {
    DLTensor& copy = tensors_[count_++];
    copy = tensor;
    if (copy.data != nullptr) copy.data = next(), copy.byte_offset = 0;
    return &copy;
  }
  template <class Part>
  void copy_part(const Part*& part, Part& copy) {
    if (part == nullptr) return;
    copy = *part;
    each_field(copy, *this);
    part = &copy;
  }

  Args args_;
  const std::uint64_t* next_;
  std::array<DLTensor, Signature::kMostAddresses> tensors_;
  std::array<const DLTensor*, 2 * Signature::kMostListed> lists_;
  std::size_t count_ = 0, listed_ = 0;
  quern_epilogue epilogue_;
  quern_rope_options rope_;
};

}  // namespace quern::ops
