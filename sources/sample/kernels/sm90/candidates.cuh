// A block's part of a row streams by once. What may stay is kept in shared memory, as candidates; of the rest remain
// what each chunk comes to, and the logits that lists name.
//
// What may stay lies above a bound. The first chunk of each warp, and they lie far apart, tells it: the n-th of the
// largest logits of pairs of lanes. For top_k and for a share of the weight that is a guess, which whoever searches the
// candidates has to check; for min_p the bound follows the largest logit so far.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "sample/kernels/sm90/desk.cuh"

namespace q {

// The bound that a `share` of the row's tokens reach: which of the pairs of lanes has it, if each looks at so many
// vectors. Fewer where the share is large, so that not all pairs reach it.
struct Guess {
  u32 nth;
  i32 loads;
};
QUERN_DEVICE Guess guess_of_share(const Part& part, f32 share) {
  const i32 chunks = part.chunks < kWarps ? part.chunks : kWarps, pairs = chunks * (kWarp / 2);
  i32 loads = kLoads;
  QUERN_ROLLED while (true) {
    const f32 reach =
        static_cast<f32>(pairs) * (1.0f - exp_of_minus(at_most(static_cast<f32>(2 * kVector * loads) * share, 100.0f)));
    const u32 nth = 1 + static_cast<u32>(reach);
    if (nth < static_cast<u32>(pairs - pairs / 16)) return {nth, loads};
    if (loads == 1) return {0, 1};
    loads /= 2;
  }
}

// The bound, as a place. All threads; `top`: this lane's largest logit, `last`: an id that the row's chunk does not
// pass.
QUERN_DEVICE Place find_bound(const Part& part, const Wanted& wanted, f32 top, i32 last) {
  Desk& desk = *part.desk;
  Place own = top > -infinity() ? place_of(top, last) : Place{0};
  const Place other = shuffle_xor(own, 1);
  own = other > own ? other : own;
  if ((lane() & 1) == 0) desk.few[thread_index() / 2] = own;
  sync_block();
  if (wanted.nth != 0) {
    const Place mine = desk.few[thread_index() / 2];
    u32 no_lower = 0;
    const i32 from = (thread_index() & 1) * (kPairs / 2);
    QUERN_FOUR_AT_ONCE for (i32 i = 0; i < kPairs / 2; i += 2) {
      const vec16 two = load16(desk.few + from + i);
      no_lower += (static_cast<u64>(two.x[1]) << 32 | two.x[0]) >= mine ? 1u : 0u;
      no_lower += (static_cast<u64>(two.x[3]) << 32 | two.x[2]) >= mine ? 1u : 0u;
    }
    no_lower += shuffle_xor(no_lower, 1);
    // Of the places that are no larger than the n-th largest the largest is that.
    const Place largest = warp_max(no_lower >= wanted.nth ? mine : Place{0});
    if (lane() == 0 && largest != 0) atomic_max(&desk.bound, largest);
  }
  if (wanted.drop > -infinity()) {
    u32 key = 0;
    QUERN_ROLLED for (i32 i = lane(); i < kPairs; i += kWarp) {
      const u32 its = key_at(desk.few[i]);
      key = its > key ? its : key;
    }
    key = warp_max(key);
    if (thread_index() == 0 && key > kDead) atomic_max(&desk.bound, place_of(value_of(key) + wanted.drop, 0x7fffffff));
  }
  sync_block();
  const Place bound = shuffle(desk.bound, 0);  // other warps may raise it already: one of them for all lanes
  return is_token(bound) ? bound : place_of(value_of(kDead + 1), 0x7fffffff);
}

// Whether far more pairs have a logit that reaches the bound than it was made for: many are equal.
QUERN_DEVICE bool is_crowded(const Part& part, const Wanted& wanted, f32 from) {
  u32 reach = 0;
  QUERN_ROLLED for (i32 i = lane(); i < kPairs; i += kWarp) reach += value_at(part.desk->few[i]) >= from ? 1u : 0u;
  return warp_total(reach) > wanted.nth + kPairs / 8;
}

// Edits a chunk; of the named tokens -inf stays.
QUERN_DEVICE void edit_part_chunk(const SampleParams& p, const Row& row, const Part& part, i32 c, f32 (&x)[kEach]) {
  if constexpr (kEdits)
    edit_chunk(p, row, (part.first + c) * kChunk, part.names() ? part.named.marks + c * kGroups : nullptr, x);
}
QUERN_DEVICE bool is_marked(const u32* marks, i32 at) { return kEdits && marks && bit_at(marks, at); }

// ---- What a warp keeps. Candidates have a bit where they have been edited already, though the others wait.
inline constexpr u32 kEditedBit = 1u << 31;
struct Gate {
  f32 from;     // logits from here on
  i32 ties;     // behind this token it is not enough to be equal to the bound
  u32 kept;     // since the bound was last changed
  bool strict;  // equality is not enough
};
struct Chunk {
  f32 x[kEach];
};

// What functions that are compiled once need of a part: a reference would put the part into memory.
struct Keep {
  u64* candidates;
  u32* held;
  u32 most;
  const u32* marks;  // of the chunk; null where nothing is named
  bool late, known;  // known: what is
};
QUERN_DEVICE Keep keep_of(const Part& part, i32 begin, bool late) {
  const bool known = part.desk->plan.named;
  const u32* const marks = part.names() && known ? part.named.marks + (begin - part.named.begin) / kGroup : nullptr;
  return {part.candidates, &part.desk->held, static_cast<u32>(part.most), marks, late, known};
}

// Where many tokens of a chunk are equal to the bound: the first of them are enough.
QUERN_CALLED Gate keep_ties(Row row, Keep keep, Chunk chunk, i32 begin, Gate gate, u32 enough) {
  keep.candidates = in_shared(keep.candidates), keep.held = in_shared(keep.held);
  QUERN_ROLLED for (i32 i = 0; i < kEach; ++i) {
    const i32 at_place = place_in_chunk(i / kVector) + i % kVector, token = begin + at_place;
    f32 x = chunk.x[i];
    const bool later = keep.late && x >= gate.from && (!keep.known || is_marked(keep.marks, at_place));
    if (keep.late && x >= gate.from && !later) x = edit(row, token, x);
    const u64 all = ballot(x >= gate.from), counted = ballot(x >= gate.from && !later);
    const u32 number = static_cast<u32>(popcount(all));
    if (number != 0) {
      u32 at = 0;
      if (lane() == 0) at = atomic_add(keep.held, number);
      at = shuffle(at, 0) + static_cast<u32>(popcount(all & ((u64{1} << lane()) - 1)));
      if (x >= gate.from && at < keep.most)
        keep.candidates[at] =
            to_candidate(x, keep.late && !later ? static_cast<i32>(static_cast<u32>(token) | kEditedBit) : token);
      gate.kept += static_cast<u32>(popcount(counted));
    }
    if (i % kVector == kVector - 1 && !gate.strict && gate.kept >= enough)
      gate.strict = true, gate.from = value_of(key_of(gate.from) + 1);
  }
  return gate;
}

// Moves the gate as far as `max`, this lane's largest logit of a chunk, and what has been kept allow. Whether any lane
// has one that reaches it. All lanes.
QUERN_DEVICE bool reaches_gate(const Part& part, f32 max, i32 begin, const Wanted& wanted, Gate* gate) {
  if (ballot(max >= gate->from) == 0) return false;
  if (wanted.drop > -infinity()) {
    // The bound follows the largest logit that any warp has met.
    const f32 top = value_of(warp_max(key_of(max))) + wanted.drop;
    const Place others = load_volatile(&part.desk->bound), mine = place_of(top, 0x7fffffff);
    const u64 highest = shuffle(others, 0);
    if (mine > highest && lane() == 0) atomic_max(&part.desk->bound, mine);
    const Place bound = mine > highest ? mine : highest;
    if (value_at(bound) > gate->from) *gate = {value_at(bound), index_at(bound), 0, false};
  }
  if (wanted.enough != 0 && !gate->strict && (gate->kept >= wanted.enough || begin > gate->ties))
    gate->strict = true, gate->from = value_of(key_of(gate->from) + 1);
  return ballot(max >= gate->from) != 0;
}
// Keeps those of a chunk that reach the gate; `max`: this lane's largest. All lanes.
QUERN_DEVICE void keep_chunk(const Row& row, const Part& part, const f32 (&x)[kEach], f32 max, i32 begin,
                             const Wanted& wanted, bool late, Gate* gate) {
  const u32 room = static_cast<u32>(part.most);
  const f32 from = gate->from;
  const u64 lanes = ballot(max >= from);
  if (popcount(lanes) <= 4) {
    if (!late) gate->kept += static_cast<u32>(popcount(lanes));
    if (!(max >= from)) return;
    QUERN_UNROLL for (int j = 0; j < kLoads; ++j) {
      f32 most = x[j * kVector];
      QUERN_UNROLL for (int e = 1; e < kVector; ++e) most = fmax(most, x[j * kVector + e]);
      if (!(most >= from)) continue;
      QUERN_UNROLL for (int e = 0; e < kVector; ++e) {
        if (!(x[j * kVector + e] >= from)) continue;
        const u32 at = atomic_add(&part.desk->held, 1u);
        if (at < room) part.candidates[at] = to_candidate(x[j * kVector + e], begin + place_in_chunk(j) + e);
      }
    }
    return;
  }
  u32 own = 0;
  QUERN_UNROLL for (int i = 0; i < kEach; ++i) own += x[i] >= from ? 1u : 0u;
  const u32 through = warp_scan(own), total = shuffle(through, kWarp - 1);
  if (wanted.enough != 0 && !gate->strict && total > wanted.enough + kChunk / 8) {
    Chunk chunk;
    QUERN_UNROLL for (int i = 0; i < kEach; ++i) chunk.x[i] = x[i];
    *gate = keep_ties(row, keep_of(part, begin, late), chunk, begin, *gate, wanted.enough);
    return;
  }
  u32 at = 0;
  if (lane() == 0) at = atomic_add(&part.desk->held, total);
  at = shuffle(at, 0);
  if (at + total > room) {
    gate->from = infinity(), gate->strict = true;  // there is no room, and more of them are of no use
    return;
  }
  if (!late) gate->kept += total;
  u64* to = part.candidates + (at + through - own);
  QUERN_UNROLL for (int i = 0; i < kEach; ++i) {
    if (x[i] >= from) *to++ = to_candidate(x[i], begin + place_in_chunk(i / kVector) + i % kVector);
  }
}

// What stream_part() makes of a chunk with a NaN or an infinity in it, or with nothing; `local`: its place in the part.
// What is banned is passed over.
QUERN_CALLED f32 weigh_odd_chunk(Named named, Chunk chunk, i32 local, f32 max, f32 scale, bool weigh, bool* nan) {
  if constexpr (kEdits) {
    named = named.there();
    QUERN_ROLLED for (i32 i = 0; i < kEach; ++i) {
      const i32 at = local + place_in_chunk(i / kVector) + i % kVector;
      if (chunk.x[i] == chunk.x[i] || !named.marks || (named.bits_at(at) & 1) == 0) continue;
      if ((named.words[named.rank_of(at)] & kBannedBit) != 0) chunk.x[i] = -infinity();
    }
  }
  *nan = take_nan_out(chunk.x);
  return weigh && max > -infinity() ? warp_sum(sum_of_shares(chunk.x, max, scale)) : 0.0f;
}

// Chunks of a warp that are on their way, each in its place of shared memory: every lane copies what it will look at,
// so that it waits for nobody.
struct Ahead {
  static constexpr bool kThere = kAheadBytes != 0;
  static constexpr i32 kDepth = kThere ? kAheadBytes / (kWarps * kChunk * static_cast<i32>(sizeof(Logit))) : 1;
  static_assert(kDepth >= 1);
  static constexpr i32 kStep = kWarp * kVector;
  const SampleParams& p;
  const Logit* logits;  // the row's, from this lane's place in a chunk on
  Logit* places;        // [kDepth][kChunk], likewise

  QUERN_DEVICE Ahead(const SampleParams& params, const Row& row, const Part& part)
      : p(params),
        logits(row.logits + place_in_chunk(0)),
        places(reinterpret_cast<Logit*>(part.ahead) + warp() * (kDepth * kChunk) + place_in_chunk(0)) {}
  QUERN_DEVICE bool comes(i32 first) const { return kThere && p.vectors && first + kChunk <= p.vocab; }
  // Begins to copy the chunk from `first` on, as one group of this thread's copies; nothing where it is not `there`.
  QUERN_DEVICE void begin(i32 first, i32 slot, bool there) const {
    if (there && comes(first)) {
      QUERN_UNROLL for (int j = 0; j < kLoads; ++j) {
        copy_async_16(places + slot * kChunk + j * kStep, logits + first + j * kStep, true);
      }
    }
    copy_async_commit();
  }
  // The chunk that was begun kDepth chunks ago.
  QUERN_DEVICE void take(const Row& row, i32 first, i32 slot, f32 (&x)[kEach]) const {
    copy_async_wait<kDepth - 1>();
    if (!comes(first)) {
      load_chunk(row, first, p.vocab, !kThere && p.vectors, x);
      return;
    }
    vec16 raw[kLoads];
    QUERN_UNROLL for (int j = 0; j < kLoads; ++j) raw[j] = load16(places + slot * kChunk + j * kStep);
    widen_loads(raw, x);
  }
};

// Streams the part. prepare() leaves the plan on the desk while the first chunk comes; all threads, and it ends with a
// barrier. Each warp has a run of chunks, and takes the first of them twice: for the bound, which is of edited logits,
// and for good. Candidates are on the desk in the end, and what the chunks come to where weights are asked for;
// *largest: this lane's largest logit, which is raw where edits wait. True in a lane that met a NaN.
// name() is called by all threads where it matters early what tokens lists name.
template <class F, class G>
QUERN_DEVICE bool stream_part(const SampleParams& p, const Row& row, const Part& part, f32* largest, F prepare,
                              G name) {
  const i32 chunks = row.logits ? part.chunks : 0;
  const i32 begin = warp() * chunks / kWarps, end = (warp() + 1) * chunks / kWarps;
  const Ahead ahead(p, row, part);
  i32 slot = 0;
  QUERN_UNROLL for (i32 c = 0; c < Ahead::kDepth; ++c) {
    ahead.begin((part.first + begin + c) * kChunk, c, begin + c < end);
  }
  prepare();
  const Plan& plan = part.desk->plan;  // read where it is needed: registers are scarce
  const Wanted& wanted = plan.wanted;
  Gate gate{infinity(), 0x7fffffff, 0, false};
  bool any_nan = false;
  f32 most = -infinity();
  QUERN_ROLLED for (i32 step = begin - 1; step == begin - 1 || step < end; ++step) {
    const bool bounds = step < begin, there = begin < end;
    if (bounds && wanted.none) continue;
    const i32 c = bounds ? begin : step, first = (part.first + c) * kChunk;
    f32 x[kEach];
    if (there) {
      ahead.take(row, first, slot, x);
      if (kEdits && !plan.late) edit_part_chunk(p, row, part, c, x);
    } else {
      QUERN_UNROLL for (int i = 0; i < kEach; ++i) x[i] = -infinity();
    }
    if (bounds) {
      f32 top = -infinity();
      QUERN_UNROLL for (int i = 0; i < kEach; ++i) top = i / kVector < wanted.loads ? fmax(top, x[i]) : top;
      const Place bound = find_bound(part, wanted, top, first + kChunk - 1);
      gate.from = value_at(bound), gate.ties = index_at(bound);
      if (kEdits && !plan.named && is_crowded(part, wanted, gate.from)) name();
      continue;
    }
    f32 chains[4] = {-infinity(), -infinity(), -infinity(), -infinity()}, sum = 0.0f;
    QUERN_UNROLL for (int i = 0; i < kEach; ++i) chains[i % 4] = fmax(chains[i % 4], x[i]);  // NaN is passed over
    f32 max = fmax(fmax(chains[0], chains[1]), fmax(chains[2], chains[3]));
    most = fmax(most, max);
    // Its place has been read: another chunk may come there.
    ahead.begin(first + Ahead::kDepth * kChunk, slot, step + Ahead::kDepth < end);
    slot = slot + 1 < Ahead::kDepth ? slot + 1 : 0;
    if (!wanted.none && reaches_gate(part, max, first, wanted, &gate))
      keep_chunk(row, part, x, max, first, wanted, plan.late, &gate);
    bool odd = false;
    if (plan.weigh) {
      // What sum_of_shares() makes of ordinary numbers, and NaN where there is one.
      max = value_of(warp_max(key_of(max)));
      QUERN_UNROLL for (int i = 0; i < kEach; ++i) sum += exp2((x[i] - max) * plan.scale);
      sum = warp_sum(sum);
      odd = sum != sum || !(max > -infinity());
    } else if (plan.nans) {
      QUERN_UNROLL for (int i = 0; i < kEach; ++i) sum += x[i];
      odd = ballot(sum != sum) != 0;
    }
    if (odd) {
      Chunk chunk;
      QUERN_UNROLL for (int i = 0; i < kEach; ++i) chunk.x[i] = x[i];
      bool nan;
      Named named = part.named;
      if (!part.names() || !plan.named) named.marks = nullptr;
      sum = weigh_odd_chunk(named, chunk, c * kChunk, max, plan.scale, plan.weigh, &nan);
      any_nan |= nan;
    }
    if (plan.weigh && lane() == 0) part.stats[part.first + c] = static_cast<u64>(bits_of(sum)) << 32 | bits_of(max);
  }
  *largest = most;
  return any_nan;
}

// In the first block: the other blocks' candidates behind its own, and *bound, the highest of all. How many there are;
// -1: a block had no room for its own, or there is none for all.
QUERN_DEVICE i32 gather_candidates(const Part& part, Place* bound) {
  Desk& desk = *part.desk;
  Place highest = 0;
  each_block(part.blocks, &desk.bound, [&](i32, u64 its) { highest = its > highest ? its : highest; });
  *bound = highest;
  u32 all = 0;
  bool complete = true;
  QUERN_ROLLED for (i32 r = 0; r < part.blocks; ++r) {
    const u32 number = of_block(&desk.held, r);
    complete = complete && number <= static_cast<u32>(part.most) && all + number <= static_cast<u32>(part.most);
    if (r != 0 && complete) {
      QUERN_FOUR_AT_ONCE for (u32 i = static_cast<u32>(thread_index()); i < number; i += kThreads) {
        part.candidates[all + i] = of_block(part.candidates + i, r);
      }
    }
    all += number;
  }
  sync_block();
  return complete ? static_cast<i32>(all) : -1;
}

}  // namespace q
