// The run-time arguments of renormalise's kernels.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "softmax/params.cuh"

namespace q {

// Row r is row r % group of matrix r / group, and its parameters are those of that matrix.
struct RenormaliseParams {
  const void* in;      // probabilities, or logits
  f32* out;            // [rows, n]: of probabilities,
  KeptRow* kept;       // [rows]: of logits
  i32* status;         // [rows]; may be null
  const i32* lengths;  // [rows / group]: rows of a matrix past so many and one are left alone; may be null
  i64 in_stride, in_group_stride, out_stride;  // in elements
  OfRow<f32> temperature;                      // of logits
  OfRow<i32> top_k;
  OfRow<f32> top_p, min_p;
  i32 rows, group, n;
  i32 joint;  // truth value: top-p is of what top-k began with
};

}  // namespace q
