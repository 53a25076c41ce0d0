// One pass over a row that is read again: its tokens are counted by fine bins of their logits, or what lies above some
// bands of logits is added up and what lies within is listed.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "sample/kernels/sm90/bins.cuh"

namespace q {

inline constexpr i32 kFine = 4096;
static_assert(kFine % kThreads == 0 && 2 * kFine * sizeof(u32) <= kFewCandidates * sizeof(u64));

// Bins of logits from `floor` to `high`, by their distance from `high`; what lies lower is in the last one. `pre` takes
// differences of tiny numbers to where they have a reciprocal, and huge ones to where they are finite.
struct Fine {
  f32 low, high, floor, pre, above, per, inverse;
  QUERN_DEVICE static Fine over(f32 low, f32 high, f32 floor) {
    const f32 pre = high - floor < 0x1p-60f ? 0x1p60f : high - floor < 0x1p100f ? 1.0f : 0x1p-20f;
    const f32 wide = high * pre - floor * pre;
    const f32 per = wide > 0.0f ? static_cast<f32>(kFine - 2) * rcp_approx(wide) : 0.0f;
    return {low, high, floor, pre, high * pre, per, per > 0.0f ? rcp_approx(per) : 0.0f};
  }
  QUERN_DEVICE u32 bin_of(f32 x) const {
    const u32 bin = bits_of(fma(fma(x, -pre, above), per, kMagic)) & (kFine - 1);  // of infinities the last
    return x >= floor ? bin : static_cast<u32>(kFine - 1);
  }
  QUERN_DEVICE f32 at(f32 bin) const { return high - bin * inverse * (1.0f / pre); }
  QUERN_DEVICE f32 middle(i32 bin) const { return bin == kFine - 1 ? floor : at(static_cast<f32>(bin)); }
};
// Logits from a bin to another: all of theirs, and some of their neighbours'.
struct Band {
  f32 low, high;
  QUERN_DEVICE static Band none() { return {nan(), infinity()}; }
  QUERN_DEVICE static Band of(const Fine& fine, u32 first, u32 last) {
    const f32 from = fine.at(static_cast<f32>(first) - 0.75f), to = fine.at(static_cast<f32>(last) + 0.75f);
    return {last >= static_cast<u32>(kFine - 2) ? fine.low : fmax(to, fine.low), first == 0 ? fine.high
                                                                                 : first == static_cast<u32>(kFine - 1)
                                                                                     ? fine.floor
                                                                                     : fmin(from, fine.high)};
  }
};
// What is looked for, one after the other: each among what the one before has left.
inline constexpr int kSteps = 3;

// What a thread, then the row, knows of a step's band.
struct BandSums {
  u64 above, inside;  // the weights of all that lies above it, and of its own
  u32 count_above;    // how many lie above it, for top_k alone
  f32 least, most;    // of its logits
};
struct Resolve {
  const SampleParams& p;
  const Row& row;
  const Part& part;
  const RowSums& sums;
  const Settings& s;
  f32 lowest;
  bool alone;
  u64 random;

  QUERN_DEVICE Scope scope() const { return {sums.max, sums.scale}; }
  QUERN_DEVICE bool counts() const { return s.top_k > 0 && s.top_k < p.vocab; }
  QUERN_DEVICE bool joint() const { return p.joint && counts() && s.top_p < 1.0f; }
  // The weight at which a step ends, where `left` weighs what the one before has left, and `all` all there is; 0: it
  // takes nothing away.
  QUERN_DEVICE u64 target(Step step, u64 left, u64 all) const {
    if (step == Step::draw) return scale_to(random, left) + 1;
    if (!(s.top_p < 1.0f)) return 0;
    const u64 wanted = share_of(s.top_p, alone ? sums.total : joint() ? all : left, false);
    return wanted > left || (wanted == left && !alone) ? 0 : wanted;
  }
};

// Counts the part's tokens by fine bins of [fine.low, fine.high], or adds up what lies above each band and lists what
// lies within.
inline constexpr int kAtOnce = 8;  // logits of a lane
enum class Pass : i32 {
  largest,  // finds own[0].most, of all
  count,
  bands
};
QUERN_DEVICE void read_again(const Resolve& r, Pass pass, const Fine& fine, const Band (&bands)[kSteps],
                             BandSums (&own)[kSteps], u64* all) {
  const Part& part = r.part;
  Desk& desk = *part.desk;
  const Scope scope = r.scope();
  u32* const bins = reinterpret_cast<u32*>(part.candidates);
  u32 asked = 0;
  QUERN_UNROLL for (int b = 0; b < kSteps; ++b) asked |= bands[b].low <= bands[b].high ? 1u << b : 0u;
  // Each warp has a run of chunks. One vector is being loaded while another is looked at; those after them are on their
  // way to L2. (More of them in registers would be waited for as they move up.)
  constexpr i32 kStride = kWarp * kVector, kSpan = kAtOnce / kVector, kAhead = 8;
  const i32 begin = (part.first + warp() * part.chunks / kWarps) * kChunk;
  const i32 end = (part.first + (warp() + 1) * part.chunks / kWarps) * kChunk;
  const i32 row_end = end < r.p.vocab ? end : r.p.vocab;
  const i32 limit = (r.p.vectors ? row_end : 0) - kVector;  // whole vectors begin up to here
  i32 at = begin + place_in_chunk(0);
  const Logit* from = r.row.logits + at;
  vec16 next[kSpan] = {};
  QUERN_UNROLL for (int v = 0; v < kSpan; ++v) {
    if (at + v * kStride <= limit) next[v] = load16(from + v * kStride);
  }
  QUERN_ROLLED for (; at - place_in_chunk(0) < end; at += kSpan * kStride, from += kSpan * kStride) {
    f32 x[kAtOnce];
    QUERN_UNROLL for (int v = 0; v < kSpan; ++v) {
      const vec16 raw = next[v];
      const i32 here = at + v * kStride, later = here + kSpan * kStride, ahead = here + kAhead * kStride;
      if (later <= limit) next[v] = load16(from + (v + kSpan) * kStride);
      if (ahead <= limit) prefetch_line(from + (v + kAhead) * kStride);
      f32 its[kVector];
      load_vector(r.p, r.row, part, here, here <= limit, raw, its);
      QUERN_UNROLL for (int e = 0; e < kVector; ++e) x[v * kVector + e] = its[e];
    }
    if (pass == Pass::largest) {
      QUERN_UNROLL for (int e = 0; e < kAtOnce; ++e) own[0].most = fmax(own[0].most, x[e]);
      continue;
    }
    if (pass == Pass::count) {
      QUERN_UNROLL for (int e = 0; e < kAtOnce; ++e) {
        if (x[e] >= fine.low && x[e] <= fine.high) atomic_add(bins + fine.bin_of(x[e]), 1u);
      }
      continue;
    }
    u64 weights[kAtOnce];
    QUERN_UNROLL for (int e = 0; e < kAtOnce; ++e) {
      weights[e] = scope.weigh(x[e]);
      if (x[e] >= r.lowest) *all += weights[e];
    }
    bool any = false;
    QUERN_UNROLL for (int b = 0; b < kSteps; ++b) {
      if ((asked >> b & 1) == 0) continue;
      QUERN_UNROLL for (int e = 0; e < kAtOnce; ++e) {
        const bool above = x[e] > bands[b].high;
        if (above) own[b].above += weights[e];
        if (b == 0 && above) ++own[b].count_above;
        any |= x[e] >= bands[b].low && !above;
      }
    }
    if (ballot(any) == 0) continue;
    u32 numbers = 0, listed = 0;  // of each step; elements of any
    QUERN_UNROLL for (int b = 0; b < kSteps; ++b) {
      if ((asked >> b & 1) == 0) continue;
      QUERN_UNROLL for (int e = 0; e < kAtOnce; ++e) {
        if (!(x[e] >= bands[b].low && x[e] <= bands[b].high)) continue;
        own[b].inside += weights[e];
        own[b].least = fmin(own[b].least, x[e]), own[b].most = fmax(own[b].most, x[e]);
        numbers += 1u << (10 * b), listed |= 1u << e;
      }
    }
    numbers = warp_total(numbers);
    if (lane() == 0) {
      u32* const of_chunk = reinterpret_cast<u32*>(part.stats + at / kChunk);
      atomic_add(of_chunk, (numbers & 1023u) | (numbers >> 10 & 1023u) << 16);
      atomic_add(of_chunk + 1, numbers >> 20);
    }
    if (ballot(load_volatile(&desk.held) <= static_cast<u32>(part.most)) == 0) continue;
    const u32 number = popcount(listed), through = static_cast<u32>(warp_through(number));
    u32 to = 0;
    if (lane() == kWarp - 1) to = atomic_add(&desk.held, through);
    to = shuffle(to, kWarp - 1) + through - number;
    QUERN_UNROLL for (int e = 0; e < kAtOnce; ++e) {
      if ((listed >> e & 1) == 0) continue;
      if (to < static_cast<u32>(part.most))
        part.candidates[to] = to_candidate(x[e], at + e / kVector * kStride + e % kVector);
      ++to;
    }
  }
}

}  // namespace q
