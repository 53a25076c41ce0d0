// Which token of a row, in descending order, is the k-th, or the one at which the weights sum up to so much: found by
// all blocks of a cluster together.
//
// One pass over the part sorts its tokens into bins by their distance from the largest logit; a bin holds the weights of
// its tokens, as integers, and their number. With the bins of all blocks added up, each block knows the bin that is
// looked for, and that alone has to be looked into: all blocks read its tokens, and rank them. A bin of too
// many is divided further, by the tokens' places in the order.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "sample/kernels/sm90/part.cuh"

namespace q {

inline constexpr f32 kMagic = 0x1p23f;  // x + kMagic has the integer nearest to x in its low bits
inline constexpr u32 kNoBin = ~0u;

struct Bins {
  u32* low;  // [kSpots] sums of weights
  u32* high;
  u32* counts;
  QUERN_DEVICE static Bins of(const Part& part) {
    u32* const first = reinterpret_cast<u32*>(part.work);
    return {first, first + kSpots, first + 2 * kSpots};
  }
  QUERN_DEVICE void zero() const { bins_zero<kThreads>(low, 3 * kSpots); }
  QUERN_DEVICE void add(u32 bin, u64 weight) const {
    const u32 part = static_cast<u32>(weight), sum = atomic_add(low + bin, part) + part;
    const u32 above = static_cast<u32>(weight >> 32) + (sum < part ? 1u : 0u);
    if (above != 0) atomic_add(high + bin, above);
  }
};

// What is looked for in a row: which tokens are there, and how they are weighed and binned.
struct Scope {
  f32 max, scale, per;  // bins a power of 2 of weight
  f32 least;            // smaller logits are not there
  QUERN_DEVICE f32 exponent(f32 x) const { return x >= least ? exponent_of(max, x, scale) : -infinity(); }
  QUERN_DEVICE u64 weigh(f32 x) const { return to_units(exp2(exponent_of(max, x, scale))); }
  QUERN_DEVICE static u32 bin_at(f32 exponent, f32 per) { return bits_of(fma(exponent, -per, kMagic)) - bits_of(kMagic); }
  QUERN_DEVICE u32 bin_of(f32 x) const { return bin_at(exponent(x), per); }
};
// A stretch of the order, within a bin.
struct Stretch {
  f32 lowest, highest;  // logits outside are not in it
  u32 bin;              // kNoBin: of any
  Place least, most;
  QUERN_DEVICE bool has(const Scope& scope, f32 x, Place place) const {
    return (bin == kNoBin || scope.bin_of(x) == bin) && place >= least && place <= most;
  }
};

// Adds up the weights of lanes whose bins agree before they are added to it: for rows where many do. All lanes.
QUERN_CALLED void add_crowded(const Bins& bins, u32 bin, u64 weight, bool take) {
  u64 left = ballot(take);
  QUERN_ROLLED for (int round = 0; round < 2; ++round) {
    if (left == 0) break;
    const int leader = static_cast<int>(trailing_zeros(left));
    const u32 its = shuffle(bin, leader);
    const bool mine = take && bin == its;
    const u64 with = ballot(mine);
    const u64 sum = warp_sum(mine ? weight : u64{0});
    if (lane() == leader) bins.add(bin, sum), atomic_add(bins.counts + bin, popcount(with));
    take = take && !mine;
    left &= ~with;
  }
  if (take) bins.add(bin, weight), atomic_add(bins.counts + bin, 1u);
}
// Whether many of a warp's lanes are in one bin.
QUERN_DEVICE bool is_crowded(u32 bin, bool take) {
  const u64 left = ballot(take);
  const u32 its = shuffle(bin, left == 0 ? 0 : static_cast<int>(trailing_zeros(left)));
  return popcount(ballot(take && bin == its)) >= 6;
}

// The bins of the whole scope. What all its tokens in this part weigh, by thread.
QUERN_DEVICE u64 bin_part(const Part& part, const Scope& scope, bool counting) {
  const Bins bins = Bins::of(part);
  u64 own = 0;
  const i32 end = part.length();
  QUERN_ROLLED for (i32 i = thread_index() * 4; i < end; i += kThreads * 4) {
    const vec16 four = load16(part.slice + i);
    u64 w[4];
    u32 bin[4];
    QUERN_UNROLL for (int e = 0; e < 4; ++e) {
      const f32 y = scope.exponent(f32_of(four.x[e]));
      w[e] = to_units(exp2(y));
      bin[e] = Scope::bin_at(y, scope.per);
      own += w[e];
    }
    if (is_crowded(bin[0], bin[0] < kSpots)) {
      QUERN_ROLLED for (int e = 0; e < 4; ++e) add_crowded(bins, bin[e], w[e], bin[e] < kSpots);
      continue;
    }
    QUERN_UNROLL for (int e = 0; e < 4; ++e) {
      if (bin[e] < kSpots) {
        bins.add(bin[e], w[e]);
        if (counting) atomic_add(bins.counts + bin[e], 1u);
      }
    }
  }
  return own;
}

// f(x, place) for all tokens of the part that a stretch may have, and f of others, too, in the same warp.
template <class F>
QUERN_DEVICE void each_near(const Part& part, f32 lowest, f32 highest, F f) {
  QUERN_ROLLED for (i32 c = warp(); c < part.chunks; c += kWarps) {
    if (!(part.top_of(part.first + c) >= lowest)) continue;
    QUERN_FOUR_AT_ONCE for (i32 j = 0; j < kChunk; j += kWarp * 4) {
      const i32 at = c * kChunk + j + lane() * 4;
      const vec16 four = load16(part.slice + at);
      bool any = false;
      QUERN_UNROLL for (int e = 0; e < 4; ++e) any |= f32_of(four.x[e]) >= lowest && f32_of(four.x[e]) <= highest;
      if (ballot(any) == 0) continue;
      QUERN_ROLLED for (int e = 0; e < 4; ++e) {
        const f32 x = f32_of(e == 0 ? four.x[0] : e == 1 ? four.x[1] : e == 2 ? four.x[2] : four.x[3]);
        f(x, place_of(x, part.begin() + at + e));
      }
    }
  }
}

// The bins of a stretch: 2^shift places each, the highest first. Counts, too. All threads.
QUERN_CALLED void bin_stretch(const Part& part, const Scope& scope, const Stretch& stretch, int shift) {
  const Bins bins = Bins::of(part);
  sync_cluster_shared();  // all have read the bins as they were
  bins.zero();
  sync_block();
  each_near(part, stretch.lowest, stretch.highest, [&](f32 x, Place place) {
    const bool take = is_token(place) && stretch.has(scope, x, place);
    if (ballot(take) == 0) return;
    add_crowded(bins, take ? static_cast<u32>((stretch.most - place) >> shift) : 0u, take ? scope.weigh(x) : u64{0}, take);
  });
  sync_cluster_shared();
}

// A thread's two bins, added up over the blocks; and what comes before them.
struct TwoBins {
  u64 weight[2], before;
  u32 count[2], count_before;
};
QUERN_CALLED TwoBins add_up(const Part& part, u64* all) {
  static_assert(kSpots == 2 * kThreads);
  const Bins bins = Bins::of(part);
  TwoBins two{};
  const i32 at = 2 * thread_index();
  QUERN_FOUR_AT_ONCE for (i32 r = 0; r < part.blocks; ++r) {
    const u32 rank = static_cast<u32>(r);
    const u64 low = load_cluster<u64>(cluster_address(bins.low + at, rank)),
              high = load_cluster<u64>(cluster_address(bins.high + at, rank)),
              counts = load_cluster<u64>(cluster_address(bins.counts + at, rank));
    two.weight[0] += (high << 32) + static_cast<u32>(low), two.weight[1] += (high >> 32 << 32) + (low >> 32);
    two.count[0] += static_cast<u32>(counts), two.count[1] += static_cast<u32>(counts >> 32);
  }
  two.before = block_scan<kThreads>(two.weight[0] + two.weight[1], part.desk->scratch, all);
  sync_block();
  u64 count;
  two.count_before = static_cast<u32>(
      block_scan<kThreads>(static_cast<u64>(two.count[0] + two.count[1]), part.desk->scratch, &count));
  sync_block();
  return two;
}

enum class By : i32 { weight, count };
// The bin that reaches `wanted`, and what comes before it. kNoBin: none does.
struct FoundSpot {
  u32 bin;
  u64 weight;
  u32 count, in;
};
QUERN_CALLED FoundSpot find_spot(const Part& part, const TwoBins& two, By by, u64 wanted) {
  u64* const found = part.desk->found;
  sync_block();
  if (thread_index() == 0) found[0] = kNoBin;
  sync_block();
  u64 before = two.before, count = two.count_before;
  QUERN_ROLLED for (int i = 0; i < 2; ++i) {
    const u64 weight = i == 0 ? two.weight[0] : two.weight[1];
    const u32 in = i == 0 ? two.count[0] : two.count[1];
    const u64 from = by == By::weight ? before : count, to = from + (by == By::weight ? weight : u64{in});
    if (from < wanted && wanted <= to) {
      found[0] = static_cast<u64>(2 * thread_index() + i), found[1] = before, found[2] = count, found[3] = in;
    }
    before += weight, count += in;
  }
  sync_block();
  return {static_cast<u32>(found[0]), found[1], static_cast<u32>(found[2]), static_cast<u32>(found[3])};
}

// The tokens of a stretch, from all blocks, into few, in no order; how many, or -1 where there are too many. To all
// blocks or to the first alone, which in the others has no result. `turn` alternates.
QUERN_CALLED i32 collect_all(const Part& part, const Scope& scope, const Stretch& stretch, i32 turn, bool to_all) {
  Desk& desk = *part.desk;
  Place* const list = reinterpret_cast<Place*>(part.work + 3 * kSpots * 4) + turn * kSegment;
  u32* const listed = desk.listed + turn;
  sync_block();
  if (thread_index() == 0) *listed = 0;
  sync_block();
  each_near(part, stretch.lowest, stretch.highest, [&](f32 x, Place place) {
    if (!(x >= stretch.lowest && x <= stretch.highest && is_token(place) && stretch.has(scope, x, place))) return;
    const u32 at = atomic_add(listed, 1u);
    if (at < static_cast<u32>(kSegment)) list[at] = place;
  });
  sync_cluster_shared();
  // This thread's token is the i-th of block `from`.
  i32 count = 0, i = thread_index(), from = -1;
  QUERN_FOUR_AT_ONCE for (i32 r = 0; r < part.blocks; ++r) {
    const i32 its = static_cast<i32>(of_block(listed, r));
    if (from < 0 && i < its) {
      from = r;
    } else if (from < 0) {
      i -= its;
    }
    count += its;
  }
  if (count > kThreads) return -1;
  desk.few[thread_index()] = from >= 0 && (to_all || part.rank == 0) ? of_block(list + i, from) : Place{0};
  sync_block();
  return count;
}

struct FoundToken {
  Place place;  // 0: there is none
  u64 through;  // what it and all before it weigh
};
// The token among `count` in few that reaches `wanted`, where `before` and `count_before` come before them.
QUERN_CALLED FoundToken rank_few(const Part& part, const Scope& scope, i32 count, By by, u64 wanted, u64 before,
                                 u32 count_before) {
  Desk& desk = *part.desk;
  const i32 t = thread_index();
  const Place own = desk.few[t];
  const u64 weight = t < count ? scope.weigh(value_at(own)) : u64{0};
  desk.weights[t] = weight;
  if (t == 0) desk.found[0] = 0;
  sync_block();
  u64 above = before, larger = count_before;
  QUERN_FOUR_AT_ONCE for (i32 i = 0; i < count; ++i) {
    if (desk.few[i] > own) above += desk.weights[i], ++larger;
  }
  const bool reaches = by == By::weight ? above < wanted && wanted <= above + weight : larger + 1 == wanted;
  if (t < count && reaches) desk.found[0] = own, desk.found[1] = above + weight;
  sync_block();
  const FoundToken found{desk.found[0], desk.found[1]};
  sync_block();
  return found;
}

// A search in the bins of a scope.
struct Search {
  const Part& part;
  const Scope& scope;
  TwoBins two;
  i32 turn;
  bool whole;  // the bins in shared memory are still those of the scope

  // Logits outside cannot be in a bin, whatever was rounded.
  QUERN_DEVICE Stretch stretch_of(u32 bin) const {
    const f32 b = static_cast<f32>(bin), step = 1.0f / (scope.per * scope.scale);
    const f32 near = (b - 0.5f) * step, far = (b + 0.5f) * step;
    const f32 slack = (fabs(scope.max) + fabs(far)) * 0x1p-20f;
    f32 highest = scope.max - near + slack, lowest = scope.max - far - slack;
    if (!(highest < infinity()) || bin == 0) highest = infinity();
    if (!(lowest > -infinity())) lowest = -infinity();
    return {lowest, highest, bin, place_of(lowest, -1) & ~u64{0xffffffff}, place_of(highest, 0) | 0xffffffff};
  }
  QUERN_DEVICE FoundToken find(By by, u64 wanted) {
    const FoundSpot spot = find_spot(part, two, by, wanted);
    if (spot.bin == kNoBin) return {0, 0};
    const Stretch stretch = stretch_of(spot.bin);
    const i32 count = collect_all(part, scope, stretch, turn, true);
    turn ^= 1;
    if (count >= 0) return rank_few(part, scope, count, by, wanted, spot.weight, spot.count);
    return divide(stretch, by, wanted, spot.weight, spot.count);
  }
  // Of a stretch that has too many to be ranked.
  QUERN_DEVICE FoundToken divide(Stretch stretch, By by, u64 wanted, u64 before, u32 count_before) {
    const FoundToken found = divide_further(stretch, by, wanted, before, count_before, turn);
    turn ^= 1;
    return found;
  }
  QUERN_CALLED FoundToken divide_further(Stretch stretch, By by, u64 wanted, u64 before, u32 count_before,
                                         i32 list) const {
    while (true) {
      const int bits = 64 - static_cast<int>(leading_zeros(stretch.most - stretch.least));
      const int shift = bits > kSpotBits ? bits - kSpotBits : 0;
      bin_stretch(part, scope, stretch, shift);
      u64 all;
      const TwoBins bins = add_up(part, &all);
      const FoundSpot spot = find_spot(part, bins, by, by == By::weight ? wanted - before : wanted - count_before);
      if (spot.bin == kNoBin) return {0, 0};
      before += spot.weight, count_before += spot.count;
      stretch.most -= static_cast<u64>(spot.bin) << shift;
      const u64 width = (u64{1} << shift) - 1;
      if (stretch.most - stretch.least > width) stretch.least = stretch.most - width;
      if (spot.in <= static_cast<u32>(kThreads)) {
        const i32 count = collect_all(part, scope, stretch, list, true);
        return rank_few(part, scope, count, by, wanted, before, count_before);
      }
    }
  }
};

}  // namespace q
