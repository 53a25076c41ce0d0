// New tokens' keys and values to where their slots are in a paged cache, with what stands in front of it: the norms of
// queries and keys, their turning, the quantisation. One launch, bound by memory.
//
// A team of lanes takes some heads of one token, all of one kind (queries, keys or values), one after the other: heads
// s, s + n, s + 2n .. of strip s of n. So the sines and cosines of a token are computed once for several heads, and
// neighbouring teams are at neighbouring heads. All kinds run the same code, because the warp's teams join in its
// shuffles; what differs is data.
// SPDX-License-Identifier: Apache-2.0
#include "kv_append/params.cuh"
#include "kv_append/place.cuh"
#include "rope/heads.cuh"

namespace q {

using Cache = CACHE_ELEMENT;  // X, e4m3, e5m2 or i8
using QueryOut = Q_ELEMENT;   // X, e4m3 or e5m2
inline constexpr int kThreads = THREADS;
inline constexpr int kTeams = kThreads / kLanes;
inline constexpr bool kHasQueries = HAS_Q != 0;
inline constexpr bool kNorm = NORM != 0;
using Weight = WEIGHT_ELEMENT;  // X or f32
inline constexpr bool kFindCacheScale = FIND_CACHE_SCALE != 0;
inline constexpr bool kFindQueryScale = FIND_Q_SCALE != 0;

// Places in KvAppendParams::heads.
inline constexpr int kQueries = 0, kKeys = 1, kValues = 2;

// Divides by the head's scale, which is read, or found and written.
template <class Out, bool kFind>
QUERN_DEVICE void quantise_head(f32 largest, f32* scale, bool writes, HeadElements& head) {
  f32 by = 1.0f;
  if (kFind) {
    by = largest > 0.0f ? largest / kLargestCode<Out> : 1.0f;
    // A scale that is no normal number would be flushed to 0 by some targets, and divides nothing well.
    by = by < 0x1p-126f ? 0x1p-126f : by;
    if (writes) *scale = by;
  } else if (scale) {
    by = *scale;
  }
  divide_head(by, head);
}

QUERN_DEVICE void append(const KvAppendParams& p) {
  const int team_lane = lane() % kLanes;
  const i64 items = static_cast<i64>(p.tokens) * p.strips.value, step = static_cast<i64>(block_count(0)) * kTeams;
  // Counted for the warp's first team: all of a warp go round equally often.
  const i64 warp_first = static_cast<i64>(block_index(0)) * kTeams + warp() * (kWarp / kLanes);
  QUERN_ROLLED for (i64 first = warp_first; first < items; first += step) {
    const i64 item = first + lane() / kLanes;
    const bool inside = item < items;
    const i32 token = inside ? static_cast<i32>(item) / p.strips : 0;  // the library keeps items below 2^31
    i32 strip = inside ? static_cast<i32>(item) - token * p.strips.value : 0;
    int kind = kHasQueries ? kQueries : kKeys;
    if (kHasQueries && strip >= p.heads[kQueries].strips) strip -= p.heads[kQueries].strips, kind = kKeys;
    if (kind == kKeys && strip >= p.heads[kKeys].strips) strip -= p.heads[kKeys].strips, kind = kValues;
    const AppendHeads& heads = p.heads[kind];
    const bool to_cache = !kHasQueries || kind != kQueries;
    const HeldVectors held = held_vectors(team_lane, kind == kValues);
    const X* from = static_cast<const X*>(heads.from) + token * heads.from_token;
    // What is loaded comes while the place is looked up and the angles are computed, and then while the head before is
    // at work. Tokens that are skipped are loaded too.
    RawHead next = load_head(from + strip * heads.from_head, held, inside && strip < heads.heads);
    const TokenPlace place = inside ? place_of_token(p.places, token) : TokenPlace{};
    const TokenTurns turns = token_turns(p.rope, place.position, team_lane);
    const i64 page = to_cache ? place.page : 0, row = to_cache ? place.place : token;
    const i64 to = page * heads.to_page + row * heads.to_token,
              scale_at = page * heads.scale_page + row * heads.scale_token;
    // The same number of rounds for all teams of the warp.
    i32 rounds = heads.rounds;
    QUERN_UNROLL for (int mask = kWarp / 2; mask >= kLanes; mask /= 2) {
      const i32 other = shuffle_xor(rounds, mask);
      rounds = other > rounds ? other : rounds;
    }
    QUERN_ROLLED for (i32 round = 0; round < rounds; ++round) {
      const i32 h = strip + round * heads.strips;
      const bool taken = place.taken && h < heads.heads;
      HeadElements head = widen_head(next);
      const i32 after = h + heads.strips;
      next = load_head(from + after * heads.from_head, held, inside && after < heads.heads);
      if constexpr (kNorm) normalise_head(static_cast<const Weight*>(heads.weight), p.weight_offset, p.eps, held, head);
      if (kind != kValues) turn_head(turns, team_lane, head);
      f32 largest = 0.0f;
      if constexpr (kFindCacheScale || kFindQueryScale) largest = largest_of(head);
      if (!taken) continue;
      f32* scale = heads.scale ? heads.scale + scale_at + h * heads.scale_head : nullptr;
      if (to_cache) {
        if constexpr (sizeof(Cache) == 1) quantise_head<Cache, kFindCacheScale>(largest, scale, team_lane == 0, head);
        store_head(static_cast<Cache*>(heads.to) + to + h * heads.to_head, held, head);
      } else {
        if constexpr (sizeof(QueryOut) == 1)
          quantise_head<QueryOut, kFindQueryScale>(largest, scale, team_lane == 0, head);
        store_head(static_cast<QueryOut*>(heads.to) + to + h * heads.to_head, held, head);
      }
    }
  }
}

}  // namespace q

QUERN_KERNEL(quern_kv_append, THREADS, BLOCKS_PER_SM, QUERN_PARAM q::KvAppendParams p) {
  q::launch_next_grid();
  q::wait_for_previous_grid();
  q::append(p);
}
