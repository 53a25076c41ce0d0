// What is told of the tokens that the walk has written: their log-probabilities, and which of a sequence's parameters
// made no sense; and the output's counts are raised. A block has one of a sequence's places in ids.
// SPDX-License-Identifier: Apache-2.0
#include "common/exponential.cuh"
#include "common/reduce.cuh"
#include "sample/kernels/edits.cuh"
#include "verify_draft/around.cuh"

namespace q {

// Of one token among all of its row, whose logits are as edited. All threads; begins with a barrier. Sums have the same
// order whatever the grid.
QUERN_DEVICE f32 logprob_of(const ReportParams& p, const Row& row, i32 token, f32 temperature, f32* scratch,
                            f32* more_scratch) {
  const f32 inverse = inverse_of(temperature), scale = inverse * kLog2OfE;
  f32 max = -infinity(), sum = 0.0f;  // of this lane's, the sum over that of the largest so far
  QUERN_ROLLED for (i32 c = warp(); c < p.chunks; c += kThreads / kWarp) {
    f32 x[kEach];
    load_chunk(row, c * kChunk, p.vocab, p.vectors, x);
    f32 largest = max;
    QUERN_UNROLL for (int i = 0; i < kEach; ++i) {
      x[i] = fmax(x[i], -infinity());  // NaN too
      largest = fmax(largest, x[i]);
    }
    if (!(largest > -infinity())) continue;
    if (largest > max) sum *= share_of_largest(largest, max, scale), max = largest;
    QUERN_UNROLL for (int i = 0; i < kEach; ++i) sum += share_of_largest(max, x[i], scale);
  }
  sync_block();
  const f32 of_row = block_max<kThreads>(max, scratch);
  const f32 whole =
      block_sum<kThreads>(max > -infinity() ? sum * share_of_largest(of_row, max, scale) : 0.0f, more_scratch);
  return -(distance(of_row, to_f32(row.logits[token]), inverse) + log(whole));
}

QUERN_DEVICE void report_tokens(const ReportParams& p) {
  QUERN_SHARED(f32, scratch, kThreads / kWarp);
  QUERN_SHARED(f32, more_scratch, kThreads / kWarp);
  const bool first = thread_index() == 0;
  QUERN_ROLLED for (i64 unit = block_index(0); unit < p.units; unit += block_count(0)) {
    const i64 b = unit / (p.depth + 1);
    const i32 d = static_cast<i32>(unit - b * (p.depth + 1));
    if (d == 0 && first && p.wrong && p.status && p.wrong[b] != 0) {
      // That nothing could be drawn is what came of it.
      p.status[b] = (p.status[b] & ~static_cast<i32>(kEmpty)) | p.wrong[b];
    }
    const i32 id = p.ids[b * p.ids_stride + d];
    if (first && id >= 0 && p.output_counts) atomic_add(p.output_counts + b * p.output_counts_stride + id, 1);
    if (!p.logprobs) continue;
    f32 logprob = nan();
    if (id >= 0) {
      const i32 node = d == 0 ? 0 : p.path[b * p.path_stride + d - 1] + 1;
      const f32 temperature = p.greedy ? 0.0f : read_row(p.temperature, static_cast<i32>(b));
      Row row{};
      row.logits = static_cast<const Logit*>(p.logits) + b * p.logits_stride + node * p.logits_row_stride;
      if (p.kept && temperature > 0.0f) {
        const KeptRow kept = p.kept[b * p.rows + node];
        logprob = log(kept.inverse_sum * kUnits) - distance(kept.max, to_f32(row.logits[id]), kept.factor);
      } else {
        logprob = logprob_of(p, row, id, temperature, scratch, more_scratch);
      }
    }
    if (first) p.logprobs[b * p.logprobs_stride + d] = logprob;
  }
}

}  // namespace q

QUERN_KERNEL(quern_verify_draft_report, THREADS, 1, QUERN_PARAM q::ReportParams p) {
  q::launch_next_grid();
  q::wait_for_previous_grid();
  q::report_tokens(p);
}
