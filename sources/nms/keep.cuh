// Which boxes are kept: a block an image, 64 boxes at a time. One thread goes through these; all of them then strike
// what the kept ones overlap.
// SPDX-License-Identifier: Apache-2.0
#include "common/kernel.cuh"
#include "nms/params.cuh"

namespace q {

inline constexpr i32 kMostWords = kMostBoxes / kBoxesAtOnce;

// The bits of those of `count` boxes that are neither struck nor overlap one that is kept before.
QUERN_DEVICE u64 kept_of(const u64* own, i32 count, u64 struck) {
  u64 kept = 0;
  QUERN_ROLLED for (i32 i = 0; i < count; ++i) {
    if (struck >> i & 1) continue;
    kept |= u64{1} << i;
    struck |= own[i];
  }
  return kept;
}

QUERN_DEVICE void keep(const NmsParams& p, i32 image) {
  QUERN_SHARED(u64, struck, kMostWords);
  QUERN_SHARED(u64, own, kBoxesAtOnce);  // the bits of 64 boxes that stand for themselves
  QUERN_SHARED(u64, kept_bits, 1);
  QUERN_SHARED(i32, valid, 1);
  const u32* order = p.order + i64{image} * p.n;
  const u64* overlaps = p.overlaps + i64{image} * p.n * p.words;
  i32* ids = p.ids + image * p.ids_stride;
  QUERN_ROLLED for (i32 w = thread_index(); w < p.words; w += kNmsThreads) struck[w] = 0;
  i32 found = 0;
  QUERN_ROLLED for (i32 word = 0; word < p.words && found < p.most; ++word) {
    const i32 first = word * kBoxesAtOnce, rest = p.n - first < kBoxesAtOnce ? p.n - first : kBoxesAtOnce;
    const i32 mine = thread_index();
    const bool has = mine < rest && order[first + mine] != 0;
    if (mine < kBoxesAtOnce) own[mine] = has ? overlaps[i64{first + mine} * p.words + word] : 0;
    if (mine == 0) *valid = 0;
    sync_block();
    // They are in order: those that are out come last.
    if (has) atomic_add(valid, 1);
    sync_block();
    const i32 count = *valid;
    if (mine == 0) *kept_bits = kept_of(own, count, struck[word]);
    sync_block();
    const u64 kept = *kept_bits;
    if (mine < count && (kept >> mine & 1) != 0) {
      const i32 to = found + static_cast<i32>(popcount(kept & ((u64{1} << mine) - 1)));
      if (to < p.most) ids[to] = p.positions[i64{image} * p.n + first + mine];
    }
    QUERN_ROLLED for (i32 w = word + 1 + thread_index(); w < p.words; w += kNmsThreads) {
      u64 bits = struck[w];
      QUERN_FOUR_AT_ONCE for (i32 i = 0; i < count; ++i) {
        if (kept >> i & 1) bits |= overlaps[i64{first + i} * p.words + w];
      }
      struck[w] = bits;
    }
    found += static_cast<i32>(popcount(kept));
    sync_block();
    if (count < rest) break;
  }
  if (found > p.most) found = p.most;
  QUERN_ROLLED for (i32 i = found + thread_index(); i < p.most; i += kNmsThreads) ids[i] = -1;
  if (p.counts && thread_index() == 0) p.counts[image] = found;
  sync_block();
}

}  // namespace q

QUERN_KERNEL(quern_nms_keep, q::kNmsThreads, 1, QUERN_PARAM q::NmsParams p) {
  q::launch_next_grid();
  q::wait_for_previous_grid();
  QUERN_ROLLED for (q::i32 image = q::block_index(0); image < p.images; image += q::block_count(0)) q::keep(p, image);
}
