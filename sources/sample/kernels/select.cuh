// Which of a row's tokens are among its k largest, or make up a share of its weight: by histograms over a range that narrows, exactly.
//
// A source's each(f) is called by all threads, and calls f(place, there) with all lanes of a warp at once, `there` false where a lane
// has nothing. It gives the same tokens each time.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "sample/kernels/edits.cuh"

namespace q {

inline constexpr int kBinsEach = 4, kBins = kThreads * kBinsEach;
inline constexpr int kBinBits = 10;
static_assert(kBins >= 1 << kBinBits);
inline constexpr i32 kList = 2048;  // tokens that are kept in shared memory

// Shared memory that the last block of a row works in.
struct Room {
  u32* counts;   // [kBins]
  u64* weights;  // [kBins]
  Place* few;    // [kThreads]
  u64* scratch;  // [kThreads / kWarp + 4]
  Place* list;   // [kList]
  u32* total;    // [1]
};

template <class T, class Op>
QUERN_DEVICE T reduce(const Room& room, T v, Op op) {
  const u64 wide = block_reduce<kThreads>(static_cast<u64>(v), [&](u64 a, u64 b) { return static_cast<u64>(op(static_cast<T>(a), static_cast<T>(b))); },
                                          room.scratch);
  sync_block();
  return static_cast<T>(wide);
}
template <class T>
QUERN_DEVICE T reduce_sum(const Room& room, T v) { return reduce(room, v, Plus{}); }
template <class T>
QUERN_DEVICE T reduce_max(const Room& room, T v) { return reduce(room, v, Larger{}); }
template <class T>
QUERN_DEVICE T reduce_min(const Room& room, T v) { return reduce(room, v, Smaller{}); }

// ---- Sources
// The row's tokens, or those of a list in shared memory, or what stands for the row's: of each group its largest logit, at the place of
// the group's first token, and the tokens that lists name. One type for all, so that what is done with them is compiled once.
struct Source {
  enum Kind { list, row, groups } kind;
  i32 count;            // of places, groups or tokens
  i32 slots;            // of the table, behind the groups
  const Place* places;
  const u32* keys;
  const Row* of;
  EditTable table;
  Place least, most;    // what is not between them is not there
  bool typical;         // nor is what ranks lower than this
  u64 typical_least;
  f32 max, inverse_temperature;  // of weights
  f32 filter_max, filter_inverse, log_sum, entropy;  // of the distribution that typical tokens are told by

  QUERN_DEVICE f32 logit(i32 token) const {
    if (kEdits && table.slots != 0) {
      const u32 slot = table.find(token);
      if (slot != table.slots) return table.values[slot];
    }
    return edited(*of, token);
  }
  QUERN_DEVICE Place load(i32 at) const {
    if (kind == list) return places[at];
    if (kind == row) return place_of(logit(at), at);
    if (at < count) return static_cast<u64>(keys[at]) << 32 | static_cast<u32>(~(at * kGroup));
    const u32 token = table.tokens[at - count];
    return token == EditTable::kFree ? Place{0} : place_of(table.values[at - count], static_cast<i32>(token));
  }
  QUERN_DEVICE f32 distance_of(Place place) const { return distance(max, value_at(place), inverse_temperature); }
  QUERN_DEVICE u64 weigh(Place place) const { return weight_at(distance_of(place)); }
  // The closer -log p comes to the entropy the higher; the lowest index on ties.
  QUERN_DEVICE u64 typical_rank(Place place) const {
    const f32 z = distance(filter_max, value_at(place), filter_inverse);
    return static_cast<u64>(~bits_of(fabs(z + log_sum - entropy))) << 32 | static_cast<u32>(place);
  }
  QUERN_DEVICE bool has(Place place) const {
    return is_token(place) && place >= least && place <= most && (!typical || typical_rank(place) >= typical_least);
  }
  template <class F>
  QUERN_DEVICE void each(F f) const {
    constexpr int kAtOnce = 4;  // loads under way
    const i32 end = count + slots;
    QUERN_ROLLED for (i32 base = 0; base < end; base += kThreads * kAtOnce) {
      Place place[kAtOnce];
      QUERN_UNROLL for (int j = 0; j < kAtOnce; ++j) {
        const i32 at = base + j * kThreads + thread_index();
        place[j] = at < end ? load(at) : Place{0};
      }
      QUERN_UNROLL for (int j = 0; j < kAtOnce; ++j) {
        if (base + j * kThreads < end) f(place[j], has(place[j]));
      }
    }
  }
};

// ---- Selection
struct Itself {
  QUERN_DEVICE u64 operator()(Place place) const { return place; }
};

struct Range {
  u64 least, most;
  u32 count;
};
template <class Rank>
QUERN_DEVICE Range range_of(const Room& room, const Source& source, Rank rank) {
  Range r{~u64{0}, 0, 0};
  source.each([&](Place place, bool there) {
    if (!there) return;
    const u64 at = rank(place);
    r.least = at < r.least ? at : r.least, r.most = at > r.most ? at : r.most, ++r.count;
  });
  return {reduce_min(room, r.least), reduce_max(room, r.most), reduce_sum(room, r.count)};
}
// The tokens of a range that has no more than kThreads, in room.few in no order, zeros behind. Barriers at both ends.
template <class Rank, class Keep>
QUERN_DEVICE void collect(const Room& room, const Source& source, Rank rank, const Range& range, Keep keep) {
  sync_block();
  if (thread_index() == 0) room.total[0] = 0;
  room.few[thread_index()] = 0;
  sync_block();
  source.each([&](Place place, bool there) {
    if (!there) return;
    const u64 at = rank(place);
    if (at >= range.least && at <= range.most) room.few[atomic_add(room.total, 1u)] = keep(place);
  });
  sync_block();
}
QUERN_DEVICE int bin_shift(const Range& range) {
  const int bits = 64 - static_cast<int>(leading_zeros(range.most - range.least));
  return bits > kBinBits ? bits - kBinBits : 0;
}
QUERN_DEVICE void narrow(Range* range, i32 bin, int shift, u32 count) {
  range->least += static_cast<u64>(bin) << shift;
  const u64 end = range->least + ((u64{1} << shift) - 1);
  range->most = end < range->most ? end : range->most;
  range->count = count;
}

// The rank down to which there are `wanted` tokens; 0, and so all of them, where there are not more.
template <class Rank = Itself>
QUERN_DEVICE u64 least_of_largest(const Room& room, const Source& source, u32 wanted, Rank rank = {}) {
  Range range = range_of(room, source, rank);
  if (range.count <= wanted) return 0;
  while (true) {
    if (range.count == wanted) return range.least;
    if (range.count <= static_cast<u32>(kThreads)) {
      collect(room, source, rank, range, rank);
      const u64 own = room.few[thread_index()];
      u32 larger = 0;
      QUERN_ROLLED for (u32 i = 0; i < range.count; ++i) larger += room.few[i] > own;
      return reduce_max(room, thread_index() < static_cast<i32>(range.count) && larger + 1 == wanted ? own : u64{0});
    }
    const int shift = bin_shift(range);
    bins_zero<kThreads>(room.counts, kBins);
    sync_block();
    source.each([&](Place place, bool there) {
      const u64 at = there ? rank(place) : 0;
      const bool in = there && at >= range.least && at <= range.most;
      count_in(room.counts, in ? static_cast<u32>((at - range.least) >> shift) : 0, in);
    });
    sync_block();
    const FoundBin<u32> found = find_from_top<kThreads, kBinsEach>(room.counts, wanted, reinterpret_cast<u32*>(room.scratch));
    sync_block();
    wanted -= found.above;
    narrow(&range, found.bin, shift, found.in);
  }
}

QUERN_DEVICE void weigh_in(const Room& room, u32 bin, u64 weight, bool take) {
  u64 left = ballot(take);
  QUERN_ROLLED for (int round = 0; round < 2; ++round) {
    if (left == 0) return;
    const int leader = static_cast<int>(trailing_zeros(left));
    const u32 its = shuffle(bin, leader);
    const bool mine = take && bin == its;
    const u64 with = ballot(mine);
    if (popcount(with) < 4) break;  // the same in all lanes
    const u64 sum = warp_sum(mine ? weight : u64{0});
    if (lane() == leader) {
      atomic_add(room.counts + bin, popcount(with));
      atomic_add(room.weights + bin, sum);
    }
    take = take && !mine;
    left &= ~with;
  }
  if (take) {
    atomic_add(room.counts + bin, 1u);
    atomic_add(room.weights + bin, weight);
  }
}

// The rank down to which tokens weigh `wanted`, no further than that; 0 where all weigh less. Some weigh more than nothing, wanted > 0.
template <class Rank = Itself>
QUERN_DEVICE u64 least_of_heaviest(const Room& room, const Source& source, u64 wanted, Rank rank = {}) {
  Range range = range_of(room, source, rank);
  if (range.count == 0) return 0;
  while (true) {
    if (range.count <= static_cast<u32>(kThreads)) {
      collect(room, source, rank, range, Itself{});
      const bool there = thread_index() < static_cast<i32>(range.count);
      const Place place = room.few[thread_index()];
      const u64 own = there ? rank(place) : 0, weight = there ? source.weigh(place) : 0;
      sync_block();
      room.few[thread_index()] = own;
      room.weights[thread_index()] = weight;
      sync_block();
      u64 before = 0;
      QUERN_ROLLED for (u32 i = 0; i < range.count; ++i) before += room.few[i] > own ? room.weights[i] : 0;
      return reduce_max(room, there && before < wanted && wanted <= before + weight ? own : u64{0});
    }
    const int shift = bin_shift(range);
    bins_zero<kThreads>(room.counts, kBins);
    bins_zero<kThreads>(room.weights, kBins);
    sync_block();
    source.each([&](Place place, bool there) {
      const u64 at = there ? rank(place) : 0;
      const bool in = there && at >= range.least && at <= range.most;
      weigh_in(room, in ? static_cast<u32>((at - range.least) >> shift) : 0, in ? source.weigh(place) : 0, in);
    });
    sync_block();
    const FoundBin<u64> found = find_from_top<kThreads, kBinsEach>(room.weights, wanted, room.scratch);
    if (found.bin < 0) return 0;
    const u32 count = room.counts[found.bin];
    sync_block();
    wanted -= found.above;
    narrow(&range, found.bin, shift, count);
  }
}

}  // namespace q
