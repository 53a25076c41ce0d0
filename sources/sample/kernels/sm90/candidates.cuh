// A block's part of a row streams by once. What may stay is kept in shared memory, as candidates; of the rest remain
// what each chunk comes to, where that is asked for.
//
// What may stay lies above a bound. The first chunk of each warp, and they lie far apart, tells it: the n-th of the
// largest logits of pairs of lanes. For top_k and for a share of the weight that is a guess, which whoever searches the
// candidates has to check; for min_p the bound follows the largest logit so far.
//
// Edits that only lower logits wait until a raw logit has reached the bound: few do. Then masks are applied to its
// vector, and a token that lists name is set aside. Where edits may raise a logit, or all logits are summed up, the
// stream edits each chunk as it comes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "sample/kernels/sm90/blocks.cuh"
#include "sample/kernels/sm90/named.cuh"

namespace q {

inline constexpr i32 kPairs = kThreads / 2, kPairTokens = 2 * kEach;
inline constexpr u32 kOfVector = (1u << kVector) - 1, kAllLoads = (1u << kLoads) - 1;

// What a block has at the beginning of its shared memory.
struct Desk {
  u64 scratch[kWarps + 2];
  u64 few[kSegment], weights[kSegment];
  u64 found[4], token[2];  // what has been found
  u64 bound;
  u32 held, more;  // candidates, beyond their end, too: this block's, and in the first block those of others
  u32 aside;       // named tokens that reached the bound, likewise
  u32 reaching;    // in the first block: how many candidates reach the highest bound
  u32 listed;      // tokens on the list, beyond its end, too
  u32 nan, top;    // of the part: whether there is one; the key of the largest logit that was kept
  u32 low;         // complement of the key of the least logit in the first chunks
  u32 named;       // tokens of the part whose logits are settled
  u32 verdict;     // enum Verdict, from the first block
  f32 max, least;  // of the row, likewise
  u64 total;
};

// The block's part of the row under way, and where things lie in dynamic shared memory.
struct Part {
  i32 rank, blocks;   // this block among those of the cluster
  i32 first, chunks;  // of the row's
  i32 all;            // chunks of the row
  i32 most;           // candidates that there is room for
  Place* candidates;
  u64* stats;  // [all] of the row's chunks, without what lists name
  u8* work;    // histogram and list, or weights of chunks
  i32* aside;  // [kAside]
  Named named;
  bool has_names;
  Desk* desk;

  QUERN_DEVICE bool names() const { return kEdits && has_names; }
  QUERN_DEVICE i32 begin() const { return first * kChunk; }
  QUERN_DEVICE Room room() const {
    Room r{};
    r.scratch = desk->scratch;
    return r;
  }
};

static_assert(sizeof(Desk) <= kDesk);

QUERN_DEVICE Part part_of(const SampleParams& p) {
  Part part{};
  part.rank = static_cast<i32>(cluster_rank()), part.blocks = static_cast<i32>(cluster_size());
  part.all = p.chunks;
  part.first = part.rank * p.chunks_per_block;
  const i32 rest = p.chunks - part.first;
  part.chunks = rest < 0 ? 0 : rest < p.chunks_per_block ? rest : p.chunks_per_block;
  const FilterRoom room = filter_room(p.chunks, p.chunks_per_block, p.slots);
  u8* const shared = dynamic_shared();
  part.most = room.candidates;
  part.candidates = reinterpret_cast<Place*>(shared + room.held);
  part.work = shared + room.work;
  part.stats = reinterpret_cast<u64*>(shared + room.stats);
  part.aside = reinterpret_cast<i32*>(shared + room.aside);
  part.named.marks = reinterpret_cast<u32*>(shared + room.marks);
  part.named.before = reinterpret_cast<u16*>(shared + room.before);
  part.named.words = reinterpret_cast<u32*>(shared + room.named);
  part.named.values = reinterpret_cast<f32*>(shared + room.values);
  part.named.begin = part.begin(), part.named.chunks = part.chunks;
  part.has_names = p.slots != 0;
  part.desk = reinterpret_cast<Desk*>(shared);
  return part;
}

// ---- A lane's vector of the row, from `token` on
QUERN_DEVICE bool comes_whole(const SampleParams& p, i32 token) { return p.vectors && token + kVector <= p.vocab; }
QUERN_DEVICE void widen(const vec16& raw, f32* x) {
  QUERN_UNROLL for (int w = 0; w < 4; ++w) {
    if constexpr (sizeof(Logit) == 4) {
      x[w] = f32_of(raw.x[w]);
    } else {
      const f32x2 pair = unpack<Logit>(raw.x[w]);
      x[2 * w] = pair.x, x[2 * w + 1] = pair.y;
    }
  }
}
// `raw` is what lies there, where the vector comes whole. -inf behind the row's end.
QUERN_DEVICE void widen_vector(const SampleParams& p, const Row& row, i32 token, const vec16& raw, f32 (&x)[kVector]) {
  if (comes_whole(p, token)) {
    widen(raw, x);
  } else {
    QUERN_UNROLL for (int e = 0; e < kVector; ++e) x[e] =
        token + e < p.vocab ? to_f32(row.logits[token + e]) : -infinity();
  }
}
// Penalties and masks; what is out becomes -inf, NaN stays. Tokens that lists name stay raw: their bits.
QUERN_DEVICE u32 edit_alone(const SampleParams& p, const Row& row, const Part& part, i32 token, f32 (&x)[kVector]) {
  if (!kEdits || token >= p.vocab) return 0;
  const i32 word = token >> 5, bit = token & 31;
  const u32 named = part.names() ? part.named.bits_at(token - part.begin()) & kOfVector : 0u;
  const u32 in = row.allowed ? row.allowed[word] >> bit | named : ~0u;
  const u32 repeated = row.prompt_mask ? row.prompt_mask[word] >> bit & ~named : 0u;
  const u32 skipped = ~in | named;
  if (row.counts || (repeated & kOfVector) != 0 || (~in & kOfVector) != 0) {
    // The first one is edited and the others move up, so that each is in a register.
    QUERN_ROLLED for (int e = 0; e < kVector; ++e) {
      f32 own = x[0];
      const bool counts = row.counts && token + e < p.vocab && (skipped >> e & 1) == 0;
      own = penalise(row, own, (repeated >> e & 1) != 0, counts ? row.counts[token + e] : 0);
      if ((in >> e & 1) == 0) own = -infinity();
      QUERN_UNROLL for (int m = 1; m < kVector; ++m) x[m - 1] = x[m];
      x[kVector - 1] = own;
    }
  }
  return named;
}
QUERN_DEVICE u32 load_vector(const SampleParams& p, const Row& row, const Part& part, i32 token, f32 (&x)[kVector]) {
  widen_vector(p, row, token, comes_whole(p, token) ? load16(row.logits + token) : vec16{}, x);
  return edit_alone(p, row, part, token, x);
}

// ---- The bound
// Which tokens are worth keeping.
struct Wanted {
  bool none;   // no candidates
  u32 nth;     // the bound is this one of the pairs' largest; 0: there is none
  u32 enough;  // so many tokens from the bound on make what follows needless; 0: all of them count
  f32 drop;    // <= 0: nor is what lies further below the largest. -inf: no bound
};
// How many of the pairs have a token among the `share` of the row's largest.
QUERN_DEVICE u32 pairs_of_share(const Part& part, f32 share) {
  const i32 chunks = part.chunks < kWarps ? part.chunks : kWarps, pairs = chunks * (kWarp / 2);
  const f32 reach =
      static_cast<f32>(pairs) * (1.0f - exp_of_minus(at_most(static_cast<f32>(kPairTokens) * share, 100.0f)));
  const u32 nth = 1 + static_cast<u32>(reach);
  return nth >= static_cast<u32>(pairs - pairs / 32) ? 0u : nth;
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
    const u32 key = warp_max(key_at(own));
    if (lane() == 0 && key > kDead) atomic_max(&desk.bound, place_of(value_of(key) + wanted.drop, 0x7fffffff));
  }
  sync_block();
  const Place bound = desk.bound;
  return is_token(bound) ? bound : place_of(value_of(kDead + 1), 0x7fffffff);
}

// ---- The stream
struct Chunk {
  f32 x[kEach];
};
// What a chunk with a NaN or an infinity in it, or with nothing, weighs.
QUERN_CALLED f32 weigh_odd_chunk(Chunk chunk, f32 max, f32 scale) {
  take_nan_out(chunk.x);
  return max > -infinity() ? warp_sum(sum_of_shares(chunk.x, max, scale)) : 0.0f;
}

// What is done with a part.
struct Plan {
  Wanted wanted;
  bool weigh;  // sums over chunks are asked for
  bool edits;  // edit each chunk as it comes; else edits wait
  bool first;  // but for the first chunk of a warp, which tells the bound
  f32 scale;
};
// What a warp knows of the bound.
struct Bar {
  Place place;
  f32 least;    // its logit
  f32 reach;    // what a token has to reach: that, or the next larger one where there are enough that equal it
  u32 kept;     // by this warp since the bound has moved
  bool strict;  // equality is not enough any more
  QUERN_DEVICE void move(Place to) { place = to, least = reach = value_at(to), kept = 0, strict = false; }
  QUERN_DEVICE void tighten() { strict = true, reach = value_of(key_of(least) + 1); }
};

// Keeps those that reach the bar among the vectors `loads` of the chunk that begins at `first`. True in a lane that met
// a NaN.
QUERN_DEVICE bool keep_vectors(const SampleParams& p, const Row& row, const Part& part, const Plan& plan, i32 first,
                               u32 loads, Bar* bar, f32* high) {
  Desk& desk = *part.desk;
  const Wanted& wanted = plan.wanted;
  bool nan = false;
  QUERN_ROLLED while (loads != 0) {
    const i32 j = static_cast<i32>(trailing_zeros(loads)), token = first + place_in_chunk(j);
    loads &= loads - 1;
    f32 x[kVector];
    const u32 named = load_vector(p, row, part, token, x);
    if (kEdits && named != 0) {
      QUERN_UNROLL for (int e = 0; e < kVector; ++e) {
        if ((named >> e & 1) == 0) continue;
        if (!plan.edits && !(x[e] < bar->reach)) {
          const u32 at = atomic_add(&desk.aside, 1u);
          if (at < static_cast<u32>(kAside)) part.aside[at] = token + e;
        }
        x[e] = -infinity();
      }
    }
    f32 top = -infinity();
    QUERN_UNROLL for (int e = 0; e < kVector; ++e) top = fmax(top, x[e]), nan |= x[e] != x[e];
    *high = fmax(*high, top);
    if (wanted.drop > -infinity() && ballot(top + wanted.drop > bar->least) != 0) {
      bar->move(place_of(warp_max(top) + wanted.drop, 0x7fffffff));
      if (lane() == 0) atomic_max(&desk.bound, bar->place);
    }
    const u64 below = (u64{1} << lane()) - 1;
    u32 total = 0, before[kVector];
    QUERN_UNROLL for (int e = 0; e < kVector; ++e) {
      const u64 those = ballot(x[e] >= bar->reach);
      before[e] = total + popcount(those & below), total += popcount(those);
    }
    if (total == 0) continue;
    u32 at = 0;
    if (lane() == 0) at = atomic_add(&desk.held, total);
    at = shuffle(at, 0);
    QUERN_UNROLL for (int e = 0; e < kVector; ++e) {
      if (x[e] >= bar->reach && at + before[e] < static_cast<u32>(part.most))
        part.candidates[at + before[e]] = place_of(x[e], token + e);
    }
    bar->kept += total;
    if (wanted.enough != 0 && !bar->strict && bar->kept >= wanted.enough) bar->tighten();
  }
  return nan;
}

// Asks for a chunk, so that it is nearer when it is loaded.
QUERN_DEVICE void ask_for_chunk(const SampleParams& p, const Row& row, i32 first) {
  constexpr i32 kLine = 128 / static_cast<i32>(sizeof(Logit));
  QUERN_ROLLED for (i32 at = lane() * kLine; at < kChunk; at += kWarp * kLine) {
    if (first + at < p.vocab) prefetch_line(row.logits + first + at);
  }
}
QUERN_DEVICE void load_raw(const Row& row, i32 first, f32 (&x)[kEach]) {
  vec16 raw[kLoads];
  QUERN_UNROLL for (int j = 0; j < kLoads; ++j) raw[j] = load16_once(row.logits + first + place_in_chunk(j));
  QUERN_UNROLL for (int j = 0; j < kLoads; ++j) widen(raw[j], x + j * kVector);
}
// As edited, without what lists name.
QUERN_DEVICE void load_edited(const SampleParams& p, const Row& row, const Part& part, i32 first, f32 (&x)[kEach]) {
  Chunk chunk;
  QUERN_ROLLED for (int j = 0; j < kLoads; ++j) {
    f32 v[kVector];
    const u32 named = load_vector(p, row, part, first + place_in_chunk(j), v);
    QUERN_UNROLL for (int e = 0; e < kVector; ++e) {
      chunk.x[j * kVector + e] = kEdits && (named >> e & 1) != 0 ? -infinity() : v[e];
    }
  }
  QUERN_UNROLL for (int i = 0; i < kEach; ++i) x[i] = chunk.x[i];
}

// The chunks of a part that a warp has: a run.
struct Run {
  i32 begin, end;
};
QUERN_DEVICE Run run_of_warp(const Row& row, const Part& part) {
  const i32 chunks = row.logits ? part.chunks : 0;
  return {warp() * chunks / kWarps, (warp() + 1) * chunks / kWarps};
}
inline constexpr i32 kAhead = 2;  // chunks that are asked for
QUERN_DEVICE void ask_for_first(const SampleParams& p, const Row& row, const Part& part) {
  const Run run = run_of_warp(row, part);
  QUERN_ROLLED for (i32 c = run.begin; c < run.begin + kAhead && c < run.end; ++c) {
    ask_for_chunk(p, row, (part.first + c) * kChunk);
  }
}

// Streams the part. Candidates are on the desk then, and what the chunks come to. True in a lane that met a NaN. All
// threads, behind a barrier.
QUERN_CALLED bool stream_part(const SampleParams& p, const Row& row, const Plan& plan) {
  const Part part = part_of(p);
  Desk& desk = *part.desk;
  const Run run = run_of_warp(row, part);
  const i32 begin = run.begin, end = run.end;
  const Wanted& wanted = plan.wanted;
  bool any_nan = false;
  Bar bar{};
  f32 high = -infinity();
  QUERN_ROLLED for (i32 c = begin; c == begin || c < end; ++c) {
    const i32 first = (part.first + c) * kChunk;
    const bool whole = c < end && p.vectors && first + kChunk <= p.vocab;
    const bool edits = kEdits && (plan.edits || (c == begin && plan.first));
    f32 x[kEach];
    if (whole && !edits) {
      load_raw(row, first, x);
    } else {
      load_edited(p, row, part, c < end ? first : p.vocab, x);
    }
    if (c + kAhead < end) ask_for_chunk(p, row, first + kAhead * kChunk);
    f32 tops[kLoads], max;
    QUERN_UNROLL for (int j = 0; j < kLoads; ++j) {
      tops[j] = x[j * kVector];  // NaN is passed over
      QUERN_UNROLL for (int e = 1; e < kVector; ++e) tops[j] = fmax(tops[j], x[j * kVector + e]);
      max = j == 0 ? tops[0] : fmax(max, tops[j]);
    }
    if (c == begin && !wanted.none) {
      f32 low = x[0];
      QUERN_UNROLL for (int i = 1; i < kEach; ++i) low = fmin(low, x[i]);
      const u32 lowest = warp_max(~key_of(low));
      if (lane() == 0) atomic_max(&desk.low, lowest);
      bar.move(find_bound(part, wanted, max, first + kChunk - 1));
    }
    if (c >= end) break;
    // Of a first chunk that has been edited the named tokens are still to be looked at.
    u32 loads = kEdits && c == begin && plan.first && !plan.edits ? kAllLoads : 0u;
    if (!wanted.none) {
      if (wanted.drop > -infinity()) {
        const Place highest = shuffle(load_volatile(&desk.bound), 0);
        if (highest > bar.place) bar.move(highest);
      }
      if (wanted.enough != 0 && !bar.strict && first > index_at(bar.place)) bar.tighten();
      if (ballot(max >= bar.reach) != 0) {
        QUERN_UNROLL for (int j = 0; j < kLoads; ++j) loads |= ballot(tops[j] >= bar.reach) != 0 ? 1u << j : 0u;
      }
    }
    if (plan.weigh || wanted.none) high = fmax(high, max);
    if (plan.weigh) {
      // What sum_of_shares() makes of ordinary numbers, and NaN where there is one.
      const f32 top = warp_max(max);
      f32 sum = 0.0f;
      QUERN_UNROLL for (int i = 0; i < kEach; ++i) sum += exp2((x[i] - top) * plan.scale);
      sum = warp_sum(sum);
      if (sum != sum || !(top > -infinity())) {
        Chunk chunk;
        QUERN_UNROLL for (int i = 0; i < kEach; ++i) chunk.x[i] = x[i], any_nan |= x[i] != x[i];
        sum = weigh_odd_chunk(chunk, top, plan.scale);
      }
      if (lane() == 0) part.stats[part.first + c] = to_stats(top, sum);
    } else if (p.status != nullptr) {
      // Of two numbers that compare neither way one is NaN.
      bool nan = false;
      QUERN_UNROLL for (int i = 0; i < kEach; i += 2) nan |= !(x[i] >= x[i + 1]) && !(x[i] < x[i + 1]);
      if (ballot(nan) != 0) {
        // Whether it stays one once it is edited is seen there.
        if (kEdits && !plan.edits) {
          loads = kAllLoads;
        } else {
          any_nan |= nan;
        }
      }
    }
    any_nan |= keep_vectors(p, row, part, plan, first, loads, &bar, &high);
  }
  const u32 key = warp_max(key_of(high));
  if (lane() == 0) atomic_max(&desk.top, key);
  return any_nan;
}

}  // namespace q
