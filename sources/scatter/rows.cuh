// Which row of out each row of x goes to, to be sorted.
// SPDX-License-Identifier: Apache-2.0
#include "common/kernel.cuh"
#include "scatter/params.cuh"

QUERN_KERNEL(quern_scatter_rows, q::kScatterThreads, 4, QUERN_PARAM q::ScatterParams p) {
  q::launch_next_grid();
  q::wait_for_previous_grid();
  const q::i64 step = q::i64{q::block_count(0)} * q::kScatterThreads;
  QUERN_ROLLED for (q::i64 i = q::i64{q::block_index(0)} * q::kScatterThreads + q::thread_index(); i < p.count;
                    i += step) {
    const q::i64 row = q::row_of_id(p, i);
    p.sorted[i] = row < 0 ? q::kNoRow : static_cast<q::u32>(row);
  }
}
