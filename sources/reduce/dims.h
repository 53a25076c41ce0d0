// The dimensions that a reduction walks: as few as lie one behind the other in every tensor.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <cstdlib>

#include "sources/reduce/params.cuh"

namespace quern::ops::reduce {

inline constexpr int kResults = q::kReduceResults;
inline constexpr std::int64_t kMost = INT32_MAX;
// What a block takes at once begins below this and may end beyond it, still in 32 bits.
inline constexpr std::int64_t kLongestRow = kMost - 65535;

// A dimension of x that has more than one element: strides in elements.
struct Dim {
  std::int64_t extent = 1, x = 0, y = 0;
  std::array<std::int64_t, kResults> out{};
};
// From the innermost on.
struct Dims {
  std::array<Dim, q::kReduceDims> all;
  int count = 0;

  std::int64_t product() const {
    std::int64_t product = 1;
    for (int i = 0; i < count; ++i) product *= all[static_cast<std::size_t>(i)].extent;
    return product;
  }
  Dim& operator[](int i) { return all[static_cast<std::size_t>(i)]; }
  const Dim& operator[](int i) const { return all[static_cast<std::size_t>(i)]; }
  void add(const Dim& dim) { all[static_cast<std::size_t>(count++)] = dim; }
  // The shortest stride in x comes first, those of 0 last. There are few, and no call allocates.
  void sort() {
    const auto length = [](const Dim& d) { return d.x == 0 ? INT64_MAX : std::abs(d.x); };
    for (int i = 1; i < count; ++i) {
      const Dim dim = (*this)[i];
      int at = i;
      for (; at > 0 && length((*this)[at - 1]) > length(dim); --at) (*this)[at] = (*this)[at - 1];
      (*this)[at] = dim;
    }
  }
  // One dimension of what lies one behind the other in every tensor. The first may become as long as it likes.
  void merge() {
    const auto follows = [](std::int64_t inner, std::int64_t extent, std::int64_t outer) {
      std::int64_t next = 0;
      return !__builtin_mul_overflow(inner, extent, &next) && next == outer;
    };
    int last = 0;
    for (int i = 1; i < count; ++i) {
      Dim& inner = (*this)[last];
      const Dim& outer = (*this)[i];
      bool one = follows(inner.x, inner.extent, outer.x) && follows(inner.y, inner.extent, outer.y) &&
                 (last == 0 || inner.extent * outer.extent <= kMost);
      for (std::size_t r = 0; r < kResults; ++r) one = one && follows(inner.out[r], inner.extent, outer.out[r]);
      if (one) {
        inner.extent *= outer.extent;
      } else {
        (*this)[++last] = outer;
      }
    }
    if (count > 0) count = last + 1;
  }
};

}  // namespace quern::ops::reduce
