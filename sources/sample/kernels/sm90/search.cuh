// The pieces of a search, in which all blocks of a cluster find the token of a row that is the k-th in descending
// order, or at which the weights sum up to so much.
//
// One pass over the part sorts its tokens into bins by their distance from the largest logit. With the bins of all
// blocks added up it is known which bin is looked for, and that alone has to be looked into: its tokens are listed and
// ranked. A bin of too many is divided further, by the tokens' ranks.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "sample/kernels/sm90/part.cuh"

namespace q {

inline constexpr f32 kMagic = 0x1p23f;  // x + kMagic has the integer nearest to x in its low bits

// How tokens are weighed, sorted into bins and ranked.
inline constexpr int kFineBits = 5, kFine = 1 << kFineBits, kTopBits = 2 * kFineBits, kTopBins = 1 << kTopBits;
static_assert(kFine <= kWarp && kTopBins * 3 == kBinWordsKept);
struct RowScope {
  f32 max, scale, per;  // bins a power of 2 of weight
  u32 top;              // key of the largest logit
  QUERN_DEVICE f32 exponent(f32 x) const { return exponent_of(max, x, scale); }
  QUERN_DEVICE u64 weigh(f32 x) const { return to_units(exp2(exponent(x))); }
  QUERN_DEVICE u32 bin_at(f32 exponent) const {
    const u32 bin = bits_of(fma(exponent, -per, kMagic)) - bits_of(kMagic);
    return bin < static_cast<u32>(kTopBins) ? bin : static_cast<u32>(kTopBins) - 1;
  }
  // 0 for the largest there can be.
  static constexpr int kIndexBits = 20;
  static_assert(kMostVocab <= 1 << kIndexBits);
  QUERN_DEVICE u64 rank_of(f32 x, i32 token) const {
    return static_cast<u64>(top - key_of(x)) << kIndexBits | static_cast<u32>(token);
  }
};
// Tokens of some bins, and of those the ones whose ranks lie in a range.
struct Stretch {
  u32 from, to;
  u64 first, last;
};
inline constexpr Stretch kAllThereIs{0, ~0u, 0, ~u64{0}};

// 32 coarse bins of 32 each. What is in a bin is summed up in three words of 14 bits and what they grow by, which need
// no carry while they do.
struct Bins {
  u32* words;  // [2 a bin], then one more a bin; once settled a u64 a bin in the place of the former

  QUERN_DEVICE static Bins of(const Part& part) { return {reinterpret_cast<u32*>(part.work)}; }
  QUERN_DEVICE u64* sums() const { return reinterpret_cast<u64*>(words); }
  QUERN_DEVICE u64* coarse() const { return sums() + kBinWordsKept / 2; }
  QUERN_DEVICE void zero() const { bins_zero<kThreads>(sums(), kBinWordsKept / 2); }
  QUERN_DEVICE void add(u32 bin, u64 amount) const {
    constexpr int kPiece = 14;
    constexpr u32 kMask = (1u << kPiece) - 1;
    const u32 low = static_cast<u32>(amount) & kMask, middle = static_cast<u32>(amount >> kPiece) & kMask,
              high = static_cast<u32>(amount >> (2 * kPiece));
    if (low != 0) atomic_add(words + 2 * bin, low);
    if (middle != 0) atomic_add(words + 2 * bin + 1, middle);
    if (high != 0) atomic_add(words + 2 * kTopBins + bin, high);
  }
  // All lanes together. Where many are in one bin, as of logits that are alike, they are added up first.
  QUERN_DEVICE void add_warp(u32 bin, u64 amount) const {
    bool left = amount != 0;
    QUERN_ROLLED for (int round = 0; round < 2; ++round) {
      const u64 all = ballot(left);
      if (all == 0) return;
      const int leader = static_cast<int>(trailing_zeros(all));
      const u32 its = shuffle(bin, leader);
      const bool mine = left && bin == its;
      if (popcount(ballot(mine)) < 8) break;  // the same in all lanes
      const u64 sum = warp_total(mine ? amount : u64{0});
      if (lane() == leader) add(bin, sum);
      left = left && !mine;
    }
    if (left) add(bin, amount);
  }
  // Once all has been added. All warps; a barrier before it, and one behind.
  QUERN_DEVICE void settle() const {
    QUERN_ROLLED for (i32 c = warp(); c < kFine; c += kWarps) {
      const i32 bin = c * kFine + (lane() < kFine ? lane() : 0);
      const u64 sum = words[2 * bin] + (static_cast<u64>(words[2 * bin + 1]) << 14) +
                      (static_cast<u64>(words[2 * kTopBins + bin]) << 28);
      sync_warp();
      sums()[bin] = sum;
      const u64 all = warp_total(lane() < kFine ? sum : u64{0});
      if (lane() == 0) coarse()[c] = all;
    }
  }
};

// Which of a lane's tokens of chunk c are no lower: bit 4 j + e is of the e-th of its j-th four.
QUERN_DEVICE i32 first_of_lane(i32 c) { return c * kChunk + lane() * 4; }
QUERN_DEVICE i32 place_of_bit(i32 first, u32 bits) {
  const i32 bit = static_cast<i32>(trailing_zeros(bits));
  return first + (bit >> 2) * (kWarp * 4) + (bit & 3);
}
QUERN_DEVICE u32 bits_above(const Part& part, i32 c, f32 least) {
  u32 here = 0;
  QUERN_FOUR_AT_ONCE for (int j = 0; j < kEach / 4; ++j) {
    const vec16 four = load16(part.slice + first_of_lane(c) + j * (kWarp * 4));
    u32 of_four = 0;
    QUERN_UNROLL for (int e = 0; e < 4; ++e) of_four |= f32_of(four.x[e]) >= least ? 1u << e : 0u;
    here |= of_four << (4 * j);
  }
  return here;
}
// Sets the tokens from `least` on of a warp's chunks apart, by their places in the part. How many; -1: there is no
// room.
inline constexpr i32 kSieved = kSievedBytes / 2 / kWarps;
QUERN_DEVICE i32 sieve_part(const Part& part, f32 least) {
  u16* const sieved = part.sieved + warp() * kSieved;
  i32 held = 0;
  sync_warp();
  QUERN_ROLLED for (i32 c = warp(); c < part.chunks; c += kWarps) {
    if (!(part.top_of(part.first + c) >= least)) continue;
    u32 here = bits_above(part, c, least);
    const i32 own = static_cast<i32>(popcount(here)), through = warp_scan(own), all = shuffle(through, kWarp - 1);
    if (held + all > kSieved) return -1;
    u16* to = sieved + held + through - own;
    QUERN_ROLLED while (here != 0) {
      *to++ = static_cast<u16>(place_of_bit(first_of_lane(c), here));
      here &= here - 1;
    }
    held += all;
    sync_warp();
  }
  return held;
}
// f(whether this lane has a token, its logit, its place in the part) for each of the warp's tokens that have been set
// apart, or where there was no room (held < 0) for each from `least` on; all lanes together, until f is false in all of
// them.
template <class F>
QUERN_DEVICE void each_token(const Part& part, f32 least, i32 held, F f) {
  const u16* const sieved = part.sieved + warp() * kSieved;
  i32 at = 0, c = warp() - kWarps;
  u32 left = 0;
  QUERN_ROLLED while (true) {
    bool here;
    i32 local;
    if (held >= 0) {
      if (at >= held) return;
      here = at + lane() < held;
      local = sieved[here ? at + lane() : at];
      at += kWarp;
    } else {
      QUERN_ROLLED while (ballot(left != 0) == 0) {
        c += kWarps;
        if (c >= part.chunks) return;
        left = part.top_of(part.first + c) >= least ? bits_above(part, c, least) : 0u;
      }
      here = left != 0;
      local = place_of_bit(first_of_lane(c), here ? left : 1u);
      left &= left - 1;
    }
    if (!f(here, part.slice[local], local)) return;
  }
}

// The part's tokens from `least` on into bins of the scope, by what they weigh or by their number.
QUERN_DEVICE void bin_part(const Part& part, const RowScope& scope, f32 least, i32 held, bool by_count) {
  const Bins bins = Bins::of(part);
  bool first = true, crowded = false;
  each_token(part, least, held, [&](bool here, f32 x, i32) {
    const f32 exponent = scope.exponent(x);
    const u32 bin = scope.bin_at(exponent);
    const u64 amount = !here ? u64{0} : by_count ? u64{1} : to_units(exp2(exponent));
    // The first tokens tell for all of them.
    if (first) {
      const u64 all = ballot(here);
      const u32 its = shuffle(bin, static_cast<int>(trailing_zeros(all)));
      crowded = popcount(ballot(here && bin == its)) >= 6, first = false;
    }
    if (crowded) {
      bins.add_warp(bin, amount);
    } else {
      bins.add(bin, amount);
    }
    return true;
  });
}

// ---- Which bins are looked into: by each warp, all the same
// 32 numbers, one a lane, and what they sum up to from a beginning on; 0 in further lanes.
struct Line {
  u64 own, through;
  QUERN_DEVICE Line(u64 v, u64 before) : own(v), through(before + warp_through(v)) {}
  // The first lane at which the sum reaches so much; kFine: none does.
  QUERN_DEVICE u32 find(u64 wanted) const {
    const u64 reach = ballot(lane() < kFine && through >= wanted);
    return reach == 0 ? static_cast<u32>(kFine) : static_cast<u32>(trailing_zeros(reach));
  }
  QUERN_DEVICE u64 before(u32 at) const { return shuffle(through - own, static_cast<int>(at)); }
  QUERN_DEVICE u64 total() const { return shuffle(through, kFine - 1); }
};
// The sums of this lane's number over the blocks, of which each has told its own.
QUERN_DEVICE u64 sum_of_told(const Part& part, const u64* told) {
  u64 sum = 0;
  if (lane() < kFine) {
    QUERN_FOUR_AT_ONCE for (i32 r = 0; r < part.blocks; ++r) sum += told[r * kFine + lane()];
  }
  return sum;
}

// ---- What has been listed
// One of `count` tokens, its weight, and how many there are before it in order and what they weigh. Several lanes next
// to each other have the same token and share the comparisons; the first of them is `there`. For `threads` threads, of
// which this is the t-th.
QUERN_DEVICE Ranked rank_listed(const Place* places, const u64* weights, i32 count, i32 t, i32 threads) {
  int shift = 0;
  QUERN_UNROLL for (int wider = 1; wider <= 3; ++wider) shift = count << wider <= threads ? wider : shift;
  const i32 sharers = 1 << shift, of = t >> shift, among = t & (sharers - 1);
  Ranked own{};
  own.there = among == 0 && of < count;
  if (of < count) own.place = places[of], own.weight = weights[of];
  QUERN_ROLLED for (i32 begin = 0; begin < count; begin += 4 * sharers) {
    QUERN_UNROLL for (int m = 0; m < 4; ++m) {
      // Beyond the end the first once more, so that no load waits for a branch.
      const i32 other = begin + among + m * sharers;
      const bool there = other < count;
      const Place its = places[there ? other : 0];
      const u64 weight = weights[there ? other : 0];
      const bool more = there && its > own.place;
      own.before += more ? weight : u64{0}, own.rank += more;
    }
  }
  sync_warp();
  QUERN_ROLLED for (int d = 1; d < sharers; d *= 2) {
    own.before += shuffle_xor(own.before, d), own.rank += shuffle_xor(own.rank, d);
  }
  return own;
}

}  // namespace q
