// Short segments, in one launch: a block each, all digits of its keys in shared memory, one after the other; of up to
// kFewKeys a warp each, which compares them all.
// SPDX-License-Identifier: Apache-2.0
#include "sort/keys.cuh"
#include "sort/places.cuh"
#include "sort/ranks.cuh"

namespace q {

using Value = VALUE;
inline constexpr bool kValues = HAS_VALUES != 0;
inline constexpr int kThreads = THREADS, kItems = ITEMS, kMost = MOST;

// What a thread has: neighbouring keys of its warp.
QUERN_DEVICE int item_at(int i) { return warp() * kItems * kWarp + i * kWarp + lane(); }

// From where the keys' ranks say back to each thread's places. Both of the barriers are needed: `through` serves again.
template <class T>
QUERN_DEVICE void exchange(T (&x)[kItems], const u32 (&rank)[kItems]) {
  T* through = reinterpret_cast<T*>(dynamic_shared());
  QUERN_UNROLL for (int i = 0; i < kItems; ++i) through[rank[i]] = x[i];
  sync_block();
  QUERN_UNROLL for (int i = 0; i < kItems; ++i) x[i] = through[item_at(i)];
  sync_block();
}

QUERN_DEVICE void sort_segment(const SortParams& p, i32 segment) {
  QUERN_SHARED(u32, begins, kDigits);
  const i32 length = length_of(p, segment), count = length < kMost ? length : kMost;
  if (count <= 0) return;
  const Key* keys = static_cast<const Key*>(p.keys) + begin_of(p, segment, p.keys_stride);
  Key key[kItems];
  Value value[kItems];
  QUERN_UNROLL for (int i = 0; i < kItems; ++i) {
    const int at = item_at(i);
    key[i] = at < count ? keys[at] : Key{0};
    if constexpr (kValues) {
      value[i] = static_cast<Value>(at);
      if (p.values && at < count)
        value[i] = (static_cast<const Value*>(p.values) + begin_of(p, segment, p.values_stride))[at];
    }
  }
  QUERN_ROLLED for (i32 shift = 0; shift < kKeyBits; shift += 8) {
    u32 rank[kItems];
    // What is behind the last key stays there.
    QUERN_UNROLL for (int i = 0; i < kItems; ++i) rank[i] =
        item_at(i) < count ? digit_of(key[i], shift, p.descending) : kDigits - 1;
    rank_by_digit<kThreads, kItems>(rank, begins);
    exchange(key, rank);
    if constexpr (kValues) exchange(value, rank);
  }
  QUERN_UNROLL for (int i = 0; i < kItems; ++i) {
    const int at = item_at(i);
    if (at >= count) continue;
    if (p.keys_out) (static_cast<Key*>(p.keys_out) + begin_of(p, segment, p.keys_out_stride))[at] = key[i];
    if constexpr (kValues)
      (static_cast<Value*>(p.values_out) + begin_of(p, segment, p.values_out_stride))[at] = value[i];
  }
}

// Where shuffles take them: 32 or 64 bits.
using WideKey = LaneBits<sizeof(Key) == 8 ? 64 : 32>::Type;

// A key's place is the number of those that come before it: a warp compares all of its segment's, which lie in shared
// memory, where each is read by all lanes at once.
QUERN_DEVICE void sort_few(const SortParams& p, i32 segment, WideKey* all) {
  const i32 length = length_of(p, segment), count = length < kMost ? length : kMost;
  const Key* keys = static_cast<const Key*>(p.keys) + begin_of(p, segment, p.keys_stride);
  constexpr int kOwn = div_up(kMost, kWarp);
  Key key[kOwn];
  WideKey mine[kOwn];
  Value value[kOwn];
  i32 rank[kOwn];
  QUERN_UNROLL for (int i = 0; i < kOwn; ++i) {
    const int at = i * kWarp + lane();
    key[i] = at < count ? keys[at] : Key{0};
    value[i] = static_cast<Value>(at);
    if constexpr (kValues) {
      if (p.values && at < count)
        value[i] = (static_cast<const Value*>(p.values) + begin_of(p, segment, p.values_stride))[at];
    }
    mine[i] = in_order(key[i], p.descending);
    rank[i] = 0;
    if (at < kMost) all[at] = mine[i];
  }
  // It also lets no lane write before all have read.
  sync_warp();
  QUERN_FOUR_AT_ONCE for (int at = 0; at < count; ++at) {
    const WideKey other = all[at];
    QUERN_UNROLL for (int i = 0; i < kOwn; ++i) {
      rank[i] += other < mine[i] || (other == mine[i] && at < i * kWarp + lane()) ? 1 : 0;
    }
  }
  sync_warp();  // until the next segment's keys come
  QUERN_UNROLL for (int i = 0; i < kOwn; ++i) {
    if (i * kWarp + lane() >= count) continue;
    if (p.keys_out) (static_cast<Key*>(p.keys_out) + begin_of(p, segment, p.keys_out_stride))[rank[i]] = key[i];
    if constexpr (kValues)
      (static_cast<Value*>(p.values_out) + begin_of(p, segment, p.values_out_stride))[rank[i]] = value[i];
  }
}

}  // namespace q

QUERN_KERNEL(quern_sort_row, THREADS, BLOCKS_PER_SM, QUERN_PARAM q::SortParams p) {
  q::launch_next_grid();
  q::wait_for_previous_grid();
  // A segment's block, or as many segments as a block has warps.
  constexpr q::i32 kEach = q::kMost <= q::kFewKeys ? THREADS / q::kWarp : 1;
  QUERN_SHARED(q::WideKey, few, kEach > 1 ? kEach * q::kMost : 1);
  const q::i64 step = q::i64{q::block_count(0)} * kEach;
  QUERN_ROLLED for (q::i64 first = q::i64{q::block_index(0)} * kEach; first < p.segments; first += step) {
    if constexpr (kEach > 1) {
      if (first + q::warp() < p.segments)
        q::sort_few(p, static_cast<q::i32>(first) + q::warp(), few + q::warp() * q::kMost);
    } else {
      q::sort_segment(p, static_cast<q::i32>(first));
    }
  }
}
