// What sm_90a alone has, as PTX.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/hopper_wgmma_cuda.cuh"
#include "common/kernel.cuh"

namespace q {

template <int n>
QUERN_DEVICE void registers_grow() {
  static_assert(n >= 24 && n <= 256 && n % 8 == 0, "a warp has 24 to 256 registers a thread, by 8");
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(n));
}
template <int n>
QUERN_DEVICE void registers_shrink() {
  static_assert(n >= 24 && n <= 256 && n % 8 == 0, "a warp has 24 to 256 registers a thread, by 8");
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(n));
}

}  // namespace q
