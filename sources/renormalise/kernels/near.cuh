// A row streams by once: its largest token is found, and those are listed that may lie where the row is cut. They lie
// above a bound, which the first tokens of each warp's stretch tell: a guess, so that whoever looks through the list
// has to find out whether it was low enough. Where it is, the cut is the same as among all of the row.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "renormalise/kernels/weigh.cuh"

namespace q {

inline constexpr i32 kMostNear = 4096;  // places that there is room for
inline constexpr i32 kPool = 4;         // lanes whose largest token counts as one, for the bound
inline constexpr i32 kPools = kThreads / kPool;
inline constexpr u32 kNoBound = ~0u;  // nothing is listed

struct Limits {
  f32 temperature, top_p, min_p;
  i32 top_k;

  QUERN_DEVICE static bool is_share(f32 v) { return v >= 0.0f && v <= 1.0f; }
  QUERN_DEVICE bool valid() const {
    return (!kLogits || is_temperature(temperature)) && is_share(top_p) && is_share(min_p) && top_k >= -1;
  }
  // Of temperature 0 the first token stays.
  QUERN_DEVICE bool greedy() const { return kLogits && temperature == 0.0f; }
  QUERN_DEVICE bool counts(i32 n) const { return top_k > 0 && top_k < n; }
  QUERN_DEVICE bool shares() const { return top_p < 1.0f; }
  QUERN_DEVICE bool shares_alone(i32 n) const { return shares() && !counts(n) && !(min_p > 0.0f); }
  // The least key that min_p leaves, where the largest token of those that are looked at is `max`. A larger one of the
  // whole row leaves no more.
  QUERN_DEVICE u32 least_key(f32 max) const {
    if (!(min_p > 0.0f)) return 1;
    const f32 value = kLogits ? max + log(min_p) * rcp(inverse_temperature(temperature)) : min_p * max;
    // NaN where there are infinities, which then are all that stays.
    return key_of_number(value <= max ? value : max);
  }
};

// What a block has found, where the row's others can ask for it.
struct alignas(16) NearDesk {
  u32 count;                   // of its tokens that reach the bound, beyond the list's end, too
  u32 top;                     // the key of its largest token; 0: it has none
  u32 bound;                   // the key from which on all its tokens are listed
  u32 first_top, first_bound;  // as the first tokens tell
  u32 known;                   // truth value: the cut has been found among those listed,
  u64 least, sum;              // where it is, and what tokens weigh down to there
};
struct NearRoom {
  NearDesk* desk;
  u64* list;   // [kMostNear]
  u32* pools;  // [kPools], 16-byte aligned
};
// The same of all of the row.
struct Near {
  u32 count, top, bound;
  u32 least_bound;  // of its blocks: none of those listed is lower
  QUERN_DEVICE bool listed() const { return count <= static_cast<u32>(kMostNear); }
  // Whether all tokens from a key on are.
  QUERN_DEVICE bool has_all_from(u32 key) const {
    return listed() && bound != kNoBound && (bound <= least_key_of_tokens() || bound <= key);
  }
};

// How many tokens are to be listed: 0 where none are asked for, or too many.
QUERN_DEVICE f32 number_listed(const Limits& limits, i32 n) {
  constexpr f32 kMost = 0.85f * kMostNear;
  if (limits.counts(n)) {
    const f32 number = 1.5f * static_cast<f32>(limits.top_k) + 200.0f;
    return number <= kMost ? number : 0.0f;
  }
  // Few rows have more within a share, and to put more in order would take longer. Of a share alone bins tell sooner.
  constexpr f32 kOfShare = 2500.0f;
  return limits.shares() && limits.min_p > 0.0f ? kOfShare : 0.0f;
}

// The key that so many tokens of the row are likely to reach, as this block's first ones tell; of each lane `sixteen`,
// `four` and `one` are the largest keys among its first ones. All threads.
QUERN_DEVICE u32 bound_of(const NearRoom& room, const Slice& s, const Limits& limits, i32 n, u32 sixteen, u32 four,
                          u32 one) {
  const f32 number = number_listed(limits, n), share = fmin(number * rcp_approx(static_cast<f32>(n)), 1.0f);
  const i32 tiles = div_up(s.end, kTile) - s.each * row_block() * kWarps,
            warps = s.each > 0 ? div_up(tiles, s.each) : 0;
  const f32 pools = static_cast<f32>((warps < 0 ? 0 : warps < kWarps ? warps : kWarps) * (kWarp / kPool));
  // Where nearly all pools would reach it, fewer tokens of each are looked at.
  u32 nth = 0;
  i32 of_lane = kEach;
  QUERN_ROLLED for (; of_lane > 0; of_lane /= 4) {
    const i32 there = s.each * kVector, own = of_lane < there ? of_lane : there;
    const f32 reach = pools * (1.0f - exp_of_minus(fmin(static_cast<f32>(kPool * own) * share, 100.0f)));
    nth = 1 + static_cast<u32>(reach);
    if (reach < pools * 0.94f) break;
    nth = 0;
  }
  u32 key = of_lane == kEach ? sixteen : of_lane == kEach / 4 ? four : one;
  QUERN_UNROLL for (int d = 1; d < kPool; d *= 2) {
    const u32 other = shuffle_xor(key, d);
    key = other > key ? other : key;
  }
  if (lane() % kPool == 0) room.pools[thread_index() / kPool] = key;
  const u32 top = warp_max(sixteen);
  if (lane() == 0 && limits.min_p > 0.0f) atomic_max(&room.desk->first_top, top);
  sync_block();
  if (number > 0.0f && nth != 0) {
    // Each pool's lanes count those that are no lower, a part of them each.
    constexpr i32 kPart = kPools / kPool;
    const u32 mine = room.pools[thread_index() / kPool];
    u32 no_lower = 0;
    QUERN_ROLLED for (i32 i = 0; i < kPart; i += 4) {
      const vec16 its = load16(room.pools + thread_index() % kPool * kPart + i);
      QUERN_UNROLL for (int w = 0; w < 4; ++w) no_lower += its.x[w] >= mine ? 1u : 0u;
    }
    QUERN_UNROLL for (int d = 1; d < kPool; d *= 2) no_lower += shuffle_xor(no_lower, d);
    // Of the keys that are no larger than the n-th largest the largest is that.
    const u32 largest = warp_max(no_lower >= nth ? mine : 0u);
    if (lane() == 0) atomic_max(&room.desk->first_bound, largest);
  }
  sync_block();
  if (!(number > 0.0f) && !(limits.min_p > 0.0f)) return kNoBound;
  const u32 top_of_first = room.desk->first_top, by_share = room.desk->first_bound, none = least_key_of_tokens();
  u32 bound = by_share > none ? by_share : none;
  if (limits.min_p > 0.0f && top_of_first != 0) {
    const u32 least = limits.least_key(number_of_key(top_of_first));
    bound = least > bound ? least : bound;
  }
  return bound;
}

// Lists the tokens of this block that reach a bound, and tells the row's blocks. All threads; ends with a barrier of
// the row.
QUERN_DEVICE Near stream_row(const NearRoom& room, const Slice& s, const Limits& limits, i32 n) {
  NearDesk& desk = *room.desk;
  if (thread_index() == 0) desk.count = desk.top = desk.first_top = desk.first_bound = 0;
  f32 max = kLogits ? -infinity() : 0.0f, from = 0.0f;
  u32 bound = 0;
  // What comes next is asked for before what is there is looked at: at first there is nothing.
  vec16 next[kTiles];
  QUERN_UNROLL for (int j = 0; j < kTiles; ++j) next[j] = {};
  i32 tile = s.first - kTiles;
  QUERN_ROLLED for (i32 turn = 0;; ++turn) {
    f32 x[kEach];
    QUERN_UNROLL for (int j = 0; j < kTiles; ++j) widen_vector(next[j], x + j * kVector);
    load_mostly_whole<Fill::nan>(s, tile + kTiles, next);
    if (turn == 0) {
      tile += kTiles;
      continue;
    }
    f32 of_fours[kEach / 4], own = -infinity();
    QUERN_UNROLL for (int j = 0; j < kEach / 4; ++j) {
      of_fours[j] = fmax(fmax(x[4 * j], x[4 * j + 1]), fmax(x[4 * j + 2], x[4 * j + 3]));
      own = fmax(own, of_fours[j]);
    }
    max = fmax(max, own);
    if (turn == 1) {
      sync_block();  // the desk is clear
      bound = bound_of(room, s, limits, n, key_of_token(own), key_of_token(of_fours[0]), key_of_token(x[0]));
      from = bound == kNoBound ? nan() : number_of_key(bound);
    }
    if (own >= from) {
      u32 fours = 0;
      QUERN_UNROLL for (int j = 0; j < kEach / 4; ++j) fours |= of_fours[j] >= from ? 1u << j : 0u;
      // Mostly one of them.
      QUERN_ROLLED while (fours != 0) {
        const i32 j = static_cast<i32>(trailing_zeros(fours));
        fours &= fours - 1;
        f32 four[4];
        QUERN_UNROLL for (int e = 0; e < 4; ++e) {
          four[e] = x[e];
          QUERN_UNROLL for (int of = 1; of < kEach / 4; ++of) four[e] = j == of ? x[4 * of + e] : four[e];
        }
        const i32 index = s.place(tile + j * 4 / kVector) - s.shift + j * 4 % kVector;
        QUERN_UNROLL for (int e = 0; e < 4; ++e) {
          if (!(four[e] >= from)) continue;
          const u32 at = atomic_add(&desk.count, 1u);
          if (at < static_cast<u32>(kMostNear)) {
            room.list[at] = place_of_number(four[e], index + e);
          } else {
            from = nan();  // there is no room for more
          }
        }
      }
    }
    tile += kTiles;
    if (tile >= s.last) break;
  }
  const u32 top = warp_max(key_of_token(max));
  if (lane() == 0) atomic_max(&desk.top, top);
  if (thread_index() == 0) desk.bound = bound;
  sync_row();
  const i32 blocks = row_blocks(), other = lane() < blocks ? lane() : 0;
  const u32 count = ask(&desk.count, other), its = ask(&desk.bound, other);
  return {warp_total(lane() < blocks ? count : 0u), warp_max(ask(&desk.top, other)), warp_max(its), warp_min(its)};
}

// How many of a list that is in order lie at a place or before it.
QUERN_DEVICE i32 number_down_to(const u64* list, i32 count, u64 place) {
  i32 from = 0;
  QUERN_ROLLED while (from < count) {
    const i32 middle = (from + count) / 2;
    if (list[middle] >= place) {
      from = middle + 1;
    } else {
      count = middle;
    }
  }
  return from;
}

// What the tokens listed weigh, from a place on. All blocks; ends with a barrier of the row.
QUERN_DEVICE u64 weight_near(const NearRoom& room, u64* slots, const Scale& scale, u64 lowest) {
  u64 own = 0;
  QUERN_ROLLED for (i32 i = thread_index(); i < static_cast<i32>(room.desk->count); i += kThreads) {
    const u64 place = room.list[i];
    if (place >= lowest) own += scale.weight_of_key(static_cast<u32>(place >> 32));
  }
  return sum_of_row(slots, own);
}

struct NearCut {
  bool known;
  u64 least, sum;  // the place of the last token that stays, and what those weigh that do
};
// Where the row is cut, by the tokens listed alone, which the first block puts in order. `lowest`: what min_p leaves at
// most; `total`: the weight of what top_p's share is of, where that is more than what is listed. All blocks; ends with
// a barrier of the row.
QUERN_DEVICE NearCut cut_near(const NearRoom& room, u64* scratch, const Near& near, const Scale& scale,
                              const Limits& limits, i32 n, bool joint, u64 lowest, u64 total) {
  NearDesk& desk = *room.desk;
  if (row_block() == 0) {
    u64* const list = room.list;
    i32 held = static_cast<i32>(desk.count);
    QUERN_ROLLED for (i32 b = 1; b < row_blocks(); ++b) {
      const i32 count = static_cast<i32>(ask(&desk.count, b));
      QUERN_ROLLED for (i32 i = thread_index(); i < count; i += kThreads) list[held + i] = ask(list + i, b);
      held += count;
    }
    i32 size = 1;
    QUERN_ROLLED while (size < held) size *= 2;
    QUERN_ROLLED for (i32 i = held + thread_index(); i < size; i += kThreads) list[i] = 0;
    sort_places(list, size);
    const u64 bound = static_cast<u64>(near.bound) << 32;
    const bool whole = near.has_all_from(static_cast<u32>(lowest >> 32)), counts = limits.counts(n);
    const i32 end = number_down_to(list, held, lowest > bound ? lowest : bound),
              alive = counts && limits.top_k < end ? limits.top_k : end;
    const bool covered = whole || (counts && limits.top_k <= end);
    // Each thread has a run of them. The runs are added up, what lies down to the last one is told, then where the
    // share is reached.
    const i32 each = div_up(held, kThreads), first = thread_index() * each,
              last = first + each < end ? first + each : end;
    u64 before = 0, of_all = 0, wanted = 0;
    QUERN_ROLLED for (int round = 0; round < 3; ++round) {
      u64 through = before;
      QUERN_ROLLED for (i32 i = first; i < last; ++i) {
        const u64 above = through;
        through += scale.weight_of_key(static_cast<u32>(list[i] >> 32));
        if (round == 1 ? i == alive - 1 : round == 2 && i < alive && above < wanted && wanted <= through)
          desk.least = list[i], desk.sum = through;
      }
      if (round == 0) before = sum_before(scratch, through), of_all = scratch[kWarps];
      sync_block();
      if (round != 1) continue;
      if (!limits.shares()) break;
      const u64 left = desk.sum;
      wanted = share_of_weight(limits.top_p, counts && !joint ? left : whole ? of_all : total);
      sync_block();  // all have read it
      if (wanted > left) {
        // Of what top_k has left all is needed; else there is more than what is listed.
        if (thread_index() == 0) desk.known = covered ? 1 : 0;
        break;
      }
      if (thread_index() == 0) desk.known = covered || !counts ? 1 : 0;
    }
    if (!limits.shares() && thread_index() == 0) desk.known = covered ? 1 : 0;
  }
  sync_row();
  return {ask(&desk.known, 0) != 0, ask(&desk.least, 0), ask(&desk.sum, 0)};
}

}  // namespace q
