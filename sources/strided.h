// Tensors of up to six dimensions with strides of any size and sign, and how the dimensions of several that are walked
// together become as few as possible: those that all of them run through without a gap are one.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "sources/tensor.h"

namespace quern::ops {

inline constexpr int kMostDimensions = 6;

// Strides in elements.
struct View {
  std::uint8_t* data = nullptr;
  std::array<std::int64_t, kMostDimensions> shape{}, strides{};
  int rank = 0;
  Dtype dtype = Dtype::other;
  std::int64_t bytes = 0;  // of an element
  std::int64_t count() const {
    std::int64_t all = 1;
    for (int d = 0; d < rank; ++d) all *= shape[static_cast<std::size_t>(d)];
    return all;
  }
};

// Reads a required tensor, as tensor.h's read does, but for its rank and its strides, which are any, and its extents,
// which hold at most 2^48 elements in all. With `any_type` any DLPack type of 8, 16, 32 or 64 bits is taken, as
// Dtype::other where it has no name here. Throws Error(QUERN_INVALID) naming it.
View read_view(const DLTensor* given, const char* name, const Place& place, bool any_type = false);

// Stretches a tensor to a shape as NumPy does, by strides of 0. Throws Error(QUERN_INVALID) naming the dimension and
// what it must be.
View broadcast(const View& view, const char* name, const View& to, const char* to_name);

// Whether two tensors may share memory without lying alike, as far as can be told: they begin at the same place, or
// both are without gaps and have bytes in common.
bool overlap(const View& a, const View& b);
// Whether each element of one lies in the place of the other's.
bool lie_alike(const View& a, const View& b);
// The same of two tensors that an op has read: that what is written lies beside what is read, or, with `in_place`, may
// lie just as that does. Throws Error(QUERN_INVALID) naming both.
void expect_beside(const Tensor& written, const char* name, const Tensor& read, const char* read_name,
                   bool in_place = false);
// That no two elements of what is written lie in the same place.
void expect_apart(const View& view, const char* name);

// Several tensors of one shape, walked together: dimension 0 is the innermost.
inline constexpr int kMostWalked = 12;
struct Walk {
  int rank = 1;
  std::array<std::int64_t, kMostDimensions> shape = {1, 1, 1, 1, 1, 1};
  std::array<std::array<std::int64_t, kMostDimensions>, kMostWalked> strides{};  // of each tensor, in elements
  std::array<std::uint8_t*, kMostWalked> data{};
  std::array<std::int64_t, kMostWalked>
      moved{};  // bytes from the tensor's own data to it, where it is walked backwards
};
// views[0] is one that is written, whose smallest stride becomes the innermost dimension; with `in_order` dimensions
// are neither exchanged nor turned round, so that elements come in row-major order. Extents of 0 count as 1.
Walk walk(std::span<const View> views, bool in_order);

// How many elements a thread can take at once of a tensor of a walk that is contiguous along its innermost dimension:
// the largest power of two up to `most` for which the data's promised alignment and all other strides suffice.
int widest(const Walk& walk, int tensor, std::int64_t element_bytes, int alignment, int most);

// That data are aligned as promised: "operands[1]: data is aligned to 4 bytes, ...".
void expect_data_aligned(const View& view, const char* name, int alignment);

}  // namespace quern::ops
