// The sentences of sources/tensor.h.
// SPDX-License-Identifier: Apache-2.0
#include "sources/tensor.h"

#include <algorithm>
#include <string>

#include "jit/error.h"
#include "sources/late.h"

namespace quern::ops {
namespace {

[[noreturn]] void refuse(const std::string& text) { throw Error(QUERN_INVALID, text); }

std::string describe(std::int64_t device_type, std::int64_t device_id) {
  const char* kind = device_type == kDLCPU    ? "CPU"
                     : device_type == kDLCUDA ? "CUDA"
                     : device_type == kDLROCM ? "ROCm"
                                              : "type";
  std::string text = kind;
  if (text == "type") text += " " + std::to_string(device_type);
  return text + ":" + std::to_string(device_id);
}

std::string dimension_of(const char* name, int dimension) {
  return std::string(name) + ".shape[" + std::to_string(dimension) + "]";
}

// Looks at each extent and stride. Strides up to 2^48 cannot overflow what is computed from them.
void check_extents(const DLTensor& given, const char* name, int rank, const Place& place) {
  constexpr std::int64_t kMost = std::int64_t{1} << 48;
  std::int64_t compact = 1;
  for (int d = rank - 1; d >= 0; --d) {
    const std::int64_t extent = given.shape[d], stride = given.strides != nullptr ? given.strides[d] : compact;
    if (extent < 0 || extent > place.most_extent)
      refuse_extent(name, d, extent, place.most_extent == INT32_MAX ? "0 to 2^31 - 1" : "0 to 2^40");
    if (stride < 0 || stride > kMost) refuse_stride(name, d, stride, "0 to 2^48");
    if (__builtin_mul_overflow(compact, extent > 0 ? extent : 1, &compact) || compact > kMost)
      refuse_extent(name, d, extent, "at most 2^48 elements in all");
  }
}

}  // namespace

std::string type_text(const DLDataType& t) {
  const Dtype known = dtype_of(t);
  if (known != Dtype::other) return name_of(known);
  // DLPack's names of what no op takes, as NumPy and PyTorch say them.
  static constexpr struct {
    std::uint8_t code, bits;  // bits 0: any, said after the name
    const char* name;
  } kNames[] = {
      {kDLInt, 0, "int"},
      {kDLUInt, 0, "uint"},
      {kDLFloat, 0, "float"},
      {kDLBfloat, 0, "bfloat"},
      {kDLComplex, 0, "complex"},
      {kDLBool, 8, "bool"},
      {kDLFloat8_e3m4, 8, "float8_e3m4"},
      {kDLFloat8_e4m3, 8, "float8_e4m3"},
      {kDLFloat8_e4m3b11fnuz, 8, "float8_e4m3b11fnuz"},
      {kDLFloat8_e4m3fn, 8, "e4m3"},
      {kDLFloat8_e4m3fnuz, 8, "float8_e4m3fnuz"},
      {kDLFloat8_e5m2, 8, "e5m2"},
      {kDLFloat8_e5m2fnuz, 8, "float8_e5m2fnuz"},
      {kDLFloat8_e8m0fnu, 8, "float8_e8m0fnu"},
      {kDLFloat6_e2m3fn, 6, "float6_e2m3fn"},
      {kDLFloat6_e3m2fn, 6, "float6_e3m2fn"},
      {kDLFloat4_e2m1fn, 4, "float4_e2m1fn"},
      {kDLOpaqueHandle, 0, "handle"},
  };
  const std::string lanes = t.lanes == 1 ? "" : " in vectors of " + std::to_string(t.lanes);
  for (const auto& one : kNames) {
    if (one.code != t.code || (one.bits != 0 && one.bits != t.bits)) continue;
    return one.name + (one.bits == 0 ? std::to_string(t.bits) : "") + lanes;
  }
  return "DLPack's type code " + std::to_string(t.code) + " of " + std::to_string(t.bits) + " bits" + lanes;
}

const char* name_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::f16:
      return "f16";
    case Dtype::bf16:
      return "bf16";
    case Dtype::f32:
      return "f32";
    case Dtype::i32:
      return "int32";
    case Dtype::e4m3:
      return "e4m3";
    case Dtype::e5m2:
      return "e5m2";
    case Dtype::u8:
      return "uint8";
    case Dtype::i8:
      return "int8";
    case Dtype::i64:
      return "int64";
    case Dtype::i16:
      return "int16";
    case Dtype::boolean:
      return "bool";
    case Dtype::other:
      break;
  }
  return "another dtype";
}

void refuse_missing(const char* name) { refuse(std::string(name) + " is NULL; it must be given"); }

void refuse_shape(const char* name) { refuse(std::string(name) + ".shape is NULL"); }

void refuse_rank(const char* name, int given, int allowed) {
  refuse(std::string(name) + " has " + std::to_string(given) + " dimensions; it must have " + std::to_string(allowed));
}

void refuse_rank(const char* name, int given, int least, int most) {
  refuse(std::string(name) + " has " + std::to_string(given) + " dimensions; it must have " + std::to_string(least) +
         " or " + std::to_string(most));
}

void refuse_dtype(const char* name, const DLDataType& given, std::initializer_list<Dtype> allowed) {
  std::string list;
  for (const Dtype dtype : allowed) list += (list.empty() ? "" : ", ") + std::string(name_of(dtype));
  refuse(std::string(name) + " is " + type_text(given) + "; allowed: " + list);
}

void refuse_device(const char* name, const DLDevice& given, int device_type, int device_id) {
  refuse(std::string(name) + " is on " + describe(given.device_type, given.device_id) + "; the context is on " +
         describe(device_type, device_id));
}

void refuse_data(const char* name) { refuse(std::string(name) + ".data is NULL"); }

void refuse_elements(const char* name, const void* data, Dtype dtype) {
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  refuse(std::string(name) + ": data is aligned to " + std::to_string(address & (~address + 1)) +
         " bytes; allowed: multiples of the " + std::to_string(bytes_of(dtype)) + " that an element takes");
}

void refuse_extent(const char* name, int dimension, std::int64_t given, const char* allowed) {
  refuse(dimension_of(name, dimension) + " is " + std::to_string(given) + "; allowed: " + allowed);
}
void refuse_extent(const char* name, int dimension, std::int64_t given, std::int64_t allowed) {
  refuse(dimension_of(name, dimension) + " is " + std::to_string(given) + "; it must be " + std::to_string(allowed));
}

void refuse_stride(const char* name, int dimension, std::int64_t given, const char* allowed) {
  refuse(std::string(name) + ".strides[" + std::to_string(dimension) + "] is " + std::to_string(given) +
         "; allowed: " + allowed);
}

void refuse_alignment(const char* name, const char* what, std::uint64_t given, int promised) {
  refuse(std::string(name) + ": " + what + (std::string(what) == "data" ? " is aligned to " : " is ") +
         std::to_string(given) + " bytes, and `alignment` promises rows aligned to " + std::to_string(promised));
}

void refuse_value(const char* name, std::int64_t given, const char* allowed) {
  refuse(std::string(name) + " is " + std::to_string(given) + "; allowed: " + allowed);
}
void refuse_value(const char* name, double given, const char* allowed) {
  refuse(std::string(name) + " is " + std::to_string(given) + "; allowed: " + allowed);
}

Tensor read(const DLTensor* given, const char* name, int rank, std::initializer_list<Dtype> allowed,
            const Place& place) {
  if (given == nullptr) refuse_missing(name);
  if (given->ndim != rank) refuse_rank(name, given->ndim, rank);
  Tensor t;
  t.rank = rank;
  t.dtype = dtype_of(given->dtype);
  const Dtype* one = allowed.begin();
  while (one != allowed.end() && *one != t.dtype) ++one;
  if (one == allowed.end()) refuse_dtype(name, given->dtype, allowed);
  if (static_cast<std::int32_t>(given->device.device_type) != place.device_type ||
      given->device.device_id != place.device_id) {
    refuse_device(name, given->device, place.device_type, place.device_id);
  }
  const std::int64_t* const shape = given->shape;
  if (shape == nullptr) refuse_shape(name);
  t.shape = shape;
  // Where extents, strides and the elements so far all have less than 31 bits there is nothing to refuse and nothing
  // that could overflow; elsewhere each is looked at.
  const std::int64_t* const strides = given->strides;
  std::uint64_t compact = 1, count = 1, all = 0;
  for (std::ptrdiff_t d = rank - 1; d >= 0; --d) {
    const auto extent = static_cast<std::uint64_t>(shape[d]);
    const std::uint64_t stride = strides != nullptr ? static_cast<std::uint64_t>(strides[d]) : compact;
    t.strides[d] = static_cast<std::int64_t>(stride);
    all |= extent | stride | compact;
    count *= extent;
    compact *= extent + (extent == 0 ? 1 : 0);
  }
  if (((all | compact) >> 31) != 0) [[unlikely]] {
    check_extents(*given, name, rank, place);
    count = std::find(shape, shape + rank, 0) == shape + rank ? 1 : 0;
  }
  if (given->data == nullptr) {
    if (!place.may_lack_data && count > 0) refuse_data(name);
    return t;
  }
  t.data = static_cast<std::uint8_t*>(given->data) + given->byte_offset;
  const auto element = static_cast<std::uintptr_t>(bytes_of(t.dtype));
  if (count > 0 && (reinterpret_cast<std::uintptr_t>(t.data) & (element - 1)) != 0)
    refuse_elements(name, t.data, t.dtype);
  if (place.late != nullptr) [[unlikely]]
    note_late(*place.late, name, t);
  return t;
}

void note_late(LateTensors& late, const char* name, const Tensor& tensor) {
  const auto rank = static_cast<std::size_t>(tensor.rank);
  late.note(name, tensor.data, bytes_of(tensor.dtype), counts(tensor.dtype), {tensor.shape, rank},
            {tensor.strides, rank});
}

void expect_apart(const Tensor& t, const char* name) {
  int order[Tensor::kMaxRank], count = 0;
  for (int d = t.rank - 1; d >= 0; --d) {
    if (t.shape[d] == 0) return;
    if (t.shape[d] == 1) continue;
    int at = count++;
    for (; at > 0 && t.strides[order[at - 1]] > t.strides[d]; --at) order[at] = order[at - 1];
    order[at] = d;
  }
  // From the shortest stride on: what the dimensions so far span must fit between two elements of the next.
  std::int64_t span = 1;
  for (int i = 0; i < count; ++i) {
    const int d = order[i];
    if (t.strides[d] < span)
      refuse_stride(name, d, t.strides[d], "a distance at which elements do not lie over each other");
    std::int64_t further = 0;
    if (__builtin_mul_overflow(t.strides[d], t.shape[d] - 1, &further) || __builtin_add_overflow(span, further, &span))
      return;
  }
}

Tensor read_fp8(const DLTensor* given, const char* name, int rank, std::int32_t type, const char* type_name,
                const Place& place) {
  if (type < QUERN_FP8_AS_TENSOR || type > QUERN_FP8_E5M2)
    refuse_value(type_name, std::int64_t{type}, "0, QUERN_FP8_E4M3, QUERN_FP8_E5M2");
  Tensor t = read(given, name, rank, {Dtype::e4m3, Dtype::e5m2, Dtype::u8}, place);
  if (t.dtype == Dtype::u8) {
    if (type == QUERN_FP8_AS_TENSOR) {
      refuse_value(type_name, std::int64_t{type}, "QUERN_FP8_E4M3 or QUERN_FP8_E5M2, where the tensor is uint8");
    }
    t.dtype = type == QUERN_FP8_E4M3 ? Dtype::e4m3 : Dtype::e5m2;
  } else if (type != QUERN_FP8_AS_TENSOR && (type == QUERN_FP8_E4M3) != (t.dtype == Dtype::e4m3)) {
    refuse_value(type_name, std::int64_t{type}, "0, or what the tensor's dtype is");
  }
  return t;
}

}  // namespace quern::ops
