// The elements of a block that may be among the k largest of its row: few, where numbers differ. What follows then
// looks at these alone.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "top_k/kernels/select.cuh"

namespace q {

// Of a warp's lanes, the largest in the first.
QUERN_DEVICE u32 sort_lanes(u32 v) {
  QUERN_UNROLL for (int run = 2; run <= kWarp; run *= 2) {
    QUERN_UNROLL for (int step = run / 2; step > 0; step /= 2) {
      const u32 other = shuffle_xor(v, step);
      const bool larger = ((lane() & step) == 0) == ((lane() & run) == 0);
      v = (other > v) == larger ? other : v;
    }
  }
  return v;
}

// What is known of the k-th largest key before any is counted: it lies between these.
struct Bounds {
  u32 least, most;
};

// Every warp whose part is whole has its share of k among the largest of its lanes; k elements reach the least of these
// shares' last ones, and where numbers are spread as they usually are not many more do.
QUERN_DEVICE Bounds bounds_of(const Keys& keys, i32 k, const RowSlots<u64>& room) {
  const Slice& s = keys.s;
  const i32 whole = (div_up(s.end, kTile) - 1) / s.each, share = whole > 0 ? div_up(k, whole) : kWarp + 1;
  u32 own = 0;
  keys.each([&](i32, const u32(&of_group)[kGroup]) {
    QUERN_UNROLL for (int i = 0; i < kGroup; ++i) own = of_group[i] > own ? of_group[i] : own;
  });
  const u32 sorted = sort_lanes(own);
  u32 least = share <= kWarp ? shuffle(sorted, (share - 1) & (kWarp - 1)) : 0u;
  if (share <= kWarp && row_block() * kWarps + warp() >= whole) least = ~0u;
  // The least of one half, the largest of the other.
  const auto op = [](u64 a, u64 b) {
    const u32 low = static_cast<u32>(a) > static_cast<u32>(b) ? static_cast<u32>(a) : static_cast<u32>(b);
    return ((a < b ? a : b) >> 32 << 32) | low;
  };
  const u64 both = room.reduce(static_cast<u64>(least) << 32 | shuffle(sorted, 0), op);
  least = static_cast<u32>(both >> 32);
  return {least != 0 ? least : 1u, static_cast<u32>(both)};
}

// Places in shared memory, `count` of them, in the manner of Keys.
struct ListedKeys {
  const u64* places;
  i32 count;
  mutable u32 complements[kGroup];  // of the group that each() is at

  template <class F>
  QUERN_DEVICE void each(F f) const {
    QUERN_ROLLED for (i32 base = thread_index(); base < round_up(count, kThreads); base += kThreads * kGroup) {
      u32 keys[kGroup];
      QUERN_UNROLL for (int i = 0; i < kGroup; ++i) {
        const i32 at = base + i * kThreads;
        const u64 place = at < count ? places[at] : u64{0};
        keys[i] = static_cast<u32>(place >> 32), complements[i] = static_cast<u32>(place);
      }
      f(0, keys);
    }
  }
  QUERN_DEVICE i32 index_of(i32, int i) const { return static_cast<i32>(~complements[i]); }
};

// The elements whose keys are at least `least`, in a list, unless it has no room for them. How many there are. Barriers
// at both ends.
QUERN_DEVICE u32 gather_from(const Keys& keys, u32 least, u64* list, u32 room, u32* scratch) {
  u32 own = 0, total;
  keys.each([&](i32, const u32(&k)[kGroup]) { QUERN_UNROLL for (int i = 0; i < kGroup; ++i) own += k[i] >= least; });
  sync_block();
  u32 at = block_scan<kThreads>(own, scratch, &total);
  if (total <= room && own != 0) {
    // The lanes of a warp go different ways here: each looks at its own.
    keys.each([&](i32 tile, const u32(&k)[kGroup]) {
      QUERN_UNROLL for (int i = 0; i < kGroup; ++i) {
        if (k[i] >= least) list[at++] = static_cast<u64>(k[i]) << 32 | ~static_cast<u32>(keys.index_of(tile, i));
      }
    });
  }
  sync_block();
  return total;
}

}  // namespace q
