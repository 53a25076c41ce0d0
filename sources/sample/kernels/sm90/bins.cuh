// The pieces of a search for the token of a row that is the k-th in descending order, or at which the weights sum up to
// so much: among the candidates, which the first block has, or in the row itself, which all blocks of the cluster then
// read again.
//
// One pass over the tokens sorts them into bins by their distance from the largest logit; a bin holds the weights of
// its tokens, as integers, and their number. With the bins of all blocks added up, each block knows the bin that is
// looked for, and that alone has to be looked into: its tokens are read again, and ranked. A bin of too many is divided
// further, by the tokens' ranks.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "sample/kernels/sm90/candidates.cuh"

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
  f32 floor;            // nor do those below this one matter
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
  QUERN_DEVICE u64 rank_of_key(u32 key) const { return static_cast<u64>(key < top ? top - key : 0u) << kIndexBits; }
  QUERN_DEVICE u64 rank_of(Place place) const { return rank_of_key(key_at(place)) | static_cast<u32>(index_at(place)); }
  QUERN_DEVICE bool has(const Scope& scope, f32 x, u64 rank) const {
    return (bin == kNoBin || scope.bin_at(scope.exponent(x)) == bin) && rank >= first && rank <= last;
  }
  // All from a logit on.
  QUERN_DEVICE static Stretch from(const Scope& scope, f32 least) {
    return {fmax(least, value_of(kDead + 1)), infinity(), kNoBin, key_of(scope.max), 0, ~u64{0}};
  }
  // Of a bin of the scope. Logits outside cannot be in it, whatever was rounded.
  QUERN_DEVICE static Stretch of_bin(const Scope& scope, u32 bin) {
    const f32 b = static_cast<f32>(bin), step = rcp_approx(scope.per * scope.scale);
    const f32 far = (b + 0.5f) * step, slack = (fabs(scope.max) + far) * 0x1p-20f;
    f32 highest = scope.max - (b - 0.5f) * step + slack, lowest = scope.max - far - slack;
    if (!(highest < scope.max)) highest = scope.max;
    if (!(lowest > -infinity())) lowest = -infinity();
    Stretch s{lowest, highest, bin, key_of(scope.max), 0, 0};
    s.first = s.rank_of_key(key_of(highest));
    s.last = s.rank_of_key(key_of(lowest)) | ((1u << kIndexBits) - 1);
    return s;
  }
  QUERN_DEVICE void cut(u64 from, u64 to) { first = from > first ? from : first, last = to < last ? to : last; }
  // So that no more than kSpots bins of 2^shift ranks cover it.
  QUERN_DEVICE int shift() const {
    const int bits = 64 - static_cast<int>(leading_zeros(last - first));
    return bits > kSpotBits ? bits - kSpotBits : 0;
  }
};

// What a thread adds to the two bins that it met last, so that rows whose logits lie close together do not have all
// threads add to one bin all the time.
struct LastBins {
  u32 bin[2], count[2];
  u64 weight[2];
  QUERN_DEVICE void take(const Bins& bins, u32 its, u64 its_weight, u32 number) {
    if (its == bin[0] && count[0] != 0) {
      weight[0] += its_weight, count[0] += number;
    } else if (its == bin[1] && count[1] != 0) {
      weight[1] += its_weight, count[1] += number;
    } else {
      if (count[1] != 0) bins.add(bin[1], weight[1], count[1]);
      bin[1] = bin[0], count[1] = count[0], weight[1] = weight[0];
      bin[0] = its, count[0] = number, weight[0] = its_weight;
    }
  }
  QUERN_DEVICE void add(const Bins& bins) const {
    QUERN_ROLLED for (int i = 0; i < 2; ++i) {
      const u32 its = i == 0 ? count[0] : count[1];
      if (its != 0) bins.add(i == 0 ? bin[0] : bin[1], i == 0 ? weight[0] : weight[1], its);
    }
  }
};
// What is done with the tokens of a stretch.
enum class Scan : i32 {
  all_bins,  // into the bins of the whole scope, and added up
  list,      // onto this block's list; `listed` counts them, beyond its end, too
  bins       // into bins of 2^shift ranks each
};
struct Ranks {
  u64 first, last;  // of all that went into bins
};
// Where tokens are looked for.
struct Source {
  const SampleParams* p;
  const Row* row;
  bool whole;  // in the row, each block in its part of it; else among `count` candidates, by the first block alone
  i32 blocks;  // that take part
  i32 count;
};

// The vector of a lane in unit `unit` of the part's: asked for, and as edited.
QUERN_DEVICE vec16 ask_for_unit(const Source& source, const Part& part, i32 unit) {
  const i32 begin = (part.first + unit / kLoads) * kChunk;
  if (!source.p->vectors || begin + kChunk > source.p->vocab) return vec16{};
  return load16(source.row->logits + begin + place_in_chunk(unit % kLoads));
}
QUERN_DEVICE void load_unit(const Source& source, const Part& part, i32 unit, const vec16& raw, f32 (&x)[kVector]) {
  const SampleParams& p = *source.p;
  const Row& row = *source.row;
  const i32 c = unit / kLoads, j = unit % kLoads, begin = (part.first + c) * kChunk, at = place_in_chunk(j);
  if (p.vectors && begin + kChunk <= p.vocab) {
    QUERN_UNROLL for (int w = 0; w < 4; ++w) {
      if constexpr (sizeof(Logit) == 4) {
        x[w] = f32_of(raw.x[w]);
      } else {
        const f32x2 pair = unpack<Logit>(raw.x[w]);
        x[2 * w] = pair.x, x[2 * w + 1] = pair.y;
      }
    }
  } else {
    QUERN_UNROLL for (int e = 0; e < kVector; ++e) x[e] =
        begin + at + e < p.vocab ? to_f32(row.logits[begin + at + e]) : -infinity();
  }
  if constexpr (kEdits) {
    const u32* const listed = part.names() ? part.named.marks + c * kGroups : nullptr;
    edit_vector(p, row, begin, j, load_masks(row, begin, p.vocab), listed, x);
    const u32 bits = listed ? part.named.bits_at(c * kChunk + at) & ((1u << kVector) - 1) : 0u;
    if (bits != 0) {
      const f32* value = part.named.values + part.named.rank_of(c * kChunk + at);
      QUERN_UNROLL for (int e = 0; e < kVector; ++e) {
        if ((bits >> e & 1) != 0) x[e] = *value++;
      }
    }
  }
}

// What scan_part() does with one token, x >= -inf, of those that lie near.
struct Scanner {
  Bins bins;
  LastBins last;
  u64 weights;
  f32 least, most;  // logits of tokens that went into bins
  QUERN_DEVICE void put(const Scope& scope, const Stretch& stretch, Scan scan, int shift, f32 x, i32 at, u32 number) {
    const f32 exponent = scope.exponent(x);
    const u64 weight = to_units(exp2(exponent));
    u32 bin = scope.bin_at(exponent);
    if (scan == Scan::bins) {
      const u64 rank = stretch.rank_of(place_of(x, at));
      const bool in = (stretch.bin == kNoBin || bin == stretch.bin) && rank >= stretch.first && rank <= stretch.last;
      bin = in ? static_cast<u32>((rank - stretch.first) >> shift) : kNoBin;
    } else {
      weights += weight * number;
    }
    if (bin >= static_cast<u32>(kSpots)) return;
    least = fmin(least, x), most = fmax(most, x);
    last.take(bins, bin, weight * number, number);
  }
};

QUERN_DEVICE Ranks scan_part(const Source& source, const Part& part, const Scope& scope, const Stretch& stretch,
                             Scan scan, int shift, Place* list, u32* listed) {
  const f32 lowest =
      fmax(scan == Scan::all_bins ? fmax(scope.least, scope.floor) : stretch.lowest, value_of(kDead + 1));
  const f32 highest = scan == Scan::all_bins ? infinity() : stretch.highest;
  Scanner scanner{Bins::of(part), {}, 0, infinity(), -infinity()};
  // A warp takes a vector a lane at once, or one candidate a lane. So many vectors are under way.
  constexpr i32 kAhead = 4;
  const i32 units = source.whole ? part.chunks * kLoads : div_up(source.count, kWarp);
  vec16 next[kAhead] = {};
  QUERN_UNROLL for (i32 i = 0; i < kAhead; ++i) {
    if (source.whole && warp() + i * kWarps < units) next[i] = ask_for_unit(source, part, warp() + i * kWarps);
  }
  QUERN_ROLLED for (i32 unit = warp(); unit < units; unit += kWarps) {
    if (scan == Scan::list && ballot(load_volatile(listed) > static_cast<u32>(kSegment)) != 0) break;  // too many
    f32 x[kVector];
    u32 near = 0;
    i32 at;
    bool alike = false;
    if (source.whole) {
      const vec16 raw = next[0];
      QUERN_UNROLL for (i32 i = 1; i < kAhead; ++i) next[i - 1] = next[i];
      if (unit + kAhead * kWarps < units) next[kAhead - 1] = ask_for_unit(source, part, unit + kAhead * kWarps);
      load_unit(source, part, unit, raw, x);
      at = (part.first + unit / kLoads) * kChunk + place_in_chunk(unit % kLoads);
      bool differs = x[0] != shuffle(x[0], 0);
      QUERN_UNROLL for (int e = 0; e < kVector; ++e) {
        near |= x[e] >= lowest && x[e] <= highest ? 1u << e : 0u;
        differs |= x[e] != x[0];
      }
      // Rows whose logits are all alike: one lane adds them up.
      if (scan == Scan::all_bins) alike = ballot(differs) == 0;
    } else {
      const i32 i = unit * kWarp + lane();
      const u64 candidate = part.candidates[i < source.count ? i : 0];
      at = token_of_candidate(candidate), x[0] = value_of_candidate(candidate);
      near = i < source.count && x[0] >= lowest && x[0] <= highest ? 1u : 0u;
    }
    if (alike) {
      if (lane() == 0 && near != 0) scanner.put(scope, stretch, scan, shift, x[0], at, kWarp * kVector);
      continue;
    }
    QUERN_ROLLED while (near != 0) {
      if ((near & 1) != 0) {
        if (scan != Scan::list) {
          scanner.put(scope, stretch, scan, shift, x[0], at, 1);
        } else {
          const Place place = place_of(x[0], at);
          if (stretch.has(scope, x[0], stretch.rank_of(place))) {
            const u32 number = atomic_add(listed, 1u);
            if (number < static_cast<u32>(kSegment)) list[number] = place;
          }
        }
      }
      // The next one moves up.
      QUERN_UNROLL for (int e = 1; e < kVector; ++e) x[e - 1] = x[e];
      near >>= 1, ++at;
    }
  }
  if (scan != Scan::list) {
    scanner.last.add(scanner.bins);
    scanner.weights = warp_sum(scanner.weights);
    if (lane() == 0) scanner.bins.add(kSpots, scanner.weights, 0);
  }
  if (!(scanner.least <= scanner.most)) return {~u64{0}, 0};
  return {stretch.rank_of(place_of(scanner.most, 0)), stretch.rank_of(place_of(scanner.least, source.p->vocab - 1))};
}

// A thread's bins, added up over the blocks; and what comes before them.
struct OwnBins {
  u64 weight[kOwnBins], before;
  u32 count[kOwnBins], count_before;
};
// `counting`: the counts that come before are asked for.
QUERN_DEVICE OwnBins add_up(const Part& part, i32 blocks, bool counting) {
  const Bins bins = Bins::of(part);
  OwnBins own{};
  const u32 *const weights = bins.weights + 2 * kOwnBins * thread_index(), *const counts =
                                                                               bins.counts + kOwnBins * thread_index();
  QUERN_FOUR_AT_ONCE for (i32 r = 0; r < blocks; ++r) {
    QUERN_UNROLL for (int i = 0; i < kOwnBins; ++i) {
      own.weight[i] += of_block(reinterpret_cast<const u64*>(weights) + i, r);
      own.count[i] += of_block(counts + i, r);
    }
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
