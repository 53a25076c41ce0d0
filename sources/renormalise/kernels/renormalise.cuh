// Takes the unlikely tokens of rows away and makes the others add up to 1. What min-p, top-k and top-p leave are always
// the first tokens of the row's order: all that is looked for is the place of the last. Mostly it is among the few that
// are listed as the row streams by; else it is looked for in the whole row.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "renormalise/kernels/near.cuh"

namespace q {

struct RenormaliseRoom {
  WeighRoom weigh;
  NearRoom near;  // its list lies where the bins are: what is listed is done with when they are needed
};

// The place of the last token that stays, by looking through all of the row; `total`: the weight of what top_p's share
// is of, or 0 where that is not known.
QUERN_DEVICE PlaceFound last_place(const RenormaliseRoom& room, const Slice& s, const Near& near, const Scale& scale,
                                   const Limits& limits, i32 n, bool joint, u64 lowest, u64 total) {
  const u32 lowest_key = static_cast<u32>(lowest >> 32), high = key_of_number(scale.max);
  PlaceFound last{lowest, total};
  // By number, then by weight, which may come down to a number of equal ones.
  QUERN_ROLLED for (int round = 0; round < 2; ++round) {
    u64 wanted = static_cast<u64>(limits.top_k);
    u32 low = lowest_key;
    if (round == 0) {
      if (!limits.counts(n)) continue;
      // Where the list ran over, there are so many from its lowest bound on.
      if (!near.listed() && limits.top_k <= kMostNear && near.least_bound > low) low = near.least_bound;
    } else {
      if (!limits.shares()) break;
      // Of a share alone the bins tell what all weigh.
      if (limits.shares_alone(n)) {
        wanted = 0;
      } else {
        const u64 whole = total != 0 ? total : weight_from(room.weigh.slots, s, scale, joint ? lowest : last.place);
        wanted = share_of_weight(limits.top_p, whole);
      }
      const u32 weighs = scale.least_key();
      low = weighs > low ? weighs : low;
    }
    const PlaceFound found = place_reaching(room.weigh, s, scale, wanted, round != 0, limits.top_p, n, low, high);
    if (found.place >= last.place) last = found;
  }
  return last;
}

QUERN_DEVICE void write_staying(const Slice& s, const KeptRow& kept, f32* out) {
  const bool vectors = stores_vectors(out, s);
  // From the end on: what was read last is most likely still in a cache.
  QUERN_ROLLED for (i32 left = div_up(s.last - s.first, kTiles); left > 0; --left) {
    const i32 tile = s.first + (left - 1) * kTiles;
    f32 x[kEach];
    load_elements<Fill::nan>(s, tile, x);
    if (any_stays(kept, x)) {
      // By fours, which move round, so that the code is short.
      QUERN_ROLLED for (int i = 0; i < kEach; i += 4) {
        const i32 index = s.place(tile + i / kVector) - s.shift + i % kVector;
        f32 four[4];
        QUERN_UNROLL for (int e = 0; e < 4; ++e) four[e] = probability_of(kept, x[e], index + e);
        QUERN_UNROLL for (int e = 0; e < kEach - 4; ++e) x[e] = x[e + 4];
        QUERN_UNROLL for (int e = 0; e < 4; ++e) x[kEach - 4 + e] = four[e];
      }
    } else {
      QUERN_UNROLL for (int i = 0; i < kEach; ++i) x[i] = 0.0f;
    }
    store_tiles(out, vectors, s, tile, x);
  }
}

QUERN_DEVICE KeptRow keep_of_row(const RenormaliseParams& p, const RenormaliseRoom& room, const Slice& s, i64 matrix) {
  Limits limits{p.temperature.at(matrix), p.top_p.at(matrix), p.min_p.at(matrix), p.top_k.at(matrix)};
  const u32 wrong = limits.valid() ? 0u : static_cast<u32>(kRowParameter);
  if (wrong != 0) limits = {1.0f, 1.0f, 0.0f, 0};
  if (limits.greedy()) limits.top_k = 1, limits.top_p = 1.0f, limits.min_p = 0.0f;
  const Near near = stream_row(room.near, s, limits, p.n);
  const f32 max = number_of_key(near.top);
  const bool empty = near.top == 0 || (!kLogits && !(max < infinity()));
  const u32 status = wrong | (empty ? static_cast<u32>(kRowEmpty) : 0u);
  // Above all that there is, where no token stays.
  if (status != 0) return {~u64{0}, 0.0f, 0.0f, 0.0f, status};
  const Scale scale = kLogits ? Scale{max, inverse_temperature(limits.temperature)} : Scale::of_probabilities(max);
  const u64 lowest = static_cast<u64>(limits.least_key(max)) << 32;
  const bool counts = limits.counts(p.n), shares = limits.shares(), joint = p.joint != 0,
             whole = near.has_all_from(static_cast<u32>(lowest >> 32)), cuts = counts || shares || limits.min_p > 0.0f;
  // What a share is of, or what stays where nothing is taken away.
  u64 total = 0;
  if (!cuts || (shares && (joint || !counts) && !whole && !limits.shares_alone(p.n)))
    total = weight_from(room.weigh.slots, s, scale, lowest);
  NearCut cut{!cuts, lowest, total};
  const bool few = near.listed() && near.bound != kNoBound;
  // Of a share alone it is known beforehand whether what is listed reaches it.
  bool enough = counts || whole;
  if (few && cuts && !counts && !(shares && whole)) {
    const u64 bound = static_cast<u64>(near.bound) << 32,
              listed = weight_near(room.near, room.weigh.slots, scale, whole || lowest > bound ? lowest : bound);
    if (!shares) {
      cut = {whole, lowest, listed};
    } else {
      enough = listed >= share_of_weight(limits.top_p, total);
    }
  }
  if (few && enough && (counts || shares))
    cut = cut_near(room.near, room.weigh.scratch, near, scale, limits, p.n, joint, lowest, total);
  if (!cut.known) {
    const PlaceFound last = last_place(room, s, near, scale, limits, p.n, joint, lowest, total);
    cut.least = last.place, cut.sum = last.sum;
    // A sum of integers: of f32 that of many equal ones would be off by all their roundings.
    if (cut.sum == 0) cut.sum = weight_from(room.weigh.slots, s, scale, cut.least);
  }
  return {cut.least, scale.max, scale.factor, rcp(static_cast<f32>(cut.sum)), 0};
}

QUERN_DEVICE void renormalise(const RenormaliseParams& p) {
  QUERN_SHARED(vec16, bins, kBins);
  QUERN_SHARED(vec16, pools, kPools / 4);
  QUERN_SHARED(NearDesk, desk, 1);
  QUERN_SHARED(u64, scratch, kWarps + 4);
  QUERN_SHARED(u64, slots, kMostRowBlocks * kWarps);
  static_assert(kMostNear * sizeof(u64) <= kBins * sizeof(vec16));
  u32* const low = reinterpret_cast<u32*>(bins);
  const RenormaliseRoom room{{low, low + kBins, reinterpret_cast<u64*>(low + 2 * kBins), scratch, slots},
                             {desk, reinterpret_cast<u64*>(bins), reinterpret_cast<u32*>(pools)}};
  const i32 step = block_count(0) / row_blocks();
  QUERN_ROLLED for (i64 row = block_index(0) / row_blocks(); row < p.rows; row += step) {
    const i64 matrix = row / p.group, of_group = row - matrix * p.group;
    if (p.lengths && of_group > p.lengths[matrix]) continue;
    const Slice s =
        slice_of(static_cast<const Element*>(p.in) + matrix * p.in_group_stride + of_group * p.in_stride, p.n);
    const KeptRow kept = keep_of_row(p, room, s, matrix);
    if constexpr (!kLogits) write_staying(s, kept, p.out + row * p.out_stride);
    if (row_block() == 0 && thread_index() == 0) {
      if constexpr (kLogits) p.kept[row] = kept;
      if (p.status) p.status[row] = static_cast<i32>(kept.status);
    }
    // What the blocks have told each other has been read before it is written again, or is gone.
    sync_row();
  }
}

}  // namespace q

QUERN_KERNEL(quern_renormalise, THREADS, BLOCKS_PER_SM, QUERN_PARAM q::RenormaliseParams p) {
  q::launch_next_grid();
  q::begin_rows();
  q::wait_for_previous_grid();
  q::renormalise(p);
}
