// A pipeline that ordinary asynchronous copies fill: 128 threads copy 16 bytes each into every stage, 128 others take
// them out again and permute their bytes. BUG plants one mistake, 0 none.
// SPDX-License-Identifier: Apache-2.0
#include "common/sm90/pipeline.cuh"
#include "common/sm90/warpgroup.cuh"

#define BUG_NO_FULL_WAIT 1
#define BUG_NO_EMPTY_WAIT 2
#define BUG_ARRIVES_AT_ONCE 3  // and not when its copies have landed
#define BUG_WRONG_PHASE 4

namespace q::pipeline {

struct Params {
  const u8* from;  // [steps][128][16]
  u8* to;
  i32 steps;
};
inline constexpr int kStages = 3;

}  // namespace q::pipeline

QUERN_KERNEL(k, 256, 1, QUERN_PARAM q::pipeline::Params p) {
  using namespace q;
  using pipeline::kStages;
  using Barriers = PipelineBarriers<kStages>;
  QUERN_SHARED(Barriers, barriers, 1);
  u8* const stages = tile_shared();
  const int t = thread_index() % 128;
  if (thread_index() == 0) {
    barriers[0].init(128, 128);
    fence_mbarrier_init();
  }
  sync_block();
  const SharedArray<Mbarrier> full(barriers[0].full), empty(barriers[0].empty);
  PipelineState<kStages> state;
  if (thread_index() < 128) {
    for (i32 step = 0; step < p.steps; ++step, state.next()) {
      if (BUG != BUG_NO_EMPTY_WAIT) acquire(empty, state);
      copy_async_16(stages + (state.stage * 128 + t) * 16, p.from + (step * 128 + t) * 16, true);
      if (BUG == BUG_ARRIVES_AT_ONCE) {
        mbarrier_arrive(full, state.stage);
      } else {
        copy_async_arrive(full, state.stage);
      }
    }
    copy_async_commit();
    copy_async_wait<0>();
  } else {
    for (i32 step = 0; step < p.steps; ++step) {
      if (BUG != BUG_NO_FULL_WAIT) await(full, state);
      // What a neighbour copied.
      vec16 v = load16(stages + (state.stage * 128 + (t ^ 77)) * 16);
      mbarrier_arrive(empty, state.stage);
      v = {{permute_bytes<0x0123>(v.x[0], v.x[1]), permute_bytes<0x7654>(v.x[0], v.x[1]),
            permute_bytes<0x6420>(v.x[2], v.x[3]), permute_bytes<0x7531>(v.x[2], v.x[3])}};
      store16(p.to + (step * 128 + (t ^ 77)) * 16, v);
      if (BUG == BUG_WRONG_PHASE) {
        state.stage = (state.stage + 1) % kStages;
      } else if (step % 2 == 0) {
        state.next();
      } else {
        state.skip(kStages + 1);
        state.advance<kStages>();  // back to where it was, two rounds later
      }
    }
  }
}
