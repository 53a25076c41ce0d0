// The stages of a pipeline between warps that copy and warps that multiply.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/sm90/tma.cuh"
#include "gemm/kernels/shared/tile.cuh"

namespace q {

struct Stages {
  Mbarrier full[kStages], empty[kStages];
};

// So many places in turn; the phase changes with every round.
template <i32 places>
struct TurnOf {
  i32 stage = 0;
  u32 phase = 0;
  QUERN_DEVICE void next() {
    if (++stage == places) stage = 0, phase ^= 1;
  }
  template <i32 count>
  QUERN_DEVICE void advance() {
    static_assert(count >= 0 && count <= places);
    stage += count;
    if (stage >= places) stage -= places, phase ^= 1;
  }
  // Over so many of them.
  QUERN_DEVICE void skip(i32 count) {
    const i32 to = stage + count;
    stage = to % places, phase ^= static_cast<u32>(to / places & 1);
  }
};
using Turn = TurnOf<kStages>;

}  // namespace q
