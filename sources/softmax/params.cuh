// The run-time arguments of softmax's kernels.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/types.cuh"

namespace q {

inline constexpr int kRowThreads = 512;       // of a block that shares a row with others,
inline constexpr int kRegisterThreads = 256;  // and that holds its part in registers,
inline constexpr int kShortThreads = 128;  // or a part of so few elements a thread that three blocks have room for it
inline constexpr int kShortEach = 128;
inline constexpr int kHeldElements = 20480;  // that a block holds of a row
inline constexpr int kStreamedEach = 16;     // that a thread takes at once of a row that is not held
inline constexpr i32 kMostRowBlocks = 8;

// One value a row, or one for all.
template <class T>
struct OfRow {
  const T* rows;  // may be null
  T all;

  QUERN_SHARED_CODE T at(i64 row) const { return rows ? rows[row] : all; }
};

// What a row's probabilities are made of: that of any token follows from these and from its logit or probability.
struct alignas(16) KeptRow {
  u64 least;        // the place of the last token that stays
  f32 max, factor;  // how tokens weigh: in units of 2^-40 of the largest, logits by the inverse temperature
  f32 inverse_sum;  // 1 / what those weigh that stay
  u32 status;       // enum quern_sample_status; where it is not 0 no token stays
};

struct SoftmaxParams {
  const void* logits;  // [rows, n]
  void* out;           // [rows, n]; may be null
  KeptRow* kept;       // [rows]; may be null
  i32* status;         // [rows]; may be null
  const i32* lengths;  // [rows / group]: rows of a matrix past so many and one are left alone; may be null
  i64 logits_stride, group_stride, out_stride;  // in elements
  OfRow<f32> temperature;
  i32 rows, group, n;
};

}  // namespace q
