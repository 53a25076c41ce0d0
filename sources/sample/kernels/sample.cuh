// Samples a token a row, in one launch: each block of a row reads some of its chunks, and the last to be done does the
// rest, with what the others have left in the workspace. No block waits for another.
// SPDX-License-Identifier: Apache-2.0
#include "sample/kernels/finish.cuh"

namespace q {

QUERN_DEVICE void sample(const SampleParams& p) {
  QUERN_ROLLED for (i32 unit = block_index(0); unit < p.units; unit += block_count(0)) {
    const i32 i = unit / p.blocks, block = unit - i * p.blocks;
    const Row row = row_of_call(p, i);
    if (row.logits) stream(p, row, block * p.chunks_per_block);
    if (arrived_last(p.counters + (p.blocks > 1 ? i : 0), p.blocks)) finish(p, row);
    sync_block();
  }
}

}  // namespace q

QUERN_KERNEL(quern_sample, THREADS, 3, QUERN_PARAM q::SampleParams p) {
  q::launch_next_grid();
  q::wait_for_previous_grid();
  q::sample(p);
}
