// The stages of a pipeline between warps that copy and warps that multiply.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/tensor_maps.cuh"
#include "gemm/tile.cuh"

namespace q {

struct Stages {
  Mbarrier full[kStages], empty[kStages];
};

// The stages in turn; the phase changes with every round.
struct Turn {
  i32 stage = 0;
  u32 phase = 0;
  QUERN_DEVICE void next() {
    if (++stage == kStages) stage = 0, phase ^= 1;
  }
  // Over so many stages.
  QUERN_DEVICE void skip(i32 count) {
    const i32 to = stage + count;
    stage = to % kStages, phase ^= static_cast<u32>(to / kStages & 1);
  }
};

}  // namespace q
