// Sorts each tile by a digit in shared memory, and writes its keys, and values with them, to where the digit's keys of
// the tiles before end: neighbouring threads write neighbouring keys.
// SPDX-License-Identifier: Apache-2.0
#include "sort/keys.cuh"
#include "sort/places.cuh"
#include "sort/ranks.cuh"

namespace q {

using Value = VALUE;
inline constexpr bool kValues = HAS_VALUES != 0;
inline constexpr int kThreads = kSortThreads, kItems = ITEMS;

QUERN_DEVICE int item_at(int i) { return warp() * kItems * kWarp + i * kWarp + lane(); }

// `goes` receives, for each digit, where in the segment its first key of this tile goes, less its place in the tile.
QUERN_DEVICE void begin_digits(const SortParams& p, i32 tile, i32 segment, const u32* begins, u32* goes) {
  QUERN_SHARED(u32, scratch, kThreads / kWarp);
  const int d = thread_index();
  const u32 own = d < kDigits ? p.totals[i64{segment} * kDigits + d] : 0;
  u32 total;
  const u32 before = block_scan<kThreads>(own, scratch, &total);
  if (d < kDigits) goes[d] = before + p.counts[i64{d} * p.tiles + tile] - begins[d];
}

QUERN_DEVICE void scatter_tile(const SortParams& p, i32 tile) {
  static_assert(kThreads >= kDigits, "a thread for each digit");
  QUERN_SHARED(u32, begins, kDigits);
  QUERN_SHARED(u32, goes, kDigits);
  const TilePlace place = place_of(p, tile);
  if (place.count == 0) return;  // the same in all threads
  const Key* keys = static_cast<const Key*>(p.keys) + begin_of(p, place.segment, p.keys_stride) + place.at;
  u32 rank[kItems];
  {
    Key key[kItems];
    QUERN_UNROLL for (int i = 0; i < kItems; ++i) key[i] = item_at(i) < place.count ? keys[item_at(i)] : Key{0};
    // What is behind the last key stays there.
    QUERN_UNROLL for (int i = 0; i < kItems; ++i) rank[i] =
        item_at(i) < place.count ? digit_of(key[i], p.shift, p.descending) : kDigits - 1;
    rank_by_digit<kThreads, kItems>(rank, begins);
    Key* sorted = reinterpret_cast<Key*>(dynamic_shared());
    QUERN_UNROLL for (int i = 0; i < kItems; ++i) sorted[rank[i]] = key[i];
  }
  begin_digits(p, tile, place.segment, begins, goes);
  sync_block();
  // Where a key goes, its value follows: each thread keeps its keys' digits for itself.
  QUERN_SHARED(u8, digits, kValues ? kThreads * kItems : 1);
  Key* out = p.keys_out ? static_cast<Key*>(p.keys_out) + begin_of(p, place.segment, p.keys_out_stride) : nullptr;
  QUERN_UNROLL for (int i = 0; i < kItems; ++i) {
    const int at = i * kThreads + thread_index();
    if (at >= place.count) continue;
    const Key key = reinterpret_cast<const Key*>(dynamic_shared())[at];
    const u32 digit = digit_of(key, p.shift, p.descending);
    if constexpr (kValues) digits[at] = static_cast<u8>(digit);
    if (out) out[goes[digit] + static_cast<u32>(at)] = key;
  }
  if constexpr (kValues) {
    constexpr int kAtOnce = 8;  // values that a thread has on their way: all of them would take too many registers
    const Value* values =
        p.values ? static_cast<const Value*>(p.values) + begin_of(p, place.segment, p.values_stride) + place.at
                 : nullptr;
    Value* sorted = reinterpret_cast<Value*>(dynamic_shared());
    sync_block();
    QUERN_UNROLL for (int first = 0; first < kItems; first += kAtOnce) {
      Value value[kAtOnce];
      QUERN_UNROLL for (int i = 0; i < kAtOnce; ++i) {
        const int at = item_at(first + i);
        value[i] = static_cast<Value>(place.at + at);
        if (values && at < place.count) value[i] = values[at];
      }
      QUERN_UNROLL for (int i = 0; i < kAtOnce; ++i) sorted[rank[first + i]] = value[i];
    }
    sync_block();
    Value* values_out = static_cast<Value*>(p.values_out) + begin_of(p, place.segment, p.values_out_stride);
    QUERN_UNROLL for (int i = 0; i < kItems; ++i) {
      const int at = i * kThreads + thread_index();
      if (at < place.count) values_out[goes[digits[at]] + static_cast<u32>(at)] = sorted[at];
    }
  }
  sync_block();
}

}  // namespace q

QUERN_KERNEL(quern_sort_scatter, q::kSortThreads, 2, QUERN_PARAM q::SortParams p) {
  q::launch_next_grid();
  q::wait_for_previous_grid();
  QUERN_ROLLED for (q::i32 tile = q::block_index(0); tile < p.tiles; tile += q::block_count(0))
      q::scatter_tile(p, tile);
}
