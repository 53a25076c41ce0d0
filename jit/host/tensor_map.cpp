// SPDX-License-Identifier: Apache-2.0
#include "jit/host/tensor_map.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>

#include "jit/error.h"
#include "jit/host/agent.h"
#include "sources/common/sm90/layout.cuh"

namespace quern::jit::host {
namespace {

constexpr std::uint64_t kMagic = 0x70616d20726f736eULL;
constexpr std::uint32_t kPiece = 16;     // bytes: what a copy begins at, and what it writes at least
constexpr std::uint32_t kPlainRow = 16;  // bytes in which plain memory lands

struct Encoded {
  std::uint64_t magic;
  void* address;
  std::uint64_t extent[5];
  std::uint64_t stride[4];
  std::uint32_t box[5];
  std::uint8_t rank, element, swizzle, type;
};
static_assert(sizeof(Encoded) <= sizeof(TensorMap));

// CUtensorMapDataType
constexpr std::array<std::uint8_t, 10> kElementBytes = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2};

void require(bool holds, const std::string& what) {
  if (!holds) throw Error(QUERN_INVALID, "host: encoding a tensor map: " + what);
}

// f32, u32, i32: another block may add to the same element.
template <class T>
void add_elements(unsigned char* to, const unsigned char* from, std::uint32_t count) {
  for (std::uint32_t i = 0; i < count; ++i) {
    T value;
    std::memcpy(&value, from + i * sizeof(T), sizeof(T));
    adds_to(to + i * sizeof(T));
    std::atomic_ref(reinterpret_cast<T*>(to)[i]).fetch_add(value, std::memory_order_relaxed);
  }
}

}  // namespace

void encode(const TensorMapDesc& desc, TensorMap& map) {
  const auto text = [](std::uint64_t v) { return std::to_string(v); };
  require(desc.rank >= 1 && desc.rank <= 5, "rank " + text(desc.rank) + "; allowed are 1 to 5");
  require(desc.data_type >= 0 && desc.data_type < static_cast<int>(kElementBytes.size()),
          "data type " + std::to_string(desc.data_type) + "; this target knows 0 to 9");
  require(desc.swizzle >= 0 && desc.swizzle <= 3, "swizzle " + std::to_string(desc.swizzle) + "; allowed are 0 to 3");
  require(desc.l2_promotion >= 0 && desc.l2_promotion <= 3,
          "L2 promotion " + std::to_string(desc.l2_promotion) + "; allowed are 0 to 3");
  require(desc.address != nullptr && reinterpret_cast<std::uintptr_t>(desc.address) % 16 == 0,
          "the address must be a multiple of 16 bytes");
  Encoded e{};
  e.magic = kMagic;
  e.address = desc.address;
  e.rank = static_cast<std::uint8_t>(desc.rank);
  e.type = static_cast<std::uint8_t>(desc.data_type);
  e.element = kElementBytes[static_cast<std::size_t>(desc.data_type)];
  e.swizzle = static_cast<std::uint8_t>(desc.swizzle);
  for (std::uint32_t d = 0; d < desc.rank; ++d) {
    const std::string of = " of dimension " + text(d);
    require(desc.extent[d] >= 1 && desc.extent[d] <= 1ULL << 32,
            "the extent" + of + " is " + text(desc.extent[d]) + "; allowed are 1 to 2^32");
    require(desc.box[d] >= 1 && desc.box[d] <= 256,
            "the box" + of + " is " + text(desc.box[d]) + "; allowed are 1 to 256");
    e.extent[d] = desc.extent[d];
    e.box[d] = desc.box[d];
    if (d == 0) continue;
    const std::uint64_t stride = desc.stride[d - 1];
    require(stride % 16 == 0 && stride < 1ULL << 40,
            "the stride" + of + " is " + text(stride) + " bytes; allowed are multiples of 16 below 2^40");
    e.stride[d - 1] = stride;
  }
  const std::uint32_t inner = desc.box[0] * e.element;
  require(inner % 16 == 0, "the box is " + text(inner) + " bytes wide; allowed are multiples of 16");
  const std::uint32_t span = q::swizzle_span(static_cast<q::Swizzle>(desc.swizzle));
  require(desc.swizzle == 0 || inner <= span,
          "the box is " + text(inner) + " bytes wide; with this swizzle at most " + text(span) + " are allowed");
  static_assert(sizeof(map.bytes) == 128);
  std::memset(&map, 0, sizeof(map));
  std::memcpy(&map, &e, sizeof(e));
}

const char* Box::read(const q::host::BulkCopy& copy) {
  const char* wrong = copy.map != nullptr ? read_map(copy) : read_plain(copy);
  if (wrong != nullptr || copy.form != q::host::CopyForm::add) return wrong;
  const bool known = type_ == kTensorF32 || type_ == kTensorU32 || type_ == kTensorI32;
  return known ? nullptr : "this target adds f32, u32 and i32 only";
}

const char* Box::read_map(const q::host::BulkCopy& copy) {
  Encoded e;
  std::memcpy(&e, copy.map, sizeof(e));
  if (e.magic != kMagic) return "this is not a tensor map of this target";
  if (e.rank != copy.rank) return "the tensor map has another number of dimensions than there are coordinates";
  address_ = static_cast<unsigned char*>(e.address);
  rank_ = e.rank;
  element_ = e.element;
  type_ = e.type;
  swizzle_ = e.swizzle;
  alignment_ = 128;
  rows_ = 1;
  for (std::uint32_t d = 0; d < rank_; ++d) {
    extent_[d] = e.extent[d];
    box_[d] = e.box[d];
    at_[d] = copy.at[d];
    if (d > 0) stride_[d - 1] = e.stride[d - 1];
    if (d > 0) rows_ *= e.box[d];
  }
  row_bytes_ = e.box[0] * e.element;
  // On an H200 the first two are illegal instructions, and boxes of the third kind are not laid out as here.
  if (std::int64_t{at_[0]} * element_ % kPiece != 0)
    return "the innermost coordinate must be a multiple of 16 bytes, inside the tensor and outside";
  if (copy.form == q::host::CopyForm::store || copy.form == q::host::CopyForm::add) {
    for (std::uint32_t d = 0; d < rank_; ++d) {
      if (at_[d] < 0) return "a coordinate is negative: a box that is written may end outside, but not begin there";
    }
  }
  if (swizzle_ != 0 && row_bytes_ != q::swizzle_span(static_cast<q::Swizzle>(swizzle_)))
    return "a swizzled box must be as wide as its swizzle: narrower rows do not lie one after the other";
  return nullptr;
}

const char* Box::read_plain(const q::host::BulkCopy& copy) {
  if (copy.bytes == 0 || copy.bytes % kPlainRow != 0) return "the number of bytes must be a multiple of 16";
  if (reinterpret_cast<std::uintptr_t>(copy.global) % 16 != 0)
    return "the global address must be a multiple of 16 bytes";
  address_ = static_cast<unsigned char*>(copy.global);
  rank_ = 2;
  type_ = kTensorF32;
  element_ = 4;
  extent_[0] = box_[0] = kPlainRow / element_;
  extent_[1] = box_[1] = rows_ = copy.bytes / kPlainRow;
  stride_[0] = row_bytes_ = kPlainRow;
  return nullptr;
}

Box::Row Box::row_at(std::uint32_t row) const {
  Row r{address_ + static_cast<std::int64_t>(at_[0]) * element_, 0, 0};
  bool inside = true;
  for (std::uint32_t d = 1; d < rank_; ++d) {
    const std::int64_t index = std::int64_t{at_[d]} + row % box_[d];
    row /= box_[d];
    inside = inside && index >= 0 && static_cast<std::uint64_t>(index) < extent_[d];
    r.begin += index * static_cast<std::int64_t>(stride_[d - 1]);
  }
  const std::int64_t width = box_[0], left = -std::int64_t{at_[0]},
                     right = static_cast<std::int64_t>(extent_[0]) - std::int64_t{at_[0]};
  if (!inside) return r;
  r.first = static_cast<std::uint32_t>(std::clamp<std::int64_t>(left, 0, width));
  r.last = static_cast<std::uint32_t>(std::clamp<std::int64_t>(right, r.first, width));
  return r;
}

void Box::load_row(std::uint32_t row, unsigned char* window, std::uint32_t at) const {
  const Row r = row_at(row);
  const std::uint32_t begin = at + row * row_bytes_;
  reads(r.begin + r.first * element_, (r.last - r.first) * element_);
  for (std::uint32_t piece = 0; piece < row_bytes_; piece += 16) {
    unsigned char* to = window + q::swizzled(begin + piece, static_cast<q::Swizzle>(swizzle_));
    writes(to, 16);
    const std::uint32_t first = std::clamp(r.first * element_, piece, piece + 16);
    const std::uint32_t last = std::clamp(r.last * element_, first, piece + 16);
    std::memset(to, 0, first - piece);
    std::memcpy(to + (first - piece), r.begin + first, last - first);
    std::memset(to + (last - piece), 0, piece + 16 - last);
  }
}

void Box::take_row(std::uint32_t row, const unsigned char* window, std::uint32_t at, unsigned char* staged) const {
  const std::uint32_t begin = at + row * row_bytes_;
  for (std::uint32_t piece = 0; piece < row_bytes_; piece += 16) {
    const unsigned char* from = window + q::swizzled(begin + piece, static_cast<q::Swizzle>(swizzle_));
    reads(from, 16);
    std::memcpy(staged + piece, from, 16);
  }
}

std::uint32_t Box::written_bytes(const Row& row) const { return (row.last * element_ + kPiece - 1) / kPiece * kPiece; }

void Box::store_row(std::uint32_t row, const unsigned char* staged) const {
  const Row r = row_at(row);
  const std::uint32_t bytes = written_bytes(r);
  writes(r.begin, bytes);
  std::memcpy(r.begin, staged, bytes);
}

void Box::add_row(std::uint32_t row, const unsigned char* staged) const {
  const Row r = row_at(row);
  const std::uint32_t count = written_bytes(r) / element_;
  if (type_ == kTensorF32) {
    add_elements<float>(r.begin, staged, count);
  } else {
    add_elements<std::uint32_t>(r.begin, staged, count);
  }
}

}  // namespace quern::jit::host
