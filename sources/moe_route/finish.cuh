// The end of the sort by expert where there are many tokens: a thread block places the choices of the tokens that the
// thread block of the same index routed, behind those of the ones before.
// SPDX-License-Identifier: Apache-2.0
#include "moe_route/place.cuh"

namespace q {

QUERN_DEVICE void finish(const MoeRouteParams& p) {
  QUERN_SHARED(u32, next_row, kMostExperts);
  QUERN_SHARED(u32, chosen_by, kMostExperts);
  constexpr int kAtOnce = 4;  // loads under way
  const i32 columns = p.pitch / 4, rows = kThreads / columns;
  const i32 column = thread_index() % columns, first = thread_index() / columns;
  QUERN_ROLLED for (i32 e = thread_index(); e < p.pitch; e += kThreads) {
    next_row[e] = e < p.local_experts ? p.begins[e] : 0;
    chosen_by[e] = 0;
  }
  sync_block();
  if (first < rows) {
    u32 sum[4] = {};
    QUERN_ROLLED for (i32 chunk = first; chunk < block_index(0); chunk += rows * kAtOnce) {
      vec16 counts[kAtOnce];
      QUERN_UNROLL for (int i = 0; i < kAtOnce; ++i) {
        const i32 at = chunk + i * rows;
        counts[i] = {};
        if (at < block_index(0)) counts[i] = load16(p.chunk_counts + static_cast<i64>(at) * p.pitch + column * 4);
      }
      QUERN_UNROLL for (int i = 0; i < kAtOnce; ++i) {
        QUERN_UNROLL for (int c = 0; c < 4; ++c) sum[c] += counts[i].x[c];
      }
    }
    QUERN_UNROLL for (int c = 0; c < 4; ++c) atomic_add(next_row + column * 4 + c, sum[c]);
  }
  const i32 begin = block_index(0) * p.chunk;
  place_choices(p, begin, begin + p.chunk < p.tokens ? begin + p.chunk : p.tokens, next_row, chosen_by);
}

}  // namespace q

QUERN_KERNEL(quern_moe_finish, THREADS, 1, QUERN_PARAM q::MoeRouteParams p) {
  q::launch_next_grid();
  q::wait_for_previous_grid();
  q::finish(p);
}
