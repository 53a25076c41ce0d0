// Which of a row's tokens are among its k largest, or make up a share of its weight: by histograms over a range that
// narrows, exactly.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "sample/kernels/room.cuh"

namespace q {

// ---- Sources
// The row's tokens, or those of a list in shared memory, or what stands for the row's: of each group its largest logit,
// at the place of the group's first token, and the tokens that lists name. One type for all, so that what is done with
// them is compiled once.
struct Source {
  enum Kind { list, row, groups } kind;
  i32 count;  // of places, groups or tokens
  i32 slots;  // of the table, behind the groups
  const SampleParams* p;
  bool unlisted;  // the row's: without those that lists name
  const Place* places;
  const u32* keys;
  const Row* of;
  EditTable table;
  Place least, most;  // what is not between them is not there
  bool typical;       // nor is what ranks lower than this
  u64 typical_least;
  f32 max, inverse_temperature;                      // of weights
  f32 filter_max, filter_inverse, log_sum, entropy;  // of the distribution that typical tokens are told by

  QUERN_DEVICE Place of_token(i32 token) const {
    if (kEdits && table.slots != 0) {
      const u32 slot = table.find(token);
      if (slot != table.slots) return unlisted ? Place{0} : place_of(table.values[slot], token);
    }
    return place_of(edited(*of, token), token);
  }
  QUERN_DEVICE Place load(i32 at) const {
    if (kind == list) return places[at];
    if (kind == row) return of_token(at);
    if (at < count) return static_cast<u64>(keys[at]) << 32 | static_cast<u32>(~(at * kGroup));
    const u32 token = table.tokens[at - count];
    return token == EditTable::kFree ? Place{0} : place_of(table.values[at - count], static_cast<i32>(token));
  }
  QUERN_DEVICE f32 distance_of(Place place) const { return distance(max, value_at(place), inverse_temperature); }
  QUERN_DEVICE f32 share(Place place) const {
    return share_of_largest(max, value_at(place), inverse_temperature * kLog2OfE);
  }
  QUERN_DEVICE u64 weigh(Place place) const { return to_units(share(place)); }
  // The closer -log p comes to the entropy the higher; the lowest index on ties.
  QUERN_DEVICE u64 typical_rank(Place place) const {
    // An explicit fma: wherever this is compiled into, equal logits must have equal ranks.
    const f32 x = value_at(place), surplus = log_sum - entropy;
    const f32 score = x == filter_max ? surplus : fma(filter_max - x, filter_inverse, surplus);
    return static_cast<u64>(~bits_of(fabs(score))) << 32 | static_cast<u32>(place);
  }
  QUERN_DEVICE bool has(Place place) const {
    return is_token(place) && place >= least && place <= most && (!typical || typical_rank(place) >= typical_least);
  }
};

// A chunk of the row, edited, what lists name included: token place_in_chunk(i / kVector) + i % kVector of it at x[i].
struct ChunkLogits {
  f32 x[kEach];
};
QUERN_CALLED void load_logits(const Source& source, i32 chunk, ChunkLogits& to) {
  f32 x[kEach];
  const SampleParams& p = *source.p;
  const i32 begin = chunk * kChunk;
  load_chunk(*source.of, begin, p.vocab, p.vectors, x);
  QUERN_UNROLL for (int i = 0; i < kEach; ++i) to.x[i] = fmax(x[i], -infinity());
  if constexpr (kEdits) {
    QUERN_ROLLED for (int i = 0; i < kEach; ++i) {
      const i32 token = begin + place_in_chunk(i / kVector) + i % kVector;
      if (token >= p.vocab) continue;
      const u32 slot = source.table.slots != 0 ? source.table.find(token) : 0;
      const bool listed = slot != source.table.slots;
      to.x[i] = !listed ? edit(*source.of, token, to.x[i]) : source.unlisted ? -infinity() : source.table.values[slot];
    }
  }
}
// f(place) as each() has it, of one chunk of the row: for a warp.
template <class F>
QUERN_DEVICE void each_in_chunk(const Source& source, i32 chunk, F f) {
  ChunkLogits logits;
  load_logits(source, chunk, logits);
  QUERN_FOUR_AT_ONCE for (int i = 0; i < kEach; ++i) {
    const Place place = place_of(logits.x[i], chunk * kChunk + place_in_chunk(i / kVector) + i % kVector);
    f(source.has(place) ? place : Place{0});
  }
}

inline constexpr int kAtOnce = 4;  // loads under way
struct Places {
  Place x[kAtOnce];
};
// What stands at base, base + kThreads and so on; 0 where there is nothing, or what is not in the source.
QUERN_CALLED Places load_places(const Source& source, i32 base) {
  Places places;
  const i32 end = source.count + source.slots;
  QUERN_UNROLL for (int j = 0; j < kAtOnce; ++j) {
    const i32 at = base + j * kThreads + thread_index();
    places.x[j] = at < end ? source.load(at) : Place{0};
  }
  QUERN_UNROLL for (int j = 0; j < kAtOnce; ++j) places.x[j] = source.has(places.x[j]) ? places.x[j] : Place{0};
  return places;
}
// f(place) for all that a source has, 0 for a lane that has nothing: with all lanes of a warp at once, the same tokens
// each time.
template <class F>
QUERN_DEVICE void each(const Source& source, F f) {
  const bool by_chunks = source.kind == Source::row;
  const i32 end = by_chunks ? source.p->chunks : source.count + source.slots,
            step = by_chunks ? kThreads / kWarp : kThreads * kAtOnce;
  QUERN_ROLLED for (i32 base = by_chunks ? warp() : 0; base < end; base += step) {
    ChunkLogits logits;
    Places places;
    if (by_chunks) {
      load_logits(source, base, logits);
    } else {
      places = load_places(source, base);
    }
    const int most = by_chunks ? kEach : kAtOnce;
    QUERN_ROLLED for (int i = 0; i < most; ++i) {
      Place place;
      if (by_chunks) {
        place = place_of(logits.x[i], base * kChunk + place_in_chunk(i / kVector) + i % kVector);
        if (!source.has(place)) place = 0;
      } else {
        if (base + i * kThreads >= end) break;
        place = places.x[i];
      }
      f(place);
    }
  }
}
// A token of the row, whatever the source.
QUERN_CALLED Place place_of_token(const Source& source, i32 token) { return source.of_token(token); }

// ---- Selection
struct Range {
  u64 least, most;
  u32 count;
};
QUERN_DEVICE u64 rank_of(const Source& source, Place place, bool by_typical) {
  return by_typical ? source.typical_rank(place) : place;
}

QUERN_CALLED Range range_of(const Room& room, const Source& source, bool by_typical) {
  Range r{~u64{0}, 0, 0};
  each(source, [&](Place place) {
    if (place == 0) return;
    const u64 at = rank_of(source, place, by_typical);
    r.least = at < r.least ? at : r.least, r.most = at > r.most ? at : r.most, ++r.count;
  });
  return {reduce_min(room, r.least), reduce_max(room, r.most), reduce_sum(room, r.count)};
}
// The tokens of a range that has no more than kThreads, in room.few in no order, zeros behind. Barriers at both ends.
QUERN_CALLED void collect(const Room& room, const Source& source, const Range& range, bool by_typical) {
  sync_block();
  if (thread_index() == 0) room.total[0] = 0;
  room.few[thread_index()] = 0;
  sync_block();
  each(source, [&](Place place) {
    if (place == 0) return;
    const u64 at = rank_of(source, place, by_typical);
    if (at >= range.least && at <= range.most) room.few[atomic_add(room.total, 1u)] = place;
  });
  sync_block();
}
QUERN_DEVICE int bin_shift(const Range& range) {
  const int bits = 64 - static_cast<int>(leading_zeros(range.most - range.least));
  return bits > kBinBits ? bits - kBinBits : 0;
}
QUERN_DEVICE void narrow(Range* range, i32 bin, int shift, u32 count) {
  range->least += static_cast<u64>(bin) << shift;
  // Not by the bin's end: that may lie beyond 2^64.
  const u64 width = (u64{1} << shift) - 1;
  if (range->most - range->least > width) range->most = range->least + width;
  range->count = count;
}

// The place down to which there are `wanted` tokens; 0, and so all of them, where there are not more.
QUERN_CALLED Place least_of_largest(const Room& room, const Source& source, u32 wanted) {
  Range range = range_of(room, source, false);
  if (range.count <= wanted) return 0;
  while (true) {
    if (range.count == wanted) return range.least;
    if (range.count <= static_cast<u32>(kThreads)) {
      collect(room, source, range, false);
      const u64 own = room.few[thread_index()];
      u32 larger = 0;
      QUERN_FOUR_AT_ONCE for (u32 i = 0; i < range.count; ++i) larger += room.few[i] > own;
      return reduce_max(room, thread_index() < static_cast<i32>(range.count) && larger + 1 == wanted ? own : u64{0});
    }
    const int shift = bin_shift(range);
    bins_zero<kThreads>(room.counts, kBins);
    sync_block();
    each(source, [&](Place place) {
      const bool in = place != 0 && place >= range.least && place <= range.most;
      count_in(room.counts, in ? static_cast<u32>((place - range.least) >> shift) : 0, in);
    });
    sync_block();
    const FoundBin<u32> found =
        find_from_top<kThreads, kBinsEach>(room.counts, wanted, reinterpret_cast<u32*>(room.scratch));
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

// The rank, by place or by how typical, down to which tokens weigh `wanted`, no further than that; 0 where all weigh
// less. wanted > 0.
QUERN_CALLED u64 least_of_heaviest(const Room& room, const Source& source, u64 wanted, bool by_typical) {
  // Of places the ends are known. Some of them may not be there: with more than a few it matters little.
  Range range{source.least, place_of(source.max, 0), ~0u};
  if (by_typical || source.kind != Source::row || source.least == 0) range = range_of(room, source, by_typical);
  if (range.count == 0) return 0;
  while (true) {
    if (range.count <= static_cast<u32>(kThreads)) {
      collect(room, source, range, by_typical);
      const bool there = thread_index() < static_cast<i32>(range.count);
      const Place place = room.few[thread_index()];
      const u64 own = there ? rank_of(source, place, by_typical) : 0, weight = there ? source.weigh(place) : 0;
      sync_block();
      room.few[thread_index()] = own;
      room.weights[thread_index()] = weight;
      sync_block();
      u64 before = 0;
      QUERN_FOUR_AT_ONCE for (u32 i = 0; i < range.count; ++i) before += room.few[i] > own ? room.weights[i] : 0;
      return reduce_max(room, there && before < wanted && wanted <= before + weight ? own : u64{0});
    }
    const int shift = bin_shift(range);
    bins_zero<kThreads>(room.counts, kBins);
    bins_zero<kThreads>(room.weights, kBins);
    sync_block();
    each(source, [&](Place place) {
      const u64 at = place != 0 ? rank_of(source, place, by_typical) : 0;
      const bool in = place != 0 && at >= range.least && at <= range.most;
      if (ballot(in) == 0) return;
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
