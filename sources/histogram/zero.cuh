// Zeros for the counts that several blocks add to.
// SPDX-License-Identifier: Apache-2.0
#include "common/kernel.cuh"
#include "histogram/params.cuh"

namespace q {

QUERN_DEVICE void zero(const HistogramParams& p) {
  const i64 all = i64{p.rows} * p.bins, step = i64{block_count(0)} * kHistogramThreads;
  QUERN_ROLLED for (i64 i = i64{block_index(0)} * kHistogramThreads + thread_index(); i < all; i += step) {
    const i64 row = i / p.bins, at = row * p.counts_stride + (i - row * p.bins);
    if (p.wide) {
      reinterpret_cast<u64*>(p.counts)[at] = 0;
    } else {
      reinterpret_cast<u32*>(p.counts)[at] = 0;
    }
  }
}

}  // namespace q

QUERN_KERNEL(quern_histogram_zero, q::kHistogramThreads, 2, QUERN_PARAM q::HistogramParams p) {
  q::launch_next_grid();
  q::wait_for_previous_grid();
  q::zero(p);
}
