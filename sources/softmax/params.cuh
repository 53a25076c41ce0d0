// The run-time arguments of softmax's kernels.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/types.cuh"

namespace q {

inline constexpr int kRowThreads = 512;       // of a block that shares a row with others,
inline constexpr int kRegisterThreads = 256;  // and that holds its part in registers
inline constexpr int kHeldElements = 20480;   // that a block holds of a row
inline constexpr int kStreamedEach = 16;      // that a thread takes at once of a row that is not held
inline constexpr i32 kMostRowBlocks = 8;

// One value a row, or one for all.
template <class T>
struct OfRow {
  const T* rows;  // may be null
  T all;

  QUERN_SHARED_CODE T at(i64 row) const { return rows ? rows[row] : all; }
};

struct SoftmaxParams {
  const void* logits;  // [rows, n]
  void* out;           // [rows, n]
  i32* status;         // [rows]; may be null
  const i32* lengths;  // [rows / group]: rows of a matrix past so many and one are left alone; may be null
  i64 logits_stride, group_stride, out_stride;  // in elements
  OfRow<f32> temperature;
  i32 rows, group, n;
};

}  // namespace q
