// A warp waits for one word that a thread of another copies, which then returns: nothing else is under way, and nobody
// else is left to do anything.
// SPDX-License-Identifier: Apache-2.0
#include "common/sm90/tma.cuh"

namespace q::last_arrival {

struct Params {
  const u32* from;
  u32* to;  // [32]
};

}  // namespace q::last_arrival

QUERN_KERNEL(k, 64, 1, QUERN_PARAM q::last_arrival::Params p) {
  using namespace q;
  QUERN_SHARED(Mbarrier, barrier, 1);
  QUERN_SHARED(u32, word, 4);
  if (thread_index() == 0) {
    mbarrier_init(barrier[0], 1);
    fence_mbarrier_init();
  }
  sync_block();
  if (thread_index() == 32) {
    copy_async_4(word, p.from, true);
    copy_async_arrive(barrier[0]);
  } else if (thread_index() < 32) {
    mbarrier_wait(barrier[0], 0);
    p.to[thread_index()] = word[0];
  }
}
