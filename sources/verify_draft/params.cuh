// The run-time arguments of verify_draft's kernels.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "renormalise/params.cuh"

namespace q {

inline constexpr i32 kMostDrafts = 256;
inline constexpr int kVerifyEach = 16;  // tokens that a thread takes at once

// Strides in elements. Rows of target, 0 to n, are distributions: row 0 behind the context, row i + 1 behind draft i.
struct VerifyParams {
  const void* target;      // [batch, n + 1, vocab]: probabilities, or logits; null: greedy
  const KeptRow* kept;     // [batch, n + 1]: of logits
  const f32* draft;        // [batch, n, vocab]; may be null
  const i32* best;         // greedy: [batch, n + 1], the largest of each row,
  const f32* best_values;  // and what it is there
  const i32* draft_ids;    // [batch, n]
  const i32* parents;      // [batch, n]; may be null
  const i32* lengths;      // [batch]; may be null
  i32* accepted;           // [batch]
  i32* ids;                // [batch, depth + 1]
  i32* path;               // [batch, depth]; may be null
  i32* status;             // [batch]; may be null
  const i64* seeds;        // [batch]; may be null
  i64* offsets;            // [batch]; may be null
  u64 seed, offset;
  i64 target_stride, target_row_stride, draft_stride, draft_row_stride;
  i64 draft_ids_stride, parents_stride, ids_stride, path_stride;
  f32 least_value;  // greedy: what is not above it is no token's
  i32 batch, n, vocab, depth;
  i32 without_replacement;  // truth value
};

}  // namespace q
