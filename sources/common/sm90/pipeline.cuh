// Pipelines through shared memory: who copies fills stages in turn, who multiplies takes them in the same order.
//
// Each stage has two barriers. `full` completes when what was copied has landed, `empty` when all who read it are done.
// Both sides keep a PipelineState of their own:
//
//   who copies    acquire(empty, state)  before a stage is filled; the first round does not wait
//   who reads     await(full, state)     before a stage is read
//   both          state.next()           after each stage
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/sm90/tma.cuh"

namespace q {

// The stage at hand and its phase, the parity of the round. At first it is stage 0 in round 0.
template <i32 stages>
struct PipelineState {
  static_assert(stages >= 1, "a pipeline has a stage");
  i32 stage = 0;
  u32 phase = 0;

  QUERN_DEVICE void next() {
    if (++stage == stages) stage = 0, phase ^= 1;
  }
  // Over `count` stages, at most one round.
  template <i32 count>
  QUERN_DEVICE void advance() {
    static_assert(count >= 0 && count <= stages, "at most one round at once");
    stage += count;
    if (stage >= stages) stage -= stages, phase ^= 1;
  }
  // Over any number of stages.
  QUERN_DEVICE void skip(i32 count) {
    const i32 to = stage + count;
    stage = to % stages, phase ^= static_cast<u32>(to / stages & 1);
  }
};

template <i32 stages>
struct PipelineBarriers {
  Mbarrier full[stages], empty[stages];

  // By one thread, which then calls fence_mbarrier_init(): how many arrive on each barrier in a round.
  QUERN_DEVICE void init(u32 arrivals_full, u32 arrivals_empty) {
    QUERN_UNROLL for (i32 i = 0; i < stages; ++i) {
      mbarrier_init(full[i], arrivals_full);
      mbarrier_init(empty[i], arrivals_empty);
    }
  }
};

// An array of barriers by its address in shared memory, found once.
template <i32 stages>
QUERN_DEVICE void acquire(const SharedArray<Mbarrier>& empty, const PipelineState<stages>& state) {
  mbarrier_wait(empty, state.stage, state.phase ^ 1);
}
template <i32 stages>
QUERN_DEVICE void await(const SharedArray<Mbarrier>& full, const PipelineState<stages>& state) {
  mbarrier_wait(full, state.stage, state.phase);
}

}  // namespace q
