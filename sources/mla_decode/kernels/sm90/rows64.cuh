// MLA decode on Hopper: d_latent 512 and d_rope 64, tiles of 64 rows, keys by blocks of 64 that tensor maps copy.
//
// One warpgroup makes weights of one block after the other; two others add up one half each of the columns of the
// values. Two warps copy keys, one queries, one schedules:
//
//   logits        block 0 | weights 0 | block 1              | weights 1 | block 2 ...
//   left, right                       | + weights 0 values 0             | + weights 1 values 1 ...
//
// So whoever multiplies never waits for a softmax but its own block's. Weights go where the block's rope part was,
// which only logits need, and are relative to one maximum a row, which follows the logits; where it changes, sums are
// multiplied with a factor. A block is nine tiles of 64 columns, copied two at a time with a barrier for each two, and
// filled again by halves as soon as the half's columns have been multiplied.
//
// SPDX-License-Identifier: Apache-2.0
#include "mla_decode/kernels/sm90/rows64_copies.cuh"
#include "mla_decode/kernels/sm90/rows64_multiply.cuh"

QUERN_KERNEL(quern_mla_rows64, THREADS, 1, QUERN_PARAM q::MlaParams p, QUERN_PARAM q::TensorMap latent,
             QUERN_PARAM q::TensorMap rope) {
  using namespace q;
  const Memory memory = {tile_shared()};
  if (thread_index() == 0) {
    Barriers& b = memory.barriers();
    QUERN_ROLLED for (int i = 0; i < kStages * kParts; ++i) mbarrier_init(b.full[0][i], 1);
    QUERN_ROLLED for (int i = 0; i < kStages * 2; ++i) mbarrier_init(b.empty[0][i], kGroupThreads / kWarp);
    QUERN_ROLLED for (int i = 0; i < kStages; ++i) mbarrier_init(b.weights[i], kGroupThreads / kWarp);
    QUERN_ROLLED for (int i = 0; i < 2; ++i) mbarrier_init(b.finished[i], kGroupThreads / kWarp);
    mbarrier_init(b.queries_full, kWarp);
    QUERN_ROLLED for (int i = 0; i < 2; ++i) mbarrier_init(b.queries_empty[i], kGroupThreads / kWarp);
    memory.told().mailbox.init(kListeners);
    fence_mbarrier_init();
    if (p.pool_pages > 0) {
      prefetch_tensor_map(latent);
      prefetch_tensor_map(rope);
    }
  }
  sync_block();
  launch_next_grid();
  wait_for_previous_grid();
  note_no_cut(p, quotient(block_index(0), p.side_by_side), thread_index() == 0);
  count_together(p, THREADS / kWarp, memory.chunks());
  sync_block();
  const int group = shuffle(thread_index() / kGroupThreads, 0);
  if (group == 0) {
    registers_grow<160>();
    Logits(p, memory).run();
  } else if (group < 3) {
    registers_grow<160>();
    Sums(p, memory, group - 1).run();
  } else {
    registers_shrink<32>();
    supply(p, {latent, rope}, memory, shuffle(warp() - kAll / kWarp, 0));
  }
}
