// Scores as numbers that can be sorted, those of boxes that are out as 0.
// SPDX-License-Identifier: Apache-2.0
#include "common/kernel.cuh"
#include "nms/params.cuh"

namespace q {

QUERN_DEVICE u32 order_of(const NmsParams& p, i32 image, i32 box) {
  if (p.lengths && box >= p.lengths[image]) return 0;
  const f32 score = p.scores[image * p.scores_stride + box] + 0.0f;  // -0 becomes 0
  if (score != score || (p.has_threshold && !(score > p.score_threshold))) return 0;
  const u32 bits = bits_of(score);
  return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

}  // namespace q

QUERN_KERNEL(quern_nms_order, q::kNmsThreads, 2, QUERN_PARAM q::NmsParams p) {
  q::launch_next_grid();
  q::wait_for_previous_grid();
  const q::i64 all = q::i64{p.images} * p.n, step = q::i64{q::block_count(0)} * q::kNmsThreads;
  QUERN_ROLLED for (q::i64 at = q::i64{q::block_index(0)} * q::kNmsThreads + q::thread_index(); at < all; at += step) {
    const q::i32 image = static_cast<q::i32>(at / p.n);
    p.order[at] = q::order_of(p, image, static_cast<q::i32>(at - q::i64{image} * p.n));
  }
}
