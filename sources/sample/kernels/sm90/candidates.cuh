// A block's part of a row streams by once. What may stay is kept in shared memory, as candidates; of the rest remain
// what each chunk comes to, and the logits that lists name.
//
// What may stay lies above a bound. The first chunk of each warp, and they lie far apart, tells it: the n-th of the
// largest logits of pairs of lanes. For top_k and for a share of the weight that is a guess, which whoever searches the
// candidates has to check; for min_p the bound follows the largest logit so far.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "sample/kernels/sm90/few.cuh"
#include "sample/kernels/sm90/named.cuh"
#include "sample/kernels/stream.cuh"

namespace q {

inline constexpr i32 kWarps = kThreads / kWarp;
inline constexpr i32 kPairs = kThreads / 2, kPairTokens = 2 * kEach;

// What a block has in static shared memory, at the same place in each of the cluster.
struct Desk {
  u64 scratch[kThreads / kWarp + 2];
  u64 few[kSegment], weights[kSegment];
  u64 bins[2][8], tokens[2][2];  // what has been found, in turns
  u64 first, last;               // this block's own, which the others read
  u64 bound;
  u32 held;       // candidates, beyond their end, too
  u32 listed[2];  // tokens on the list, likewise
  u32 ends[8];    // in the first block: of the blocks' candidates, one behind the other
  u32 nan, top;   // of all of the part's: whether there is one; the key of the largest logit that is named
  u32 named;      // tokens of the part
  u32 verdict;
  f32 max;  // the row's, from the first block
  u64 total;
};

// A candidate: its logit's bits above its id.
QUERN_DEVICE u64 to_candidate(f32 x, i32 token) { return static_cast<u64>(bits_of(x)) << 32 | static_cast<u32>(token); }
QUERN_DEVICE f32 value_of_candidate(u64 c) { return f32_of(static_cast<u32>(c >> 32)); }
QUERN_DEVICE i32 token_of_candidate(u64 c) { return static_cast<i32>(static_cast<u32>(c)); }
QUERN_DEVICE Place place_of_candidate(u64 c) { return place_of(value_of_candidate(c), token_of_candidate(c)); }

// The block's part of the row under way, and where things lie in dynamic shared memory.
struct Part {
  i32 rank, blocks;   // this block among those of the cluster
  i32 first, chunks;  // of the row's
  i32 all;            // chunks of the row
  i32 most;           // candidates that there is room for
  u64* candidates;
  u64* stats;  // [all] largest logit and sum of shares, as f32, of what no list names
  u8* work;    // histogram and lists, or weights of chunks
  Named named;
  bool has_names;
  Desk* desk;

  QUERN_DEVICE bool names() const { return kEdits && has_names; }
  QUERN_DEVICE Room room() const {
    Room r{};
    r.scratch = desk->scratch;
    return r;
  }
};

QUERN_DEVICE Part part_of(const SampleParams& p, Desk* desk) {
  Part part{};
  part.rank = static_cast<i32>(cluster_rank()), part.blocks = static_cast<i32>(cluster_size());
  part.all = p.chunks;
  part.first = part.rank * p.chunks_per_block;
  const i32 rest = p.chunks - part.first;
  part.chunks = rest < 0 ? 0 : rest < p.chunks_per_block ? rest : p.chunks_per_block;
  const FilterRoom room = filter_room(p.chunks, p.chunks_per_block, p.slots);
  u8* const shared = dynamic_shared();
  part.most = room.candidates;
  part.candidates = reinterpret_cast<u64*>(shared);
  part.work = shared + room.work;
  part.stats = reinterpret_cast<u64*>(shared + room.stats);
  part.named.marks = reinterpret_cast<u32*>(shared + room.marks);
  part.named.before = reinterpret_cast<u16*>(shared + room.before);
  part.named.words = reinterpret_cast<u32*>(shared + room.named);
  part.named.values = reinterpret_cast<f32*>(shared + room.values);
  part.named.begin = part.first * kChunk, part.named.chunks = part.chunks;
  part.has_names = p.slots != 0;
  part.desk = desk;
  return part;
}

// f(r, what block r has there) for the first `blocks` blocks, of a place that is the same for all lanes, which all
// call.
template <class T, class F>
QUERN_DEVICE void each_block(i32 blocks, const T* place, F f) {
  const T own = of_block(place, lane() < blocks ? lane() : 0);
  QUERN_ROLLED for (i32 r = 0; r < blocks; ++r) f(r, shuffle(own, r));
}
QUERN_DEVICE void sync_blocks(i32 blocks) {
  if (blocks == 1) {
    sync_block();
  } else {
    sync_cluster_shared();
  }
}

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
    u32 key = 0;
    QUERN_ROLLED for (i32 i = lane(); i < kPairs; i += kWarp) {
      const u32 its = key_at(desk.few[i]);
      key = its > key ? its : key;
    }
    key = warp_max(key);
    if (thread_index() == 0 && key > kDead) atomic_max(&desk.bound, place_of(value_of(key) + wanted.drop, 0x7fffffff));
  }
  sync_block();
  const Place bound = desk.bound;
  return is_token(bound) ? bound : place_of(value_of(kDead + 1), 0x7fffffff);
}

// Edits a chunk; of the named tokens the raw logits are noted and -inf stays.
QUERN_DEVICE void edit_part_chunk(const SampleParams& p, const Row& row, const Part& part, i32 c, f32 (&x)[kEach]) {
  if constexpr (kEdits) {
    const i32 begin = (part.first + c) * kChunk;
    const ChunkMasks masks = load_masks(row, begin, p.vocab);
    const u32* const listed = part.names() ? part.named.marks + c * kGroups : nullptr;
    QUERN_UNROLL for (int j = 0; j < kLoads; ++j) {
      if (listed) {
        const i32 local = c * kChunk + place_in_chunk(j);
        const u32 bits = part.named.bits_at(local) & ((1u << kVector) - 1);
        if (bits != 0) {
          f32* value = part.named.values + part.named.rank_of(local);
          QUERN_UNROLL for (int e = 0; e < kVector; ++e) {
            if ((bits >> e & 1) != 0) *value++ = x[j * kVector + e];
          }
        }
      }
      edit_vector(p, row, begin, j, masks, listed, x + j * kVector);
    }
  }
}

// Keeps those of a chunk that reach `least`; `strict` from load `ties` on, where equality is not enough. How many.
QUERN_DEVICE u32 keep_chunk(const Part& part, const f32 (&x)[kEach], i32 begin, f32 least, u32 enough, bool strict) {
  const f32 above = value_of(key_of(least) + 1);
  i32 ties = strict ? 0 : kLoads;
  const f32 from = strict ? above : least;
  // Most loads have none of them: what is done for each token is done for those that have.
  u32 own = 0, loads = 0;
  QUERN_UNROLL for (int j = 0; j < kLoads; ++j) {
    bool any = false;
    QUERN_UNROLL for (int e = 0; e < kVector; ++e) any |= x[j * kVector + e] >= from;
    if (ballot(any) == 0) continue;
    loads |= 1u << j;
    QUERN_UNROLL for (int e = 0; e < kVector; ++e) own += x[j * kVector + e] >= from ? 1u : 0u;
  }
  if (loads == 0) return 0;
  u32 through = warp_scan(own), total = shuffle(through, kWarp - 1);
  if (enough != 0 && !strict && total > enough + kChunk / 8) {
    // Many are equal to the bound, and the first of them are enough. Numbers of two loads are in a word.
    u32 pairs[kLoads / 2], sum = 0;
    QUERN_UNROLL for (int j = 0; j < kLoads; ++j) {
      u32 its = 0;
      QUERN_UNROLL for (int e = 0; e < kVector; ++e) its += x[j * kVector + e] >= least ? 1u : 0u;
      pairs[j / 2] = (j & 1) == 0 ? its : pairs[j / 2] | its << 16;
    }
    ties = 0;
    QUERN_UNROLL for (int j = 0; j < kLoads; ++j) {
      if ((j & 1) == 0) pairs[j / 2] = warp_sum(pairs[j / 2]);
      ties += sum < enough ? 1 : 0;
      sum += pairs[j / 2] >> 16 * (j & 1) & 0xffffu;
    }
    own = 0;
    QUERN_UNROLL for (int i = 0; i < kEach; ++i) own += x[i] >= (i / kVector < ties ? least : above) ? 1u : 0u;
    through = warp_scan(own), total = shuffle(through, kWarp - 1);
  }
  u32 at = 0;
  if (lane() == 0) at = atomic_add(&part.desk->held, total);
  at = shuffle(at, 0);
  if (at + total > static_cast<u32>(part.most)) return total;
  u64* to = part.candidates + (at + through - own);
  QUERN_UNROLL for (int j = 0; j < kLoads; ++j) {
    const i32 token = begin + place_in_chunk(j);
    const f32 reach = j < ties ? least : above;
    if ((loads >> j & 1) == 0) continue;
    QUERN_UNROLL for (int e = 0; e < kVector; ++e) {
      if (x[j * kVector + e] >= reach) *to++ = to_candidate(x[j * kVector + e], token + e);
    }
  }
  return total;
}

// What stream_part() makes of a chunk with a NaN or an infinity in it, or with nothing.
struct Chunk {
  f32 x[kEach];
};
QUERN_CALLED f32 weigh_odd_chunk(Chunk chunk, f32 max, f32 scale, bool* nan) {
  *nan = take_nan_out(chunk.x);
  return max > -infinity() ? warp_sum(sum_of_shares(chunk.x, max, scale)) : 0.0f;
}

// What is done with a part.
struct Plan {
  Wanted wanted;
  bool weigh;  // sums over chunks are asked for
  f32 scale;
};
// Asks for a chunk, so that it is near when it is loaded.
QUERN_DEVICE void ask_for_chunk(const SampleParams& p, const Row& row, i32 first) {
  constexpr i32 kLine = 128 / static_cast<i32>(sizeof(Logit));
  QUERN_ROLLED for (i32 at = first + lane() * kLine; at < first + kChunk && at < p.vocab; at += kWarp * kLine) {
    prefetch_line(row.logits + at);
  }
}

// Streams the part. prepare() tells the plan while the first chunk comes; all threads, and it ends with a barrier. No
// chunk is in registers then: they would be spilled in each turn of the loop. Candidates are on the desk in the end,
// and what the chunks come to. True in a lane that met a NaN.
template <class F>
QUERN_DEVICE bool stream_part(const SampleParams& p, const Row& row, const Part& part, F prepare) {
  // Each warp has a run of chunks.
  const i32 chunks = row.logits ? part.chunks : 0;
  const i32 begin = warp() * chunks / kWarps, end = (warp() + 1) * chunks / kWarps;
  if (begin < end) ask_for_chunk(p, row, (part.first + begin) * kChunk);
  const Plan plan = prepare();
  bool any_nan = false, strict = false;
  Place bound = 0;
  u32 kept = 0;
  QUERN_ROLLED for (i32 c = begin; c == begin || c < end; ++c) {
    f32 x[kEach];
    const bool there = c < end;
    if (there) {
      load_chunk(row, (part.first + c) * kChunk, p.vocab, p.vectors, x);
    } else {
      QUERN_UNROLL for (int i = 0; i < kEach; ++i) x[i] = -infinity();
    }
    const Wanted& wanted = plan.wanted;
    if (there) edit_part_chunk(p, row, part, c, x);
    f32 max = -infinity(), sum = 0.0f;
    QUERN_UNROLL for (int i = 0; i < kEach; ++i) max = fmax(max, x[i]);  // NaN is passed over
    const i32 first = (part.first + c) * kChunk;
    if (c == begin && !wanted.none) bound = find_bound(part, wanted, max, first + kChunk - 1);
    if (!there) break;
    max = warp_max(max);
    if (!wanted.none) {
      if (wanted.drop > -infinity()) {
        // The bound follows the largest logit that any warp has met.
        const Place others = load_volatile(&part.desk->bound);
        if (max + wanted.drop > value_at(bound)) {
          bound = place_of(max + wanted.drop, 0x7fffffff), strict = false, kept = 0;
          if (lane() == 0 && bound > others) atomic_max(&part.desk->bound, bound);
        }
        const Place highest = shuffle(others, 0);
        if (highest > bound) bound = highest, strict = false, kept = 0;
      }
      strict = strict || (wanted.enough != 0 && (kept >= wanted.enough || first > index_at(bound)));
      if (max >= value_at(bound)) kept += keep_chunk(part, x, first, value_at(bound), wanted.enough, strict);
    }
    // What sum_of_shares() makes of ordinary numbers, and NaN where there is one.
    if (plan.weigh) {
      QUERN_UNROLL for (int i = 0; i < kEach; ++i) sum += exp2((x[i] - max) * plan.scale);
      sum = warp_sum(sum);
    } else {
      bool nan = false;
      QUERN_UNROLL for (int i = 0; i < kEach; ++i) nan |= x[i] != x[i];
      sum = ballot(nan) != 0 ? q::nan() : 0.0f;
    }
    if (sum != sum || !(max > -infinity())) {
      Chunk chunk;
      QUERN_UNROLL for (int i = 0; i < kEach; ++i) chunk.x[i] = x[i];
      bool nan;
      sum = weigh_odd_chunk(chunk, max, plan.scale, &nan);
      any_nan |= nan;
    }
    if (lane() == 0) part.stats[part.first + c] = static_cast<u64>(bits_of(sum)) << 32 | bits_of(max);
  }
  return any_nan;
}

}  // namespace q
