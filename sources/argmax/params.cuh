// The run-time arguments of argmax's kernels.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/types.cuh"

namespace q {

inline constexpr int kArgmaxEach = 32;  // elements that a thread takes at once

struct ArgmaxParams {
  const void* logits;               // [rows, n]: row r is row r % group of matrix r / group
  const i32* lengths;               // [rows / group]: rows of a matrix past so many and one are left alone; may be null
  void* ids;                        // [rows]
  f32* values;                      // [rows]; may be null
  i64 logits_stride, group_stride;  // in elements
  i32 rows, group, n;
  i32 wide_ids;  // truth value: ids are 64 bits
};

}  // namespace q
