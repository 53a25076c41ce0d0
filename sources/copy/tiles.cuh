// A copy whose two sides are contiguous along different dimensions, of so few elements that it takes little longer than
// its code is run through once: small tiles go through shared memory, an element at a time.
// SPDX-License-Identifier: Apache-2.0
#include "copy/convert.cuh"
#include "copy/params.cuh"

namespace q {

inline constexpr int kSide = kCopySide, kBelow = THREADS / kSide, kEach = kSide / kBelow;
inline constexpr int kPitch = kSide + 1;  // so that a column lies in all banks

using Stored = Elements<To, 1>;

QUERN_DEVICE void copy_tile(const TransposeParams& p, i32 number, Stored* tile) {
  constexpr int kFromSize = static_cast<int>(sizeof(From)), kToSize = static_cast<int>(sizeof(To));
  const TilePlace place = place_of_tile<OUTER>(p, number);
  const u32 thread = static_cast<u32>(thread_index());
  const i32 beside = static_cast<i32>(thread % kSide), below = static_cast<i32>(thread / kSide);
  const i32 k0 = place.k * kSide, l0 = place.l * kSide;
  const i32 left_k = static_cast<i32>(p.k) - k0, left_l = static_cast<i32>(p.l) - l0;
  const u8* from = place.from + (l0 + below) * p.from_l + (k0 + beside) * kFromSize;
  Elements<From, 1> held[kEach];
  QUERN_UNROLL for (int i = 0; i < kEach; ++i) {
    if (beside < left_k && below + i * kBelow < left_l) held[i] = load_elements<From, 1>(from);
    from += kBelow * p.from_l;
  }
  QUERN_UNROLL for (int i = 0; i < kEach; ++i) {
    tile[(below + i * kBelow) * kPitch + beside] = converted<From, To>(held[i]);
  }
  sync_block();
  u8* to = place.to + (k0 + below) * p.to_k + (l0 + beside) * kToSize;
  QUERN_UNROLL for (int i = 0; i < kEach; ++i) {
    if (beside < left_l && below + i * kBelow < left_k)
      store_elements<To, 1>(to, tile[beside * kPitch + below + i * kBelow]);
    to += kBelow * p.to_k;
  }
}

}  // namespace q

QUERN_KERNEL(quern_copy_tiles, THREADS, BLOCKS_PER_SM, QUERN_PARAM q::TransposeParams p) {
  q::launch_next_grid();
  q::wait_for_previous_grid();
  QUERN_SHARED(q::Stored, tile, q::kSide * q::kPitch);
  QUERN_ROLLED for (q::i32 number = q::block_index(0); number < p.tiles; number += q::block_count(0)) {
    q::copy_tile(p, number, tile);
    q::sync_block();  // until all have read what the next tile overwrites
  }
}
