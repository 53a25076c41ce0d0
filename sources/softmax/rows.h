// How a row is shared out among blocks, for the ops that take rows as softmax does.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "jit/driver.h"
#include "jit/unit.h"
#include "sources/constants.h"
#include "sources/tensor.h"

namespace quern::ops {

// Constants of every such kernel. `held`: the row's blocks have room for all of it. `cluster`: they are the blocks of a
// cluster, where the target has those; else there is one.
struct RowShape {
  bool held = true, cluster = true;
};

// Where a block holds its part of a row, if it does.
enum class Held { registers, shared_memory };
int threads_of(Held where);

struct RowShare {
  RowShape shape;
  int threads;               // of a block
  int blocks;                // of a row
  std::uint32_t kept_bytes;  // of dynamic shared memory that they need
  int each;                  // elements of a thread, where rows are held
};

// Blocks of a row of n elements: 1, 2, 4 or 8, a matter of n and the element alone unless `sms` are fewer than that.
// What they cannot hold is read several times.
RowShare share_row(std::int64_t n, Dtype element, Held where, int sms, const jit::TargetInfo& target);

// The same of rows that are not held, where results do not depend on the number of blocks: as many for a row of n as
// leave no multiprocessor idle, and have something to do. A thread takes `each` elements at once.
RowShare spread_rows(std::int64_t rows, std::int64_t n, int each, int sms, const jit::TargetInfo& target);

// The grid and shared memory for so many rows: at most as many blocks as `sms` hold at once where that is `bounded`
// (rows then take turns). Whole clusters.
void set_row_grid(std::int64_t rows, const RowShare& share, int sms, bool bounded, jit::Launch* launch);

// The macros that every such kernel has, its source, and the headers; "NAME/kernels/sm90/NAME.cuh" where rows have
// clusters, else "NAME/kernels/portable/NAME.cuh".
// `each`: elements that a thread takes at once; 0: as many as it holds, or a few where it holds none.
void define_rows(const RowShape& shape, Held where, Dtype element, const std::string& name, int each, jit::Unit* unit);
// The most dynamic shared memory of kernels that keep rows there.
std::uint32_t most_kept_bytes(const RowShape& shape, const jit::TargetInfo& target);

// Rows of numbers: rank 2, last stride 1, 1 to `most` columns. Throws Error(QUERN_INVALID).
Tensor read_rows(const DLTensor* given, const char* name, std::initializer_list<Dtype> allowed, std::int64_t most,
                 const Place& place);
// What is written beside them, row by row; where it is `over` itself, each element must be where it was read.
Tensor read_rows_like(const DLTensor* given, const char* name, std::initializer_list<Dtype> allowed, const Tensor& over,
                      const char* over_name, const Place& place);
// A number a row that may be missing. Throws Error(QUERN_INVALID).
template <class T>
T* read_row_numbers(const DLTensor* given, const char* name, Dtype dtype, std::int64_t rows, const Place& place) {
  if (given == nullptr) return nullptr;
  const Tensor t = read(given, name, 1, {dtype}, place);
  expect_extent(t, name, 0, rows);
  expect_unit_stride(t, name, 0);
  return reinterpret_cast<T*>(t.data);
}

// Throws Error(QUERN_INVALID) where a manifest asks for clusters and the target has none.
void expect_clusters(const char* op, const RowShape& shape, const jit::TargetInfo& target);

}  // namespace quern::ops
