// top_p where nothing else takes tokens away, and what follows from it, the draw: both look for a token at which the
// weights, in descending order, sum up to so much. How much the draw looks for is known, but for what the token that
// crosses top_p adds to it; so both are looked for at once. The row's blocks sort what lies above a bound into bins by
// weight, and of three bins or so the tokens are ranked by the first block.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "sample/kernels/sm90/search.cuh"

namespace q {

struct Sought {
  bool known;  // else the bound was too high, or bins have too many tokens
  bool mine;   // this block has it
  i32 id;
  f32 x;
};

// 32 coarse bins of 32 each. A bin's weight is summed up in three words of 14 bits and what they grow by, which need
// no carry while they do.
inline constexpr int kFineBits = 5, kFine = 1 << kFineBits, kShareBins = kFine * kFine, kPieceBits = 14;
static_assert(kFine <= kWarp && kShareBins == kShareWords / 3);
struct ShareBins {
  u32* words;  // [2 a bin], then one more a bin; then a u64 a bin in the place of the former
  QUERN_DEVICE u64* sums() const { return reinterpret_cast<u64*>(words); }
  QUERN_DEVICE void add(u32 bin, u64 weight) const {
    constexpr u32 kMask = (1u << kPieceBits) - 1;
    const u32 low = static_cast<u32>(weight) & kMask, middle = static_cast<u32>(weight >> kPieceBits) & kMask,
              high = static_cast<u32>(weight >> (2 * kPieceBits));
    if (low != 0) atomic_add(words + 2 * bin, low);
    if (middle != 0) atomic_add(words + 2 * bin + 1, middle);
    if (high != 0) atomic_add(words + 2 * kShareBins + bin, high);
  }
  // By the lane of its number in its coarse bin.
  QUERN_DEVICE u64 settle(i32 bin) const {
    const u64 sum = words[2 * bin] + (static_cast<u64>(words[2 * bin + 1]) << kPieceBits) +
                    (static_cast<u64>(words[2 * kShareBins + bin]) << (2 * kPieceBits));
    sums()[bin] = sum;
    return sum;
  }
};
// The sums of the row's blocks at place `at`.
QUERN_DEVICE u64 sum_of_blocks(const Part& part, const u64* at) {
  u64 sum = 0;
  each_block(part, at, [&](i32, u64 its) { sum += its; });
  return sum;
}
// Of the 32 numbers that the lanes have, the one at which their sum from `before` on reaches `wanted`. Their number is
// returned, kFine where it does not; *before is then what comes before it.
QUERN_DEVICE u32 lane_that_reaches(u64 own, u64 wanted, u64* before, u64* in) {
  const u64 through = *before + warp_scan(lane() < kFine ? own : u64{0});
  const u64 reach = ballot(lane() < kFine && through >= wanted);
  const int its = reach == 0 ? 0 : static_cast<int>(trailing_zeros(reach));
  *before = shuffle(through - own, its), *in = shuffle(own, its);
  return reach == 0 ? static_cast<u32>(kFine) : static_cast<u32>(its);
}

// By one warp.
QUERN_DEVICE bool find_share(const Part& part, const ShareBins& bins, const u64* coarse, u64 wanted, u64 random,
                             ShareFound* found) {
  const i32 at = lane() < kFine ? lane() : 0;
  const u64 of_coarse = sum_of_blocks(part, coarse + at);
  // The bin that reaches so much: the coarse one, then the fine one.
  const auto find = [&](u64 aim, u64* before, u64* in) {
    *before = 0;
    const u32 high = lane_that_reaches(of_coarse, aim, before, in);
    if (high == kFine) return static_cast<u32>(kShareBins);
    const u64 own = sum_of_blocks(part, bins.sums() + (high << kFineBits) + at);
    const u32 low = lane_that_reaches(own, aim, before, in);
    return high << kFineBits | low;
  };
  u64 before = 0, in = 0;
  u32 places[3];
  u64 befores[3], ins[3];
  u64 aim = wanted;
  QUERN_ROLLED for (int i = 0; i < 3; ++i) {
    const u32 bin = find(aim, &before, &in);
    if (bin >= kShareBins) return false;
    // A draw of what the tokens up to here weigh at least, and at most.
    aim = scale_to(random, i == 0 ? wanted : befores[0] + ins[0]) + 1;
    QUERN_UNROLL for (int m = 0; m < 3; ++m) {
      if (m == i) places[m] = bin, befores[m] = before, ins[m] = in;
    }
  }
  *found = {places[0], places[1], places[2], befores[0], befores[1], befores[2] + ins[2] - befores[1]};
  return true;
}

// One of `count` tokens, and what those weigh that come before it. Several lanes next to each other share a token; the
// first of them is `there`. By `threads` threads, of which this is the t-th.
struct RankedShare {
  bool there;
  Place place;
  u64 weight, before;
};
QUERN_DEVICE RankedShare rank_share(const Place* places, const u64* weights, i32 count, i32 t, i32 threads) {
  i32 sharers = 1;
  QUERN_UNROLL for (int wider = 2; wider <= 8; wider *= 2) sharers = count * wider <= threads ? wider : sharers;
  const i32 of = t / sharers, among = t & (sharers - 1);
  RankedShare own{};
  own.there = among == 0 && of < count;
  if (of < count) own.place = places[of], own.weight = weights[of];
  QUERN_FOUR_AT_ONCE for (i32 i = among; i < count; i += sharers) own.before += places[i] > own.place ? weights[i] : 0;
  QUERN_ROLLED for (int d = 1; d < sharers; d *= 2) own.before += shuffle_xor(own.before, d);
  return own;
}

// `most`: beyond so many powers of 2 below the largest no token is within top_p. All threads of all blocks.
QUERN_DEVICE Sought choose_of_share(const Part& part, const RowSums& sums, const Settings& s, f32 most,
                                    const Stream& stream) {
  Desk& desk = *part.desk;
  const Sought unknown{false, false, -1, 0.0f};
  const u64 wanted = share_of(s.top_p, sums.total(), false), random = wide(stream.of_row());
  // All tokens below this bound together are less than what top_p leaves out.
  const f32 whole = static_cast<f32>(sums.total()) * (1.0f / kUnits);
  most = fmin(most, 0.5f - log2((1.0f - s.top_p) * whole * rcp_approx(static_cast<f32>(part.vocab))));
  f32 least = sums.max - fmax(most, 0.5f) * rcp_approx(sums.scale);
  if (s.top_p <= 0.95f) {
    // A guess: most of the weight will lie above it, and few of the tokens.
    f32 sum = 0.0f, number = 0.0f;
    QUERN_ROLLED for (i32 c = lane(); c < part.all; c += kWarp) {
      if (f32_of(static_cast<u32>(part.stats[c])) > -infinity()) sum += part.middles[c], number += 1.0f;
    }
    sum = warp_sum(sum), number = warp_sum(number);
    least = fmax(fmin(sum * rcp_approx(fmax(number, 1.0f)), sums.max), least);
  }
  if (!(least > -infinity() && least < infinity() && sums.max < infinity())) return unknown;
  const f32 per = (static_cast<f32>(kShareBins) - 1.0f) * rcp_approx((sums.max - least) * sums.scale + 0x1p-10f);
  const Scope scope{sums.max, sums.scale, per, least};
  const auto bin_of = [&](f32 exponent) {
    const u32 bin = scope.bin_at(exponent);
    return bin < static_cast<u32>(kShareBins) ? bin : static_cast<u32>(kShareBins) - 1;
  };

  const ShareBins bins{reinterpret_cast<u32*>(part.work)};
  u64* const coarse = reinterpret_cast<u64*>(part.work + kShareWords * 4);
  Place* const lists = coarse + kFine;
  sync_block();  // what lies there has been read: the weights of chunks
  bins_zero<kThreads>(reinterpret_cast<u64*>(part.work), kShareWords / 2);
  if (thread_index() < 2) desk.listed[thread_index()] = 0;
  sync_block();
  each_above(part, least, [&](bool here, f32 x, i32) {
    const f32 exponent = exponent_of(sums.max, x, sums.scale);
    const u32 bin = bin_of(exponent);
    u64 weight = here ? to_units(exp2(exponent)) : u64{0};
    // Where many are in one bin, as of logits that are alike, they are added up first.
    const u64 all = ballot(here);
    const u32 its = shuffle(bin, static_cast<int>(trailing_zeros(all)));
    const u64 alike = ballot(here && bin == its);
    if (popcount(alike) > kWarp / 4) {
      const bool among = here && bin == its;
      const u64 sum = warp_sum(among ? weight : u64{0});
      if (among) weight = 0;
      if (lane() == static_cast<int>(trailing_zeros(alike))) weight = sum;
    }
    if (weight != 0) bins.add(bin, weight);
  });
  sync_block();
  QUERN_ROLLED for (i32 c = warp(); c < kFine; c += kWarps) {
    const u64 sum = warp_sum(lane() < kFine ? bins.settle(c * kFine + lane()) : u64{0});
    if (lane() == 0) coarse[c] = sum;
  }
  sync_cluster_shared();
  if (warp() == 0) {
    ShareFound found{};
    const bool reaches = find_share(part, bins, coarse, wanted, random, &found);
    if (lane() == 0) desk.share = found, desk.reaches = reaches;
  }
  sync_block();
  const ShareFound found = desk.share;
  if (!desk.reaches) {
    sync_cluster_shared();  // all have read the bins
    return unknown;
  }
  each_above(part, least, [&](bool here, f32 x, i32 local) {
    const u32 bin = bin_of(exponent_of(sums.max, x, sums.scale));
    const bool of_last = here && bin == found.last, of_draw = here && bin >= found.from && bin <= found.to;
    const Place place = place_of(x, part.begin() + local);
    if (of_last) {
      const u32 number = atomic_add(desk.listed, 1u);
      if (number < static_cast<u32>(kSegment)) lists[number] = place;
    }
    if (of_draw) {
      const u32 number = atomic_add(desk.listed + 1, 1u);
      if (number < static_cast<u32>(kSegment)) lists[kSegment + number] = place;
    }
  });
  sync_cluster_shared();
  // The first half of the threads has the one list, the second the other. What was in bins has been read by all.
  constexpr i32 kHalf = kThreads / 2;
  static_assert(kHalf % kWarp == 0 && kHalf >= kSegment);
  const i32 which = thread_index() / kHalf, t = thread_index() - which * kHalf;
  Place* const places = reinterpret_cast<Place*>(part.work) + which * 2 * kSegment;
  u64* const weights = places + kSegment;
  // This thread's token is the i-th of block `from`.
  i32 counts[2] = {0, 0}, i = t, from = -1;
  const u64 numbers = of_block(reinterpret_cast<const u64*>(desk.listed), lane() < part.blocks ? lane() : 0);
  QUERN_ROLLED for (i32 r = 0; r < part.blocks; ++r) {
    const u64 both = shuffle(numbers, r);
    const i32 its = static_cast<i32>(both), other = static_cast<i32>(both >> 32), mine = which == 0 ? its : other;
    from = from < 0 && i < mine ? r : from;
    i -= from < 0 ? mine : 0;
    counts[0] += its, counts[1] += other;
  }
  if (counts[0] > kSegment || counts[1] > kSegment) {
    sync_cluster_shared();  // all know it before the counts are used again
    return unknown;
  }
  if (part.rank != 0) {
    release();
    return {true, false, -1, 0.0f};
  }
  if (from >= 0) {
    const Place place = of_block(lists + which * kSegment + i, from);
    places[t] = place;
    weights[t] = scope.weigh(value_at(place));
  }
  release();
  if (thread_index() == 0) desk.tokens[0][0] = 0;
  sync_block();
  const RankedShare own = rank_share(places, weights, which == 0 ? counts[0] : counts[1], t, kHalf);
  const u64 before = own.before + (which == 0 ? found.before_last : found.before_draw), through = before + own.weight;
  if (which == 0 && own.there && before < wanted && wanted <= through) desk.tokens[0][1] = through;
  sync_block();
  const u64 target = scale_to(random, desk.tokens[0][1]);
  if (which == 1 && own.there && before <= target && target < through) desk.tokens[0][0] = own.place;
  sync_block();
  const Place place = desk.tokens[0][0];
  return {true, true, place == 0 ? -1 : index_at(place), value_at(place)};
}

}  // namespace q
