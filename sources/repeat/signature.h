// A call as a row of numbers: all that its checks, its kernels and its launches hang on, but for where its tensors lie.
// Two calls with the same numbers, whose tensors lie in the same way to each other, are the same to the last bit of
// what is launched, but for the addresses.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "capi/quern.h"
#include "sources/op.h"
#include "sources/repeat/fields.h"

namespace quern::ops {

// Written by every call, which is why it is no longer than needed and nothing in it is set beforehand.
class Signature {
 public:
  static constexpr std::size_t kMostWords = 208, kMostAddresses = 40;
  static constexpr std::uint32_t kMostRank = 6, kMostListed = 16;
  static_assert(kMostTensorsOfACall <= kMostAddresses);
  // No op's kernel asks for more of where its memory begins.
  static constexpr std::uint64_t kAlignments = 256;

  template <class Args>
  Signature(Tag op, DLDevice device, const Args& args) : device_(std::bit_cast<std::uint64_t>(device)) {
    each_field(args, *this);
    words_[0] = present_ << 8 | op;
    if ((count() & 1) != 0) *next_++ = 0;
  }
  Signature(const Signature&) = delete;
  Signature& operator=(const Signature&) = delete;

  // False: a call that is not told by its numbers. Its checks say what is wrong with it, or it is too long.
  bool fits() const { return fits_; }
  std::size_t count() const { return static_cast<std::size_t>(next_ - words_.data()); }
  const std::uint64_t* words() const { return words_.data(); }
  std::size_t address_count() const { return addresses_count_; }
  const std::uint64_t* addresses() const { return addresses_.data(); }
  void* stream() const { return stream_; }

  // Never 0. A sum of products, none of which waits for another.
  std::uint64_t hash() const {
    std::uint64_t even = 0, odd = 0;
    const std::size_t words = count();
#pragma GCC unroll 4
    for (std::size_t i = 0; i < words; i += 2) {
      even += words_[i] * kFactors[i];
      odd += words_[i + 1] * kFactors[i + 1];
    }
    const std::uint64_t both = (even ^ std::rotl(odd, 32)) * 0x9e3779b97f4a7c15u;
    return (both ^ both >> 32) | 1;
  }

  // For each_field().
  template <std::size_t from, std::size_t to>
  void plain(const void* object) {
    constexpr std::size_t kWords = (to - from + 7) / 8;
    next_[kWords - 1] = 0;
    std::memcpy(next_, static_cast<const unsigned char*>(object) + from, to - from);
    next_ += kWords;
  }
  void stream(void* stream) { stream_ = stream; }
  void workspace(const void* at, std::uint64_t) {
    const auto address = reinterpret_cast<std::uintptr_t>(at);
    *next_++ = address % kAlignments << 1 | (at != nullptr);
    if (at != nullptr) addresses_[addresses_count_++] = address;
  }
  void tensor(const DLTensor* tensor) {
    present_ = present_ << 1 | (tensor != nullptr);
    if (tensor != nullptr) add(*tensor);
  }
  void handle(const void* handle) { *next_++ = reinterpret_cast<std::uintptr_t>(handle); }
  template <class Part>
  void part(const Part* part) {
    present_ = present_ << 1 | (part != nullptr);
    if (part == nullptr) return;
    if (part->size != sizeof(Part)) {
      fits_ = false;
    } else {
      each_field(*part, *this);
    }
  }
  // A list may be shorter than its count says where that is above what the op allows: it is refused without being read.
  void tensors(const DLTensor* const* list, std::uint32_t count, std::uint32_t most);
  void floats(const float* list, std::uint32_t count, std::uint32_t most);

 private:
  static constexpr std::array<std::uint64_t, kMostWords> kFactors = [] {
    std::array<std::uint64_t, kMostWords> factors{};
    std::uint64_t state = 0x243f6a8885a308d3u;
    for (std::uint64_t& factor : factors) {
      state += 0x9e3779b97f4a7c15u;
      std::uint64_t mixed = (state ^ state >> 30) * 0xbf58476d1ce4e5b9u;
      mixed = (mixed ^ mixed >> 27) * 0x94d049bb133111ebu;
      factor = (mixed ^ mixed >> 31) | 1;
    }
    return factors;
  }();
  // Room that tensors and lists leave for an op's numbers.
  static constexpr std::ptrdiff_t kReserve = 48;

  bool has_room(std::size_t words) const {
    return words_.data() + (kMostWords - kReserve) - next_ >= static_cast<std::ptrdiff_t>(words);
  }
  // By their number, since a loop over two or three takes several times as long.
  template <std::uint32_t rank>
  static std::uint64_t* copy(std::uint64_t* to, const DLTensor& t) {
    std::memcpy(to, t.shape, rank * sizeof(std::int64_t));
    if (t.strides == nullptr) return to + rank;
    std::memcpy(to + rank, t.strides, rank * sizeof(std::int64_t));
    return to + 2 * rank;
  }
  [[gnu::always_inline]] static std::uint64_t* copy(std::uint64_t* to, std::uint32_t rank, const DLTensor& t) {
    static_assert(kMostRank == 6);
    switch (rank) {
      case 1:
        return copy<1>(to, t);
      case 2:
        return copy<2>(to, t);
      case 3:
        return copy<3>(to, t);
      case 4:
        return copy<4>(to, t);
      case 5:
        return copy<5>(to, t);
      case 6:
        return copy<6>(to, t);
      default:
        return to;
    }
  }
  // One whose shape alone counts, or that is refused.
  [[gnu::noinline]] void add_unusual(const DLTensor& t) {
    std::uint64_t device, kind;
    std::memcpy(&device, &t.device, sizeof(device));
    std::memcpy(&kind, &t.ndim, sizeof(kind));
    const auto rank = static_cast<std::uint32_t>(kind);
    if (device != device_ || rank > kMostRank || t.shape == nullptr || !has_room(1 + 2 * kMostRank) ||
        t.data != nullptr || t.byte_offset != 0) {
      fits_ = false;
      return;
    }
    *next_ = kind | std::uint64_t{t.strides != nullptr} << 16 | std::uint64_t{1} << 17;
    next_ = copy(next_ + 1, rank, t);
  }
  [[gnu::noinline]] void add(const DLTensor& t) {
    static_assert(offsetof(DLTensor, dtype) == offsetof(DLTensor, ndim) + 4 && sizeof(DLDevice) == 8 &&
                  std::endian::native == std::endian::little);
    std::uint64_t device, kind;
    std::memcpy(&device, &t.device, sizeof(device));
    std::memcpy(&kind, &t.ndim, sizeof(kind));
    const auto rank = static_cast<std::uint32_t>(kind);
    std::uint64_t* const next = next_;
    if (device != device_ || rank > kMostRank || t.shape == nullptr || t.data == nullptr ||
        next > words_.data() + (kMostWords - kReserve - 1 - 2 * kMostRank)) [[unlikely]] {
      return add_unusual(t);
    }
    const std::uint64_t address = reinterpret_cast<std::uintptr_t>(t.data) + t.byte_offset;
    // The rank takes 4 bits, the dtype the upper 32.
    *next = kind | std::uint64_t{static_cast<std::uint8_t>(address)} << 8 | std::uint64_t{t.strides != nullptr} << 16;
    static_assert(kAlignments == 256);
    addresses_[addresses_count_++] = address;
    next_ = copy(next + 1, rank, t);
  }

  const std::uint64_t device_;
  std::uint64_t* next_ = words_.data() + 1;
  std::uint64_t present_ = 0;  // a bit for each tensor and part that may be given
  std::size_t addresses_count_ = 0;
  void* stream_ = nullptr;
  bool fits_ = true;
  std::array<std::uint64_t, kMostWords> words_;
  std::array<std::uint64_t, kMostAddresses + 1> addresses_;
};

inline void Signature::tensors(const DLTensor* const* list, std::uint32_t count, std::uint32_t most) {
  if (count > most || (list == nullptr && count != 0) || !has_room(1 + count)) {
    fits_ = false;
    return;
  }
  *next_++ = std::uint64_t{count} << 1 | (list != nullptr);
  for (std::uint32_t i = 0; i < count; ++i) {
    *next_++ = list[i] != nullptr;
    if (list[i] != nullptr) add(*list[i]);
  }
}

inline void Signature::floats(const float* list, std::uint32_t count, std::uint32_t most) {
  if (count > most || (list == nullptr && count != 0) || !has_room(1 + (count + 1) / 2)) {
    fits_ = false;
    return;
  }
  *next_++ = std::uint64_t{count} << 1 | (list != nullptr);
  for (std::uint32_t i = 0; i < count; i += 2) {
    *next_ = 0;
    std::memcpy(next_++, list + i, (count - i > 1 ? 2 : 1) * sizeof(float));
  }
}

}  // namespace quern::ops
