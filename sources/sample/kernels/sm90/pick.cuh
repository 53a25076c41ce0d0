// The choice among candidates, where they are spread: they are sorted by bins of their logits' distance from the
// largest, and only the bins that top_k, top_p and the draw end in are put in order.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "sample/kernels/sm90/bins.cuh"

namespace q {

// Bins of candidates: what they weigh, and how many they are. A weight has 41 bits; its parts are added up one by one,
// in words that have room for those of all candidates, so that no sum is waited for.
struct PickBins {
  static constexpr int kPart = 19;  // bits of the two lower parts; above the third is the count
  static constexpr u32 kOfPart = (1u << kPart) - 1;
  u32 *low, *middle, *top;  // [kSpots] each
  QUERN_DEVICE static PickBins at(u32* first) { return {first, first + kSpots, first + 2 * kSpots}; }
  QUERN_DEVICE void add(u32 bin, u64 weight, u32 count) const {
    atomic_add(low + bin, static_cast<u32>(weight) & kOfPart);
    atomic_add(middle + bin, static_cast<u32>(weight >> kPart) & kOfPart);
    atomic_add(top + bin, count << 16 | static_cast<u32>(weight >> (2 * kPart)));
  }
  QUERN_DEVICE void add_count(u32 bin) const { atomic_add(top + bin, 1u << 16); }
};
static_assert(u64{kCandidates} << PickBins::kPart <= u64{1} << 32 && kFewCandidates <= kCandidates);
static_assert(kUnits == 0x1p40f && kCandidates << (40 - 2 * PickBins::kPart) < 1 << 16);
// A thread's bins, and what comes before them.
struct OwnBins {
  u64 weight[kOwnBins], before;
  u32 count[kOwnBins], count_before;
  QUERN_DEVICE void load(const PickBins& bins) {
    QUERN_UNROLL for (int i = 0; i < kOwnBins; ++i) {
      const i32 bin = kOwnBins * thread_index() + i;
      const u32 top = bins.top[bin];
      count[i] = top >> 16;
      weight[i] =
          (u64{top & 0xffffu} << (2 * PickBins::kPart)) + (u64{bins.middle[bin]} << PickBins::kPart) + bins.low[bin];
    }
  }
};
static_assert(kOwnBins == 2 && kSpots * 3 <= kBinWords);
// A candidate's bin is written down: that of one that is in none.
inline constexpr u32 kNoSpot = 0xffff;
inline constexpr i32 kSpotsAtOnce = 16 / sizeof(u16);
static_assert(kSpots < static_cast<i32>(kNoSpot));

// The bin of a logit: its distance from the largest, in steps. `pre` takes differences of tiny numbers to where they
// have a reciprocal.
struct Spread {
  f32 max, pre, per;
  u32 bins;
  QUERN_DEVICE static Spread over(f32 max, f32 least, u32 bins) {
    const f32 pre = max - least < 0x1p-60f ? 0x1p60f : 1.0f, wide_as = max * pre - least * pre;
    return {max, pre, wide_as > 0.0f ? static_cast<f32>(bins - 1) * rcp_approx(wide_as) : 0.0f, bins};
  }
  QUERN_DEVICE u32 bin_of(f32 x) const {
    return x == max ? 0u : static_cast<u32>(fmin((max * pre - x * pre) * per, static_cast<f32>(bins - 1)));
  }
};
enum class Picked : i32 {
  done,
  short_of,  // they do not reach as far as is asked for
  crowded    // too many of them lie close together
};
struct PickedToken {
  Picked picked;
  Choice choice;
  u64 left;  // what tokens weigh together down to this one, where `wanted` asks for it
};
// What the functions for a few tokens need of a part.
struct OfDesk {
  Desk* desk;
  QUERN_DEVICE Room room() const {
    Room r{};
    r.scratch = desk->scratch;
    return r;
  }
};

// In the first block, as desk->asked says. Compiled once; what it is asked lies in shared memory, since arguments would
// lie on the stack.
QUERN_CALLED PickedToken pick(Desk* desk_of_block, const u64* candidates, u8* work, u16* spots, i32 vocab) {
  const OfDesk part{in_shared(desk_of_block)};
  candidates = in_shared(candidates), work = in_shared(work), spots = in_shared(spots);
  Desk& desk = *part.desk;
  const Asked& held = desk.asked;
  const bool alone = held.alone;
  Settings s{};
  s.top_p = held.top_p, s.top_k = held.top_k;
  u64* const scratch = desk.scratch;
  const PickBins bins = PickBins::at(reinterpret_cast<u32*>(work));
  const u32 k = static_cast<u32>(s.top_k);
  const bool asked = held.wanted != 0, counts = !asked && s.top_k > 0 && s.top_k < vocab;
  const Scope scope{held.max, held.scale};
  // Beyond so many powers of 2 a token weighs nothing.
  f32 lowest = fmax(held.max - 41.0f * rcp_approx(held.scale), held.least);
  if (is_token(held.bound)) lowest = fmax(lowest, value_at(held.bound));
  const Spread spread = asked ? Spread::over(held.to, held.from, kSpots) : Spread::over(held.max, lowest, kSpots);
  const auto is_in = [&](f32 x) { return asked ? x >= held.from && x <= held.to : x > -infinity(); };
  // Those of some bins, no more than there is room for, into few.
  const auto list_bins = [&](u32 first, u32 last) {
    if (thread_index() == 0) desk.listed = 0;
    sync_block();
    QUERN_ROLLED for (i32 i = kSpotsAtOnce * thread_index(); i < held.count; i += kSpotsAtOnce * kThreads) {
      const vec16 raw = load16(spots + i);
      QUERN_UNROLL for (int e = 0; e < kSpotsAtOnce; ++e) {
        const u32 bin = raw.x[e / 2] >> (16 * (e & 1)) & 0xffffu;
        if (bin - first <= last - first) desk.few[atomic_add(&desk.listed, 1u)] = place_of_candidate(candidates[i + e]);
      }
    }
    sync_block();
  };

  bins_zero<kThreads>(bins.low, kBinWords);
  if (thread_index() == 0) desk.told = 0;
  sync_block();
  // Where shares are asked for at once, weights are added up as tokens are counted; else where they are many.
  bool weighs = alone || asked, cuts = false, few = false;
  u32 number = 0, last = 0;  // of the tokens that are put in order, and the last of their bins
  i32 total = 0;
  OwnBins own{};
  u64 left = 0;
  const i32 padded = (held.count + kSpotsAtOnce - 1) / kSpotsAtOnce * kSpotsAtOnce;
  QUERN_ROLLED for (bool counted = false;; counted = true) {
    QUERN_ROLLED for (i32 i = thread_index(); i < padded; i += kThreads) {
      const u64 candidate = i < held.count ? candidates[i] : to_candidate(-infinity(), 0);
      const f32 x = value_of_candidate(candidate);
      u32 bin = kNoSpot;
      if (counted) {
        bin = spots[i];
      } else {
        if (place_of_candidate(candidate) >= held.bound && x >= held.least && is_in(x)) bin = spread.bin_of(x);
        spots[i] = static_cast<u16>(bin);
      }
      if (bin == kNoSpot) continue;
      if (weighs) {
        bins.add(bin, scope.weigh(x), counted ? 0u : 1u);
      } else {
        bins.add_count(bin);
      }
    }
    sync_block();
    if (!counted && !alone) {
      own.load(bins);
      own.count_before = static_cast<u32>(sum_before(scratch, own.count[0] + own.count[1]));
      total = static_cast<i32>(scratch[kThreads / kWarp]);
      cuts = counts && s.top_k <= total;
      if (total == 0 || (held.enough != 0 && is_token(held.bound) && value_at(held.bound) > held.least &&
                         static_cast<u32>(total) < held.enough)) {
        return {Picked::short_of, {-1, 0.0f}, 0};
      }
      if (!asked) {
        u32 through = own.count_before;
        QUERN_UNROLL for (int i = 0; i < kOwnBins; ++i) {
          const u32 before = through;
          through += own.count[i];
          if (cuts && before < k && k <= through)
            desk.told = u64{through} << 32 | static_cast<u32>(kOwnBins * thread_index() + i);
        }
        sync_block();
        // Those that are few are put in order at once.
        number = cuts ? static_cast<u32>(desk.told >> 32) : static_cast<u32>(total);
        last = cuts ? static_cast<u32>(desk.told) : static_cast<u32>(kSpots - 1);
        few = number <= static_cast<u32>(kSegment);
      }
    }
    if (weighs || few) break;
    weighs = true;
  }
  if (!few) {
    own.load(bins);
    own.before = sum_before(scratch, own.weight[0] + own.weight[1]);
    left = scratch[kThreads / kWarp];
  }
  QUERN_ROLLED for (Step step = asked ? Step::draw : Step::top_k;;
                    step = step == Step::top_k ? Step::top_p : Step::draw) {
    u64 wanted = k, base = 0;
    u32 bin = 0;
    bool by_count = false;
    u64* const found = desk.bins[step == Step::top_p ? 1 : 0];
    if (!few) {
      if (step == Step::top_k) {
        if (!cuts) continue;
      } else if (step == Step::top_p) {
        wanted = share_of(s.top_p, alone ? held.total : left, false);
        if (!(s.top_p < 1.0f) || (wanted >= left && !alone)) continue;
      } else {
        wanted = asked ? held.wanted : scale_to(held.random, left) + 1;
      }
      by_count = step == Step::top_k || (asked && held.by_count);
      if (wanted > (by_count ? static_cast<u64>(total) : left)) {
        return {Picked::short_of, {-1, 0.0f}, 0};
      }
      // The bin that reaches it.
      u64 at = own.before;
      u32 count_at = own.count_before;
      QUERN_UNROLL for (int i = 0; i < kOwnBins; ++i) {
        const u64 from = by_count ? u64{count_at} : at, in = by_count ? u64{own.count[i]} : own.weight[i];
        if (from < wanted && wanted <= from + in) {
          found[0] = static_cast<u64>(kOwnBins * thread_index() + i), found[1] = at, found[2] = count_at;
          found[3] = own.count[i];
        }
        at += own.weight[i], count_at += own.count[i];
      }
      sync_block();
      bin = last = static_cast<u32>(found[0]), number = static_cast<u32>(found[3]), base = found[1];
      if (number > static_cast<u32>(kSegment)) {
        // Too many to be ranked; but if all are equal their ids are their order.
        u32 least = ~0u, most = 0;
        QUERN_ROLLED for (i32 i = thread_index(); i < held.count; i += kThreads) {
          if (spots[i] != bin) continue;
          const u32 key = key_of(value_of_candidate(candidates[i]));
          least = key < least ? key : least, most = key > most ? key : most;
        }
        least = reduce_min(part.room(), least), most = reduce_max(part.room(), most);
        const u64 each_weighs = scope.weigh(value_of(most));
        if (least != most || (each_weighs == 0 && !by_count)) {
          return {Picked::crowded, {-1, 0.0f}, 0};
        }
        const u64 needed = by_count ? wanted - found[2] - 1 : (wanted - base - 1) / each_weighs;
        i32 id = 0, highest = vocab - 1;
        QUERN_ROLLED while (id < highest) {
          const i32 middle = (id + highest) / 2;
          u32 up_to = 0;
          QUERN_ROLLED for (i32 i = thread_index(); i < held.count; i += kThreads) {
            up_to += spots[i] == bin && token_of_candidate(candidates[i]) <= middle ? 1u : 0u;
          }
          const bool there_yet = u64{reduce_sum(part.room(), up_to)} > needed;
          id = there_yet ? id : middle + 1, highest = there_yet ? middle : highest;
        }
        left = base + (needed + 1) * each_weighs;
        if (step != Step::draw) continue;
        return {Picked::done, {id, value_of(most)}, left};
      }
    }
    list_bins(bin, last);
    const Ranked ranked = rank_few(part, scope, static_cast<i32>(number));
    if (few) return {Picked::done, choose_of_few(part, ranked, s, static_cast<i32>(number), held.random), 0};
    const u64 above = base + ranked.before, reached = above + ranked.weight;
    if (ranked.there && (by_count ? found[2] + ranked.rank + 1 == wanted : above < wanted && wanted <= reached))
      found[4] = ranked.place, found[5] = reached;
    sync_block();
    left = found[5];
    if (step == Step::draw) return {Picked::done, {index_at(found[4]), value_at(found[4])}, left};
  }
}

}  // namespace q
