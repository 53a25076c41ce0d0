// Reading the tensors that a caller hands over. The checks are cheap, since every hot call makes them; the sentences
// are composed apart from them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <string>

#include "capi/quern.h"

namespace quern::ops {

class LateTensors;

enum class Dtype : std::uint8_t { f16, bf16, f32, i32, e4m3, e5m2, u8, i8, i64, i16, boolean, other };

// A DLPack type as one number, so that finding it is a few comparisons.
constexpr std::uint32_t type_number(std::uint32_t code, std::uint32_t bits, std::uint32_t lanes = 1) {
  return code | bits << 8 | lanes << 16;
}
inline Dtype dtype_of(const DLDataType& t) {
  const std::uint32_t number = type_number(t.code, t.bits, t.lanes);
  // Most tensors are of these.
  if (number == type_number(kDLBfloat, 16)) return Dtype::bf16;
  if (number == type_number(kDLInt, 32)) return Dtype::i32;
  if (number == type_number(kDLFloat, 32)) return Dtype::f32;
  switch (number) {
    case type_number(kDLFloat, 16):
      return Dtype::f16;
    case type_number(kDLFloat8_e4m3fn, 8):
      return Dtype::e4m3;
    case type_number(kDLFloat8_e5m2, 8):
      return Dtype::e5m2;
    case type_number(kDLUInt, 8):
      return Dtype::u8;
    case type_number(kDLInt, 8):
      return Dtype::i8;
    case type_number(kDLInt, 64):
      return Dtype::i64;
    case type_number(kDLInt, 16):
      return Dtype::i16;
    case type_number(kDLBool, 8):
      return Dtype::boolean;
    default:
      return Dtype::other;
  }
}
const char* name_of(Dtype dtype);
// "bf16", "float64", "int8 in vectors of 4": of any DLPack type.
std::string type_text(const DLDataType& type);
// Of an element, in the order of Dtype.
inline constexpr std::uint8_t kBytesOf[] = {2, 2, 4, 4, 1, 1, 1, 1, 8, 2, 1, 2};
static_assert(std::size(kBytesOf) == static_cast<std::size_t>(Dtype::other) + 1);
constexpr std::int64_t bytes_of(Dtype dtype) { return kBytesOf[static_cast<std::size_t>(dtype)]; }

// Each throws Error(QUERN_INVALID) naming the tensor, what was given and what is allowed.
[[noreturn]] void refuse_missing(const char* name);
[[noreturn]] void refuse_shape(const char* name);  // NULL
[[noreturn]] void refuse_rank(const char* name, int given, int allowed);
[[noreturn]] void refuse_rank(const char* name, int given, int least, int most);
[[noreturn]] void refuse_dtype(const char* name, const DLDataType& given, std::initializer_list<Dtype> allowed);
[[noreturn]] void refuse_device(const char* name, const DLDevice& given, int device_type, int device_id);
[[noreturn]] void refuse_data(const char* name);
[[noreturn]] void refuse_elements(const char* name, const void* data, Dtype dtype);  // not aligned to their own size
[[noreturn]] void refuse_extent(const char* name, int dimension, std::int64_t given, const char* allowed);
[[noreturn]] void refuse_extent(const char* name, int dimension, std::int64_t given, std::int64_t allowed);
[[noreturn]] void refuse_stride(const char* name, int dimension, std::int64_t given, const char* allowed);
[[noreturn]] void refuse_alignment(const char* name, const char* what, std::uint64_t given, int promised);
// "NAME is GIVEN; ALLOWED".
[[noreturn]] void refuse_value(const char* name, std::int64_t given, const char* allowed);
[[noreturn]] void refuse_value(const char* name, double given, const char* allowed);

// Of ops that count a dimension's elements in 64 bits.
inline constexpr std::int64_t kLongestExtent = std::int64_t{1} << 40;

// What every tensor of a call is held against.
struct Place {
  std::int32_t device_type;
  std::int32_t device_id;
  bool may_lack_data;                    // workspace and prepare: shapes alone count
  LateTensors* late = nullptr;           // where given: hears of every tensor that is read
  std::int64_t most_extent = INT32_MAX;  // of a dimension: this, or kLongestExtent
};

// A tensor that has been read: its strides always present, in elements, and its byte offset applied.
struct Tensor {
  static constexpr int kMaxRank = 6;
  std::uint8_t* data = nullptr;
  const std::int64_t* shape = nullptr;
  std::int64_t strides[kMaxRank] = {};
  Dtype dtype = Dtype::other;
  int rank = 0;
};

void note_late(LateTensors& late, const char* name, const Tensor& tensor);
// Whether these may be places or numbers of something.
constexpr bool counts(Dtype dtype) {
  return dtype == Dtype::i32 || dtype == Dtype::i64 || dtype == Dtype::i16 || dtype == Dtype::i8 ||
         dtype == Dtype::boolean;
}

// Reads a required tensor of the given rank and one of the allowed dtypes, on the right device, with extents that
// the place allows, strides that are not negative and data aligned to its elements.
Tensor read(const DLTensor* given, const char* name, int rank, std::initializer_list<Dtype> allowed,
            const Place& place);

// The same for bytes that stand for 8-bit floating point: the tensor's own dtype, or for uint8 what `type`
// (enum quern_fp8, the argument `type_name`) says.
Tensor read_fp8(const DLTensor* given, const char* name, int rank, std::int32_t type, const char* type_name,
                const Place& place);

// The same for an array of positions, slots or page numbers, int32 or int64.
inline Tensor read_indices(const DLTensor* given, const char* name, const Place& place) {
  return read(given, name, 1, {Dtype::i32, Dtype::i64}, place);
}

inline void expect_extent(const Tensor& t, const char* name, int dimension, std::int64_t extent) {
  if (t.shape[dimension] != extent) refuse_extent(name, dimension, t.shape[dimension], extent);
}
inline void expect_unit_stride(const Tensor& t, const char* name, int dimension) {
  if (t.strides[dimension] != 1 && t.shape[dimension] > 1) refuse_stride(name, dimension, t.strides[dimension], "1");
}
// That the data and the strides of all dimensions but the last keep rows aligned to `alignment` bytes.
inline void expect_aligned(const Tensor& t, const char* name, int alignment) {
  const auto mask = static_cast<std::uint64_t>(alignment) - 1;
  if ((reinterpret_cast<std::uintptr_t>(t.data) & mask) != 0) {
    refuse_alignment(name, "data",
                     reinterpret_cast<std::uintptr_t>(t.data) & (~reinterpret_cast<std::uintptr_t>(t.data) + 1),
                     alignment);
  }
  for (int d = 0; d + 1 < t.rank; ++d) {
    const auto bytes = static_cast<std::uint64_t>(t.strides[d] * bytes_of(t.dtype));
    if ((bytes & mask) != 0 && t.shape[d] > 1) refuse_alignment(name, "a stride", bytes, alignment);
  }
}

// That no two elements of what is written lie in the same place.
void expect_apart(const Tensor& t, const char* name);

}  // namespace quern::ops
