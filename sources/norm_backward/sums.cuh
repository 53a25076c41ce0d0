// The gradients of weight and bias from those of the parts: a column's parts are shared out among eight threads, and
// joined one after the other.
// SPDX-License-Identifier: Apache-2.0
#include "common/kernel.cuh"
#include "norm_backward/params.cuh"

namespace q {

using Out = OUT;
inline constexpr i32 kShares = kNormSumThreads / kNormSumColumns;
inline constexpr i32 kAtOnce = 16;  // parts that a thread has under way

QUERN_DEVICE void join_parts(const NormSumsParams& p) {
  QUERN_SHARED(f32, shared, kNormSumThreads);
  const f32* from = block_index(1) == 0 ? p.dweight : p.dbias;
  if (from == nullptr) return;
  Out* to = static_cast<Out*>(block_index(1) == 0 ? p.dweight_out : p.dbias_out);
  const i32 share = thread_index() / kNormSumColumns, place = thread_index() % kNormSumColumns;
  QUERN_ROLLED for (i32 first = block_index(0) * kNormSumColumns; first < p.n;
                    first += block_count(0) * kNormSumColumns) {
    const i32 column = first + place;
    f32 total = 0.0f;
    if (column < p.n) {
      QUERN_ROLLED for (i32 part = share; part < p.parts; part += kAtOnce * kShares) {
        f32 some[kAtOnce];
        QUERN_UNROLL for (i32 i = 0; i < kAtOnce; ++i) {
          const i32 at = part + i * kShares;
          some[i] = at < p.parts ? from[static_cast<i64>(at) * p.n + column] : 0.0f;
        }
        QUERN_UNROLL for (i32 i = 0; i < kAtOnce; ++i) total += some[i];
      }
    }
    shared[thread_index()] = total;
    sync_block();
    if (share == 0 && column < p.n) {
      QUERN_UNROLL for (i32 i = 1; i < kShares; ++i) total += shared[i * kNormSumColumns + place];
      to[column] = from_f32<Out>(total);
    }
    sync_block();
  }
}

}  // namespace q

QUERN_KERNEL(quern_norm_backward_sums, q::kNormSumThreads, 4, QUERN_PARAM q::NormSumsParams p) {
  q::launch_next_grid();
  q::wait_for_previous_grid();
  q::join_parts(p);
}
