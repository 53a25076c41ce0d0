// Tensor maps of the `host` target, and the boxes that copies take out of a tensor.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "jit/driver.h"
#include "sources/common/portable/host_abi.cuh"

namespace quern::jit::host {

// Writes this target's form into the 128 bytes. Throws Error(QUERN_INVALID) for what cuTensorMapEncodeTiled refuses.
void encode(const TensorMapDesc& desc, TensorMap& map);

// A box at its place in a tensor, in rows of its innermost dimension: row r lies r * row_bytes() from the box's start
// in shared memory, its 16-byte pieces swizzled by the address.
class Box {
 public:
  Box() = default;
  // Null, or what is wrong.
  const char* read(const q::host::BulkCopy& copy);

  std::uint32_t rows() const { return rows_; }
  std::uint32_t row_bytes() const { return row_bytes_; }
  std::uint32_t bytes() const { return rows_ * row_bytes_; }
  std::uint32_t alignment() const { return alignment_; }  // of the shared address

  // `window` is the block's shared memory, `at` where the box begins in it.
  void load_row(std::uint32_t row, unsigned char* window, std::uint32_t at) const;
  // Out of shared memory into `staged` (row_bytes()), from there into the tensor.
  void take_row(std::uint32_t row, const unsigned char* window, std::uint32_t at, unsigned char* staged) const;
  void store_row(std::uint32_t row, const unsigned char* staged) const;
  void add_row(std::uint32_t row, const unsigned char* staged) const;

 private:
  // Where the row's element 0 would lie, and which of its elements are in the tensor: none where first == last.
  struct Row {
    unsigned char* begin;
    std::uint32_t first, last;
  };
  Row row_at(std::uint32_t row) const;
  // A row that is written begins at its first element, and takes the rest of the 16 bytes that its last one lies in.
  std::uint32_t written_bytes(const Row& row) const;
  const char* read_map(const q::host::BulkCopy& copy);
  const char* read_plain(const q::host::BulkCopy& copy);

  unsigned char* address_ = nullptr;
  std::uint64_t extent_[5] = {};
  std::uint64_t stride_[4] = {};
  std::uint32_t box_[5] = {};
  std::int32_t at_[5] = {};
  std::uint32_t rank_ = 0, element_ = 1, swizzle_ = 0, rows_ = 0, row_bytes_ = 0, alignment_ = 16;
  int type_ = 0;
};

}  // namespace quern::jit::host
