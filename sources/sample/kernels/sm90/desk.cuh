// What the blocks of a row that streams by have in shared memory, and at what places: each its part of the row.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "sample/kernels/sm90/few.cuh"
#include "sample/kernels/sm90/named.cuh"
#include "sample/kernels/stream.cuh"

namespace q {

inline constexpr i32 kWarps = kThreads / kWarp;
inline constexpr i32 kPairs = kThreads / 2;
inline constexpr i32 kAheadBytes = ahead_bytes(kEdits, static_cast<i32>(sizeof(Logit)));

// Which tokens are worth keeping.
struct Wanted {
  bool none;   // no candidates
  u32 nth;     // the bound is this one of the pairs' largest; 0: there is none
  i32 loads;   // of each lane: so many vectors count for it
  u32 enough;  // so many tokens from the bound on make what follows needless; 0: all of them count
  f32 drop;    // <= 0: nor is what lies further below the largest. -inf: no bound
};
// What is done with a part.
struct Plan {
  Wanted wanted;
  bool weigh;  // sums over chunks are asked for
  bool late;   // edits wait: they make nothing larger, and only what reaches the bound is edited, once all are there
  bool named;  // it is known what tokens lists name
  bool nans;   // it is asked for whether there is one
  f32 scale;
};
// What the choice among candidates is asked, in the first block.
struct Asked {
  i32 count;    // of candidates, of which those below the bound, or below `least`, do not count
  Place bound;  // all tokens from here on are there
  f32 least;
  u32 enough;  // 0: all there are
  // Where this is not 0, the token is asked for at which their number or the sum of the weights reaches it, among those
  // of `from` to `to` alone.
  u64 wanted;
  bool by_count;
  f32 from, to;
  // Of the row.
  f32 max, scale;
  u64 total;  // of the weights, where they were asked for
  f32 top_p;
  i32 top_k;
  bool alone;
  u64 random;
};
// How far the search has come in a row that is read again, the same in all blocks.
enum class Step : i32 { top_k, top_p, draw };
struct Found {
  Step open;               // the first that is not done
  bool done, exact, cuts;  // cuts: there are more tokens than top_k
  f32 low, high;           // where its end lies,
  u64 above, count_above;  // what weighs above that, and how many tokens there are,
  u64 left, all;           // and, where that is known, what the steps before have left of all there is
  i32 levels;              // how often its end has been looked for since then
  Choice choice;
};
// What a block has in static shared memory, at the same place in each of the cluster.
struct Desk {
  u64 scratch[kThreads / kWarp + 2];
  u64 few[kSegment], weights[kSegment];
  u64 bins[2][8];  // what has been found, in turns
  u64 told;        // by one thread to all
  u64 bound;
  u32 held;      // candidates, beyond their end, too
  u32 listed;    // tokens on the list
  u32 nan, top;  // of all of the part's: whether there is one; the key of the largest logit
  u32 named;     // tokens of the part
  u32 verdict;
  f32 max;  // the row's, from the first block
  u64 total;
  Plan plan;
  Asked asked;
  Found found;
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
  u8* work;    // what is said of named tokens; then histogram and lists, or weights of chunks
  u8* ahead;   // [kAheadBytes] chunks on their way; then what named tokens come to, and
  u16* spots;  // [most] the bins of candidates
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
  const FilterRoom room = filter_room(p.chunks, p.chunks_per_block, p.slots, kAheadBytes);
  u8* const shared = dynamic_shared();
  part.most = room.candidates;
  part.candidates = reinterpret_cast<u64*>(shared);
  part.work = shared + room.work;
  part.stats = reinterpret_cast<u64*>(shared + room.stats);
  part.ahead = shared + room.ahead;
  part.spots = reinterpret_cast<u16*>(shared + room.spots);
  part.named.marks = reinterpret_cast<u32*>(shared + room.marks);
  part.named.before = reinterpret_cast<u16*>(shared + room.before);
  part.named.words = reinterpret_cast<u32*>(part.work);
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

// The row's largest logit, by what the blocks say of theirs.
QUERN_DEVICE f32 largest_of_row(const Part& part) {
  u32 key = kDead;
  each_block(part.blocks, &part.desk->top, [&](i32, u32 its) { key = its > key ? its : key; });
  return value_of(key);
}

}  // namespace q
