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
  u32* weights;  // [kSpots + 1] low and high words; behind the bins, of all tokens there are
  u32* counts;
  QUERN_DEVICE static Bins at(u32* first) { return {first, first + 2 * kSpots + 2}; }
  QUERN_DEVICE static Bins of(const Part& part) { return at(reinterpret_cast<u32*>(part.work)); }
  QUERN_DEVICE void zero() const { bins_zero<kThreads>(weights, kBinWords); }
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

// What a thread adds to the two bins that it met last, so that rows whose logits lie close together do not have all
// threads add to one bin all the time.
struct LastBins {
  u32 bin[2], count[2];
  u64 weight[2];
  QUERN_DEVICE void take(const Bins& bins, u32 its, u64 its_weight) {
    if (its == bin[0] && count[0] != 0) {
      weight[0] += its_weight, ++count[0];
    } else if (its == bin[1] && count[1] != 0) {
      weight[1] += its_weight, ++count[1];
    } else {
      if (count[1] != 0) bins.add(bin[1], weight[1], count[1]);
      bin[1] = bin[0], count[1] = count[0], weight[1] = weight[0];
      bin[0] = its, count[0] = 1, weight[0] = its_weight;
    }
  }
  QUERN_DEVICE void add(const Bins& bins) const {
    QUERN_ROLLED for (int i = 0; i < 2; ++i) {
      const u32 its = i == 0 ? count[0] : count[1];
      if (its != 0) bins.add(i == 0 ? bin[0] : bin[1], i == 0 ? weight[0] : weight[1], its);
    }
  }
};
// Whether many of a warp's lanes are in one bin.
QUERN_DEVICE bool is_crowded(u32 bin, bool take) {
  const u64 left = ballot(take);
  const u32 its = shuffle(bin, left == 0 ? 0 : static_cast<int>(trailing_zeros(left)));
  return popcount(ballot(take && bin == its)) >= 6;
}

// The bins of the whole scope, and what all its tokens in this part weigh.
QUERN_DEVICE void bin_part(const Part& part, const Scope& scope) {
  const Bins bins = Bins::of(part);
  LastBins last{};
  u64 own = 0;
  const i32 end = part.length(), begin = thread_index() * 4;
  bool crowded = false;
  QUERN_ROLLED for (i32 i = begin; i < end; i += kThreads * 4) {
    const vec16 four = load16(part.slice + i);
    f32 y[4];
    QUERN_UNROLL for (int e = 0; e < 4; ++e) y[e] = scope.exponent(f32_of(four.x[e]));
    // The first tokens tell for all of them.
    if (i == begin) crowded = is_crowded(scope.bin_at(y[0]), scope.bin_at(y[0]) < kSpots);
    QUERN_UNROLL for (int e = 0; e < 4; ++e) {
      const u64 weight = to_units(exp2(y[e]));
      const u32 bin = scope.bin_at(y[e]);
      own += weight;
      if (bin >= kSpots) continue;
      if (crowded) {
        last.take(bins, bin, weight);
      } else {
        bins.add(bin, weight, 1);
      }
    }
  }
  last.add(bins);
  own = warp_sum(own);
  if (lane() == 0) bins.add(kSpots, own, 0);
}

// f(whether this lane has a token, its logit, its place in the part) for each token of the part from `least` on, all
// lanes of a warp together.
template <class F>
QUERN_DEVICE void each_above(const Part& part, f32 least, F f) {
  QUERN_ROLLED for (i32 c = warp(); c < part.chunks; c += kWarps) {
    if (!(part.top_of(part.first + c) >= least)) continue;
    const i32 first = c * kChunk + lane() * 4;
    constexpr int kFours = kEach / 4;
    u32 here = 0;
    QUERN_UNROLL for (int j = 0; j < kFours; ++j) {
      const vec16 four = load16(part.slice + first + j * (kWarp * 4));
      QUERN_UNROLL for (int e = 0; e < 4; ++e) here |= f32_of(four.x[e]) >= least ? 1u << (4 * j + e) : 0u;
    }
    QUERN_ROLLED while (ballot(here != 0) != 0) {
      const i32 bit = static_cast<i32>(trailing_zeros(here != 0 ? here : 1u));
      const i32 local = first + (bit >> 2) * (kWarp * 4) + (bit & 3);
      f(here != 0, part.slice[local], local);
      here &= here - 1;
    }
  }
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
  LastBins last{};
  // A warp takes four tokens a lane at once.
  constexpr i32 kFours = kChunk / (kWarp * 4);
  const i32 units = part.chunks * kFours;
  QUERN_ROLLED for (i32 unit = warp(); unit < units; unit += kWarps) {
    if (scan == Scan::list && ballot(load_volatile(listed) > static_cast<u32>(kSegment)) != 0) break;  // too many
    if (!(part.top_of(part.first + unit / kFours) >= lowest)) continue;
    i32 at = unit * kWarp * 4 + lane() * 4;
    vec16 four = load16(part.slice + at);
    u32 near = 0;
    QUERN_UNROLL for (int e = 0; e < 4; ++e) {
      near |= f32_of(four.x[e]) >= lowest && f32_of(four.x[e]) <= highest ? 1u << e : 0u;
    }
    QUERN_ROLLED while (ballot(near != 0) != 0) {
      const bool here = (near & 1) != 0;
      const f32 x = f32_of(four.x[0]);
      const Place place = place_of(x, part.begin() + at);
      const u64 rank = stretch.rank_of(place);
      const bool take = here && is_token(place) && stretch.has(scope, x, rank);
      if (take && scan == Scan::bins) {
        last.take(bins, static_cast<u32>((rank - stretch.first) >> shift), scope.weigh(x));
      } else if (take && scan == Scan::list) {
        const u32 number = atomic_add(listed, 1u);
        if (number < static_cast<u32>(kSegment)) list[number] = place;
      } else if (take) {
        ranks.first = rank < ranks.first ? rank : ranks.first, ranks.last = rank > ranks.last ? rank : ranks.last;
      }
      // The next one moves up.
      four.x[0] = four.x[1], four.x[1] = four.x[2], four.x[2] = four.x[3];
      near >>= 1, ++at;
    }
  }
  last.add(bins);
  return ranks;
}

// A thread's bins, added up over the blocks; and what comes before them.
struct OwnBins {
  u64 weight[kOwnBins], before;
  u32 count[kOwnBins], count_before;
};
// `counting`: the counts that come before are asked for.
QUERN_DEVICE OwnBins add_up(const Part& part, bool counting) {
  const Bins bins = Bins::of(part);
  OwnBins own{};
  QUERN_UNROLL for (int i = 0; i < kOwnBins; ++i) {
    const i32 at = kOwnBins * thread_index() + i;
    each_block(part, reinterpret_cast<const u64*>(bins.weights) + at, [&](i32, u64 its) { own.weight[i] += its; });
    each_block(part, bins.counts + at, [&](i32, u32 its) { own.count[i] += its; });
  }
  u64 weight = 0;
  u32 count = 0;
  QUERN_UNROLL for (int i = 0; i < kOwnBins; ++i) weight += own.weight[i], count += own.count[i];
  u64* const scratch = part.desk->scratch;
  own.before = sum_before(scratch, weight);
  if (counting) own.count_before = static_cast<u32>(sum_before(scratch, count));
  return own;
}

enum class By : i32 { weight, count };
// The bin that reaches `wanted`, and what comes before it. kNoBin: none does. `found` has kNoBin in front.
struct FoundBins {
  u32 bin;
  u64 weight;
  u32 count, in;
};
QUERN_DEVICE FoundBins find_bin(u64* found, const OwnBins& own, By by, u64 wanted) {
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

}  // namespace q
