// The choice among candidates, where they are spread: they are sorted by bins of their logits' distance from the
// largest, and only the bins that top_k, top_p and the draw end in are put in order.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "sample/kernels/sm90/bins.cuh"

namespace q {

struct RowSums {
  f32 max, scale;
  u64 total;  // of the weights, where they were asked for
};

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
// What has to be known of candidates.
struct Held {
  i32 count;    // in the first block, of which those below the bound, or below `least`, do not count
  Place bound;  // all tokens from here on are there
  f32 least;
  u32 enough;  // 0: all there are
  // Where this is not 0, the token is asked for at which the sum of the weights reaches it, among those of `from` to
  // `to` alone.
  u64 wanted;
  f32 from, to;
};
enum class Picked : i32 {
  done,
  short_of,  // they do not reach as far as is asked for
  crowded    // too many of them lie close together
};
// What the choice works with.
struct Pick {
  Held held;
  RowSums sums;
  Settings settings;
  bool alone;
  i32 vocab;
  u64 random;
  u64* candidates;
  u8* work;
  Desk* desk;
  QUERN_DEVICE Room room() const {
    Room r{};
    r.scratch = desk->scratch;
    return r;
  }
};
struct PickedToken {
  Picked picked;
  Choice choice;
  u64 left;  // what tokens weigh together down to this one, where `wanted` asks for it
};
QUERN_DEVICE Pick pick_of(const SampleParams& p, const Part& part, const Held& held, const RowSums& sums,
                          const Settings& s, bool alone, const Stream& stream) {
  return {held, sums, s, alone, p.vocab, wide(stream.of_row()), part.candidates, part.work, part.desk};
}

// In the first block.
QUERN_DEVICE PickedToken pick(const Pick& part) {
  const Held held = part.held;
  const RowSums sums = part.sums;
  const Settings s = part.settings;
  const bool alone = part.alone;
  Desk& desk = *part.desk;
  u64* const scratch = desk.scratch;
  u32* const ends = reinterpret_cast<u32*>(part.work);
  u16* const order = reinterpret_cast<u16*>(part.work + kSpots * 4);
  static_assert(kSpots == kOwnBins * kThreads && div_up(kCandidates, kThreads) <= kWarp);
  const bool asked = held.wanted != 0, counts = !asked && s.top_k > 0 && s.top_k < part.vocab;
  const Scope scope{sums.max, sums.scale, 0.0f, -infinity(), -infinity()};
  // Beyond so many powers of 2 a token weighs nothing.
  f32 lowest = fmax(sums.max - 41.0f * rcp_approx(sums.scale), held.least);
  if (is_token(held.bound)) lowest = fmax(lowest, value_at(held.bound));
  const Spread spread = asked ? Spread::over(held.to, held.from, kSpots) : Spread::over(sums.max, lowest, kSpots);
  const auto is_in = [&](f32 x) { return asked ? x >= held.from && x <= held.to : x > -infinity(); };

  bins_zero<kThreads>(ends, kSpots);
  u64* const told = desk.bins[0];
  if (thread_index() == 0) told[0] = 0, desk.listed[0] = 0;
  sync_block();
  QUERN_ROLLED for (i32 i = thread_index(); i < held.count; i += kThreads) {
    const u64 candidate = part.candidates[i];
    const f32 x = value_of_candidate(candidate);
    if (place_of_candidate(candidate) < held.bound || !(x >= held.least)) {
      part.candidates[i] = to_candidate(-infinity(), 0);
    } else if (is_in(x)) {
      atomic_add(ends + spread.bin_of(x), 1u);
    }
  }
  sync_block();
  u32 in[kOwnBins], sum = 0;
  QUERN_UNROLL for (int i = 0; i < kOwnBins; ++i) sum += in[i] = ends[kOwnBins * thread_index() + i];
  u32 begin = static_cast<u32>(sum_before(scratch, sum));
  const i32 total = static_cast<i32>(scratch[kThreads / kWarp]);
  const u32 k = static_cast<u32>(s.top_k);
  const bool cuts = counts && s.top_k <= total;
  QUERN_UNROLL for (int i = 0; i < kOwnBins; ++i) {
    ends[kOwnBins * thread_index() + i] = begin;
    if (cuts && begin < k && k <= begin + in[i]) told[0] = begin + in[i];
    begin += in[i];
  }
  sync_block();
  if (total == 0 || (held.enough != 0 && is_token(held.bound) && value_at(held.bound) > held.least &&
                     static_cast<u32>(total) < held.enough)) {
    return {Picked::short_of, {-1, 0.0f}, 0};
  }
  // Those that are few are put in order at once.
  const i32 all = cuts ? static_cast<i32>(told[0]) : total;
  const bool few = !alone && !asked && all <= kSegment;
  QUERN_ROLLED for (i32 i = thread_index(); i < held.count; i += kThreads) {
    const u64 candidate = part.candidates[i];
    const f32 x = value_of_candidate(candidate);
    if (!is_in(x)) continue;
    const u32 at = atomic_add(ends + spread.bin_of(x), 1u);
    if (!few) {
      order[at] = static_cast<u16>(i);
    } else if (at < static_cast<u32>(all)) {
      desk.few[at] = place_of_candidate(candidate);
    }
  }
  sync_block();
  if (few) return {Picked::done, choose_of_few(part, rank_few(part, scope, all), s, all, part.random), 0};

  // Each thread has a run of the line on which they stand, bin by bin.
  const i32 each = div_up(total, kThreads), run = thread_index() * each;
  const auto weigh_at = [&](i32 at) { return scope.weigh(value_of_candidate(part.candidates[order[at]])); };
  u64 own = 0;
  QUERN_ROLLED for (i32 at = run; at < run + each && at < total; ++at) own += weigh_at(at);
  const u64 before = sum_before(scratch, own);
  u64 left = scratch[kThreads / kWarp];
  enum class Step : i32 { top_k, top_p, draw };
  QUERN_ROLLED for (Step step = asked ? Step::draw : Step::top_k;;
                    step = step == Step::top_k ? Step::top_p : Step::draw) {
    u64 wanted = k;
    if (step == Step::top_k) {
      if (!cuts) continue;
    } else if (step == Step::top_p) {
      wanted = share_of(s.top_p, alone ? sums.total : left, false);
      if (!(s.top_p < 1.0f) || (wanted >= left && !alone)) continue;
      if (wanted > left) {
        return {Picked::short_of, {-1, 0.0f}, 0};
      }
    } else if (asked) {
      wanted = held.wanted;
      if (wanted > left) {
        return {Picked::short_of, {-1, 0.0f}, 0};
      }
    } else {
      wanted = scale_to(part.random, left) + 1;
    }
    // The thread that has it, then all warps its token on the line.
    const i32 nth = step == Step::top_k ? static_cast<i32>(k) - 1 : -1;
    u64* const found = desk.bins[step == Step::top_p ? 1 : 0];
    if (nth >= 0 ? run <= nth && nth < run + each : before < wanted && wanted <= before + own)
      found[0] = static_cast<u64>(run), found[1] = before;
    sync_block();
    const i32 at = static_cast<i32>(found[0]) + lane();
    const bool there = lane() < each && at < total;
    const u64 weight = there ? weigh_at(at) : u64{0}, through = found[1] + warp_scan(weight);
    const u64 hits = ballot(there && (nth >= 0 ? at == nth : through - weight < wanted && wanted <= through));
    const int leader = hits != 0 ? static_cast<int>(trailing_zeros(hits)) : 0;
    const i32 place = shuffle(at, leader);
    const u64 below = shuffle(through - weight, leader);
    const u32 bin = spread.bin_of(value_of_candidate(part.candidates[order[place]]));
    const i32 from = bin != 0 ? static_cast<i32>(ends[bin - 1]) : 0, number = static_cast<i32>(ends[bin]) - from;
    if (number > kSegment) {
      // Too many to be ranked; but if all are equal their ids are their order.
      const f32 x = value_of_candidate(part.candidates[order[place]]);
      const u64 each_weighs = scope.weigh(x), base = below - each_weighs * static_cast<u64>(place - from);
      u32 differs = each_weighs == 0 ? 1u : 0u;
      QUERN_ROLLED for (i32 i = from + thread_index(); i < from + number; i += kThreads) {
        differs |= value_of_candidate(part.candidates[order[i]]) != x ? 1u : 0u;
      }
      if (reduce_max(part.room(), differs) != 0) {
        return {Picked::crowded, {-1, 0.0f}, 0};
      }
      const u64 needed = nth >= 0 ? static_cast<u64>(nth - from) : (wanted - base - 1) / each_weighs;
      i32 least = 0, most = part.vocab - 1;
      QUERN_ROLLED while (least < most) {
        const i32 middle = (least + most) / 2;
        u32 up_to = 0;
        QUERN_ROLLED for (i32 i = from + thread_index(); i < from + number; i += kThreads) {
          up_to += token_of_candidate(part.candidates[order[i]]) <= middle ? 1u : 0u;
        }
        const bool there_yet = u64{reduce_sum(part.room(), up_to)} > needed;
        least = there_yet ? least : middle + 1, most = there_yet ? middle : most;
      }
      left = base + (needed + 1) * each_weighs;
      if (step != Step::draw) continue;
      return {Picked::done, {least, x}, left};
    }
    // The bin's tokens, and what comes before them.
    u64 base = 0;
    if (thread_index() < number) {
      const u64 candidate = part.candidates[order[from + thread_index()]];
      desk.few[thread_index()] = place_of_candidate(candidate);
      if (from + thread_index() < place) base = scope.weigh(value_of_candidate(candidate));
    }
    base = below - reduce_sum(part.room(), base);
    const Ranked ranked = rank_few(part, scope, number);
    const u64 above = base + ranked.before, reached = above + ranked.weight;
    if (ranked.there && (nth >= 0 ? from + static_cast<i32>(ranked.rank) == nth : above < wanted && wanted <= reached))
      found[2] = ranked.place, found[3] = reached;
    sync_block();
    left = found[3];
    if (step == Step::draw) return {Picked::done, {index_at(found[2]), value_at(found[2])}, left};
  }
}

}  // namespace q
