// How often each value of a digit comes in each tile.
//
// A block counts `group` neighbouring tiles, so that it writes as many neighbouring counts of each digit.
// SPDX-License-Identifier: Apache-2.0
#include "common/reduce.cuh"
#include "sort/keys.cuh"
#include "sort/places.cuh"

namespace q {

inline constexpr int kItems = ITEMS;
inline constexpr int kAtOnce = 8;  // keys that a thread has on their way

QUERN_DEVICE void count_tile(const SortParams& p, i32 tile, u32* bins) {
  const TilePlace place = tile < p.tiles ? place_of(p, tile) : TilePlace{};
  if (place.count == 0) return;
  const Key* keys = static_cast<const Key*>(p.keys) + begin_of(p, place.segment, p.keys_stride) + place.at;
  QUERN_ROLLED for (int begin = 0; begin < kItems * kSortThreads; begin += kAtOnce * kSortThreads) {
    Key key[kAtOnce];
    QUERN_UNROLL for (int i = 0; i < kAtOnce; ++i) {
      const int at = begin + i * kSortThreads + thread_index();
      key[i] = at < place.count ? keys[at] : Key{0};
    }
    QUERN_UNROLL for (int i = 0; i < kAtOnce; ++i) count_in(bins, digit_of(key[i], p.shift, p.descending),
                                                            begin + i * kSortThreads + thread_index() < place.count);
  }
}

QUERN_DEVICE void count(const SortParams& p, i32 first) {
  QUERN_SHARED(u32, bins, kMostSortGroup * kDigits);
  bins_zero<kSortThreads>(bins, p.group * kDigits);
  sync_block();
  QUERN_ROLLED for (i32 g = 0; g < p.group; ++g) count_tile(p, first + g, bins + g * kDigits);
  sync_block();
  QUERN_ROLLED for (i32 i = thread_index(); i < p.group * kDigits; i += kSortThreads) {
    const i32 d = i / p.group, g = i - d * p.group;
    if (first + g < p.tiles) p.counts[i64{d} * p.tiles + first + g] = bins[g * kDigits + d];
  }
  sync_block();
}

}  // namespace q

QUERN_KERNEL(quern_sort_count, q::kSortThreads, 2, QUERN_PARAM q::SortParams p) {
  q::launch_next_grid();
  q::wait_for_previous_grid();
  QUERN_ROLLED for (q::i32 first = q::block_index(0) * p.group; first < p.tiles; first += q::block_count(0) * p.group)
      q::count(p, first);
}
