// Puts a list of places in shared memory in order.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "softmax/kernels/slice.cuh"

namespace q {

// The largest first; `size` is a power of two. (Batcher, "Sorting networks and their applications", 1968.) Each warp
// has pairs that lie together, so that it waits for others only where their elements lie further apart.
QUERN_DEVICE void sort_list(u64* list, i32 size) {
  const i32 pairs = size / 2, of_warp = pairs / kWarps > kWarp ? pairs / kWarps : kWarp;
  bool apart = true;  // what comes next was left by other warps
  QUERN_ROLLED for (i32 run = 2; run <= size; run *= 2) {
    QUERN_ROLLED for (i32 step = run / 2; step > 0; step /= 2) {
      if (apart || step > of_warp) {
        sync_block();
      } else {
        sync_warp();
      }
      apart = step > of_warp;
      QUERN_ROLLED for (i32 own = lane(); own < of_warp; own += kWarp) {
        const i32 i = warp() * of_warp + own, a = 2 * i - (i & (step - 1)), b = a + step;
        if (i >= pairs) break;
        const u64 first = list[a], second = list[b];
        if ((first < second) == ((a & run) == 0)) list[a] = second, list[b] = first;
      }
    }
  }
  sync_block();
}

}  // namespace q
