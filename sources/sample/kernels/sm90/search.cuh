// The pieces of a search, in which all blocks of a cluster find the token of a row that is the k-th in descending
// order, or at which the weights sum up to so much.
//
// One pass over the part sorts its tokens into bins by their distance from the largest logit; a bin holds the weights
// of its tokens, as integers, and their number. With the bins of all blocks added up, each block knows the bin that is
// looked for, and that alone has to be looked into: all blocks read its tokens, and rank them. A bin of too many is
// divided further, by the tokens' ranks.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "sample/kernels/sm90/part.cuh"

namespace q {

inline constexpr f32 kMagic = 0x1p23f;  // x + kMagic has the integer nearest to x in its low bits
inline constexpr u32 kNoBin = ~0u;
static_assert(kSpots % kThreads == 0);
inline constexpr int kOwnBins = kSpots / kThreads;

struct Bins {
  u32* weights;  // [kSpots] low and high words
  u32* counts;
  QUERN_DEVICE static Bins of(const Part& part) {
    u32* const first = reinterpret_cast<u32*>(part.work);
    return {first, first + 2 * kSpots};
  }
  QUERN_DEVICE void zero() const { bins_zero<kThreads>(weights, 3 * kSpots); }
  QUERN_DEVICE void add(u32 bin, u64 weight, u32 count) const {
    const u32 low = static_cast<u32>(weight), sum = atomic_add(weights + 2 * bin, low) + low;
    const u32 high = static_cast<u32>(weight >> 32) + (sum < low ? 1u : 0u);
    if (high != 0) atomic_add(weights + 2 * bin + 1, high);
    atomic_add(counts + bin, count);
  }
};

// What is looked for in a row: which tokens are there, and how they are weighed and binned.
struct Scope {
  f32 max, scale, per;  // bins a power of 2 of weight
  f32 least;            // smaller logits are not there
  QUERN_DEVICE f32 exponent(f32 x) const { return x >= least ? exponent_of(max, x, scale) : -infinity(); }
  QUERN_DEVICE u64 weigh(f32 x) const { return to_units(exp2(exponent_of(max, x, scale))); }
  QUERN_DEVICE u32 bin_at(f32 exponent) const { return bits_of(fma(exponent, -per, kMagic)) - bits_of(kMagic); }
};
// A stretch of the order: tokens of one bin, or of any, whose ranks, 0 for the largest there can be, lie in a range.
struct Stretch {
  f32 lowest, highest;  // logits outside are not in it
  u32 bin;              // kNoBin: of any
  u32 top;              // key of rank 0
  u64 first, last;
  static constexpr int kIndexBits = 20;
  static_assert(kMostVocab <= 1 << kIndexBits);
  QUERN_DEVICE u64 rank_of(Place place) const {
    return static_cast<u64>(top - key_at(place)) << kIndexBits | static_cast<u32>(index_at(place));
  }
  QUERN_DEVICE bool has(const Scope& scope, f32 x, u64 rank) const {
    return (bin == kNoBin || scope.bin_at(scope.exponent(x)) == bin) && rank >= first && rank <= last;
  }
  // Of a bin of the scope. Logits outside cannot be in it, whatever was rounded.
  QUERN_DEVICE static Stretch of_bin(const Scope& scope, u32 bin) {
    const f32 b = static_cast<f32>(bin), step = rcp_approx(scope.per * scope.scale);
    const f32 far = (b + 0.5f) * step, slack = (fabs(scope.max) + far) * 0x1p-20f;
    f32 highest = scope.max - (b - 0.5f) * step + slack, lowest = scope.max - far - slack;
    if (!(highest < scope.max)) highest = scope.max;
    if (!(lowest > -infinity())) lowest = -infinity();
    return {lowest, highest, bin, key_of(highest), 0, ~u64{0}};
  }
};

// Adds up the weights of lanes whose bins agree before they are added to it: for rows where many do. All lanes.
QUERN_CALLED void add_crowded(u32* weights, u32 bin, u64 weight, bool take) {
  const Bins bins{weights, weights + 2 * kSpots};
  u64 left = ballot(take);
  QUERN_ROLLED for (int round = 0; round < 2; ++round) {
    if (left == 0) break;
    const int leader = static_cast<int>(trailing_zeros(left));
    const u32 its = shuffle(bin, leader);
    const bool mine = take && bin == its;
    const u64 with = ballot(mine);
    const u64 sum = warp_sum(mine ? weight : u64{0});
    if (lane() == leader) bins.add(bin, sum, popcount(with));
    take = take && !mine;
    left &= ~with;
  }
  if (take) bins.add(bin, weight, 1);
  sync_warp();
}
// Whether many of a warp's lanes are in one bin.
QUERN_DEVICE bool is_crowded(u32 bin, bool take) {
  const u64 left = ballot(take);
  const u32 its = shuffle(bin, left == 0 ? 0 : static_cast<int>(trailing_zeros(left)));
  return popcount(ballot(take && bin == its)) >= 6;
}

// The bins of the whole scope. What all its tokens in this part weigh, by thread.
QUERN_DEVICE u64 bin_part(const Part& part, const Scope& scope) {
  const Bins bins = Bins::of(part);
  u64 own = 0;
  const i32 end = part.length();
  QUERN_ROLLED for (i32 i = thread_index() * 4; i < end; i += kThreads * 4) {
    const vec16 four = load16(part.slice + i);
    f32 y[4];
    QUERN_UNROLL for (int e = 0; e < 4; ++e) y[e] = scope.exponent(f32_of(four.x[e]));
    u32 bin = scope.bin_at(y[0]);
    const bool crowded = is_crowded(bin, bin < kSpots);
    QUERN_UNROLL for (int e = 0; e < 4; ++e) {
      const u64 weight = to_units(exp2(y[e]));
      bin = scope.bin_at(y[e]);
      own += weight;
      if (crowded) {
        add_crowded(bins.weights, bin, weight, bin < kSpots);
      } else if (bin < kSpots) {
        bins.add(bin, weight, 1);
      }
    }
  }
  return own;
}

// What is done with the tokens of a stretch.
enum class Scan : i32 {
  list,   // onto this block's list; `listed` counts them, beyond its end, too
  range,  // the lowest and the highest rank
  bins    // into bins of 2^shift ranks each
};
struct Ranks {
  u64 first, last;
};
QUERN_DEVICE Ranks scan_part(const Part& part, const Scope& scope, const Stretch& stretch, Scan scan, int shift,
                             Place* list, u32* listed) {
  const Bins bins = Bins::of(part);
  const f32 lowest = stretch.lowest, highest = stretch.highest;
  Ranks ranks{~u64{0}, 0};
  QUERN_ROLLED for (i32 c = warp(); c < part.chunks; c += kWarps) {
    if (!(part.top_of(part.first + c) >= lowest)) continue;
    QUERN_TWO_AT_ONCE for (i32 j = 0; j < kChunk; j += kWarp * 4) {
      const i32 at = c * kChunk + j + lane() * 4;
      const vec16 four = load16(part.slice + at);
      u32 near = 0;
      QUERN_UNROLL for (int e = 0; e < 4; ++e) {
        near |= f32_of(four.x[e]) >= lowest && f32_of(four.x[e]) <= highest ? 1u << e : 0u;
      }
      if (ballot(near != 0) == 0) continue;
      QUERN_ROLLED for (int e = 0; e < 4; ++e) {
        const f32 x = f32_of(e < 2 ? (e == 0 ? four.x[0] : four.x[1]) : e == 2 ? four.x[2] : four.x[3]);
        const Place place = place_of(x, part.begin() + at + e);
        const u64 rank = stretch.rank_of(place);
        const bool take = (near >> e & 1) != 0 && is_token(place) && stretch.has(scope, x, rank);
        if (scan == Scan::bins) {
          if (ballot(take) != 0) {
            add_crowded(bins.weights, take ? static_cast<u32>((rank - stretch.first) >> shift) : 0u,
                        take ? scope.weigh(x) : u64{0}, take);
          }
        } else if (take && scan == Scan::list) {
          const u32 number = atomic_add(listed, 1u);
          if (number < static_cast<u32>(kSegment)) list[number] = place;
        } else if (take) {
          ranks.first = rank < ranks.first ? rank : ranks.first, ranks.last = rank > ranks.last ? rank : ranks.last;
        }
      }
    }
  }
  return ranks;
}

// A thread's bins, added up over the blocks; and what comes before them.
struct OwnBins {
  u64 weight[kOwnBins], before;
  u32 count[kOwnBins], count_before;
};
QUERN_DEVICE OwnBins add_up(const Part& part) {
  const Bins bins = Bins::of(part);
  OwnBins own{};
  QUERN_FOUR_AT_ONCE for (i32 r = 0; r < part.blocks; ++r) {
    QUERN_UNROLL for (int i = 0; i < kOwnBins; ++i) {
      const i32 bin = kOwnBins * thread_index() + i;
      own.weight[i] += of_block(reinterpret_cast<const u64*>(bins.weights) + bin, r);
      own.count[i] += of_block(bins.counts + bin, r);
    }
  }
  u64 weight = 0;
  u32 count = 0;
  QUERN_UNROLL for (int i = 0; i < kOwnBins; ++i) weight += own.weight[i], count += own.count[i];
  u64* const scratch = part.desk->scratch;
  own.before = sum_before(scratch, weight);
  own.count_before = static_cast<u32>(sum_before(scratch, count));
  return own;
}

enum class By : i32 { weight, count };
// The bin that reaches `wanted`, and what comes before it. kNoBin: none does.
struct FoundBins {
  u32 bin;
  u64 weight;
  u32 count, in;
};
QUERN_DEVICE FoundBins find_bin(const Part& part, const OwnBins& own, By by, u64 wanted) {
  u64* const found = part.desk->found;
  sync_block();
  if (thread_index() == 0) found[0] = kNoBin;
  sync_block();
  u64 before = own.before, count = own.count_before;
  QUERN_UNROLL for (int i = 0; i < kOwnBins; ++i) {
    const u64 from = by == By::weight ? before : count, in = by == By::weight ? own.weight[i] : u64{own.count[i]};
    if (from < wanted && wanted <= from + in) {
      found[0] = static_cast<u64>(kOwnBins * thread_index() + i), found[1] = before, found[2] = count;
      found[3] = own.count[i];
    }
    before += own.weight[i], count += own.count[i];
  }
  sync_block();
  return {static_cast<u32>(found[0]), found[1], static_cast<u32>(found[2]), static_cast<u32>(found[3])};
}

// The lists of all blocks, in no order, into few. How many; -1: there are too many.
QUERN_DEVICE i32 gather(const Part& part, const Place* list, const u32* listed) {
  // This thread's token is the i-th of block `from`.
  i32 count = 0, i = thread_index(), from = -1;
  QUERN_FOUR_AT_ONCE for (i32 r = 0; r < part.blocks; ++r) {
    const i32 its = static_cast<i32>(of_block(listed, r));
    const bool here = from < 0 && i < its;
    from = here ? r : from;
    i -= from < 0 ? its : 0;
    count += its;
  }
  if (count > kSegment) return -1;
  if (from >= 0) part.desk->few[thread_index()] = of_block(list + i, from);
  sync_block();
  return count;
}

struct FoundToken {
  Place place;  // 0: there is none
  u64 through;  // what it and all before it weigh
};
// The token among `count` in few that reaches `wanted`, where `before` and `count_before` come before them.
QUERN_DEVICE FoundToken rank_few(const Part& part, const Scope& scope, i32 count, By by, u64 wanted, u64 before,
                                 u32 count_before) {
  Desk& desk = *part.desk;
  const i32 t = thread_index();
  const bool there = t < count;
  const Place own = there ? desk.few[t] : Place{0};
  const u64 weight = there ? scope.weigh(value_at(own)) : u64{0};
  if (there) desk.weights[t] = weight;
  if (t == 0) desk.found[0] = 0;
  sync_block();
  u64 above = before, larger = count_before;
  if (t / kWarp * kWarp < count) {
    QUERN_FOUR_AT_ONCE for (i32 i = 0; i < count; ++i) {
      const bool more = desk.few[i] > own;
      above += more ? desk.weights[i] : u64{0}, larger += more;
    }
  }
  const bool reaches = by == By::weight ? above < wanted && wanted <= above + weight : larger + 1 == wanted;
  if (there && reaches) desk.found[0] = own, desk.found[1] = above + weight;
  sync_block();
  return {desk.found[0], desk.found[1]};
}

}  // namespace q
