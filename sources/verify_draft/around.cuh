// The run-time arguments of the kernels around verify_draft's walk. Strides in elements; rows, 0 to n, are those of
// target.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "renormalise/params.cuh"
#include "sample/params.cuh"

namespace q {

struct EditParams {
  SampleParams of_sequences;  // what edits, of batch rows: all but the logits and `allowed`
  const void* target;         // [batch, rows, vocab]
  const u32* allowed;         // [batch, rows, ceil(vocab / 32)]; may be null
  const i32* draft_ids;       // [batch, rows - 1]
  const i32* parents;         // [batch, rows - 1]; may be null
  const i32* lengths;         // [batch]: rows past so many and one are left alone; may be null
  f32* out;                   // [batch, rows, vocab], rows beginning at 16 bytes
  i32* wrong;                 // [batch], enum quern_sample_status
  i64 target_stride, target_row_stride, allowed_stride, allowed_row_stride, draft_ids_stride, parents_stride,
      out_stride;
  i64 units;      // batch * rows * parts
  i32 rows;       // n + 1
  i32 parts;      // that a row is divided into
  i32 vectors;    // truth values: 16 bytes can be loaded at once from each row's beginning on,
  i32 penalised;  // and drafts count as output tokens
};

struct ReportParams {
  const void* logits;   // [batch, rows, vocab], as edited
  const KeptRow* kept;  // [batch, rows]: what probabilities are told of; null: all of the row
  const i32* ids;       // [batch, depth + 1]
  const i32* path;      // [batch, depth]; with logprobs
  const i32* wrong;     // [batch]; may be null, as may the rest
  i32* status;          // [batch]
  i32* output_counts;   // [batch, vocab]
  f32* logprobs;        // [batch, depth + 1]
  PerRow<f32> temperature;
  i64 logits_stride, logits_row_stride, ids_stride, path_stride, output_counts_stride, logprobs_stride;
  i64 units;  // batch * (depth + 1)
  i32 rows, depth, vocab, chunks;
  i32 vectors, greedy;  // truth values
};

}  // namespace q
