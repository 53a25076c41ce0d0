// From the tiles' counts of a digit to what the tiles before of the same segment have, and to the segment's totals: a
// warp for each digit of a segment.
// SPDX-License-Identifier: Apache-2.0
#include "common/reduce.cuh"
#include "sort/places.cuh"

namespace q {

inline constexpr int kScanThreads = 128;
inline constexpr int kAtOnce = 8;  // counts that a lane has on their way

QUERN_DEVICE void scan(const SortParams& p, i32 segment, i32 digit) {
  const i32 first = first_tile_of(p, segment), tiles = div_up(length_of(p, segment), p.tile);
  u32* counts = p.counts + i64{digit} * p.tiles + first;
  u32 before = 0;
  QUERN_ROLLED for (i32 begin = 0; begin < tiles; begin += kAtOnce * kWarp) {
    u32 count[kAtOnce];
    QUERN_UNROLL for (int i = 0; i < kAtOnce; ++i) {
      const i32 at = begin + i * kWarp + lane();
      count[i] = at < tiles ? counts[at] : 0;
    }
    QUERN_UNROLL for (int i = 0; i < kAtOnce; ++i) {
      const i32 at = begin + i * kWarp + lane();
      const u32 through = warp_scan(count[i]);
      if (at < tiles) counts[at] = before + through - count[i];
      before += shuffle(through, kWarp - 1);
    }
  }
  if (lane() == 0) p.totals[i64{segment} * kDigits + digit] = before;
}

}  // namespace q

QUERN_KERNEL(quern_sort_scan, q::kScanThreads, 8, QUERN_PARAM q::SortParams p) {
  q::launch_next_grid();
  q::wait_for_previous_grid();
  constexpr int kWarps = q::kScanThreads / q::kWarp;
  const q::i64 all = q::i64{p.segments} * q::kDigits;
  QUERN_ROLLED for (q::i64 at = q::i64{q::block_index(0)} * kWarps + q::warp(); at < all;
                    at += q::i64{q::block_count(0)} * kWarps)
      q::scan(p, static_cast<q::i32>(at / q::kDigits), static_cast<q::i32>(at % q::kDigits));
}
