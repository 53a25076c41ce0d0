// New tokens into a latent cache: the latent normalised, the rope part turned, both quantised and stored where the
// token's slot is; and the queries' rope parts turned beside them, in one launch that is bound by memory.
//
// A team of 32 lanes takes a token, and the next one's numbers are on their way while this one is at work. The blocks
// behind take queries, as the rope op does.
// SPDX-License-Identifier: Apache-2.0
#include "kv_append/place.cuh"
#include "mla_append/latent.cuh"
#include "mla_append/rope_part.cuh"
#include "rope/strip.cuh"

namespace q {

inline constexpr int kThreads = THREADS;
inline constexpr int kTokenTeams = kThreads / kTeam;
inline constexpr int kHeadTeams = kThreads / kLanes;
inline constexpr CacheKind kKind = static_cast<CacheKind>(CACHE_KIND);
inline constexpr bool kNorm = NORM != 0;
using Weight = WEIGHT_ELEMENT;
using Cache = CACHE_ELEMENT;           // X or e4m3
using CacheRope = CACHE_ROPE_ELEMENT;  // X, e4m3 or bf16

// What is on its way of a token.
struct RawToken {
  RawLatent latent;
  RawRopePart rope;
  GivenPlace place;
};
QUERN_DEVICE RawToken load_token(const MlaAppendParams& p, u32 token, int team_lane) {
  const bool inside = token < static_cast<u32>(p.tokens);
  RawToken raw = {};
  if (inside) raw.place = load_place(p.places, static_cast<i32>(token));
  raw.latent = load_latent(static_cast<const X*>(p.latent) + token * p.latent_token, team_lane, inside);
  raw.rope = load_rope_part(static_cast<const X*>(p.k_rope) + token * p.k_rope_token, team_lane, inside);
  return raw;
}

// Divides by the scales that the cache has, and stores those that are found. All of the warp take part.
template <CacheKind kind>
QUERN_DEVICE void quantise_token(const MlaAppendParams& p, const TokenPlace& at, int team_lane, Latent& latent,
                                 RopePart& rope) {
  if constexpr (kind == CacheKind::rows656) {
    u8* row = p.cache + at.page * p.page_bytes + at.place * p.place_bytes;
    quantise_groups(p.power_of_two != 0, team_lane, at.taken ? reinterpret_cast<f32*>(row + kScalesAt) : nullptr,
                    latent);
  } else if constexpr (kind != CacheKind::plain) {
    f32 scale = 1.0f;
    if constexpr (kind == CacheKind::e4m3_tensor) {
      scale = p.cache_scale[0];
    } else {
      const f32 own = fmax(largest_held<0, kHeld>(latent), largest_of(rope));
      scale = scale_for<e4m3>(lanes_reduce<kTeam>(own, Larger()), p.power_of_two != 0);
      if (at.taken && team_lane == 0) p.cache_scale[at.page * p.scale_page + at.place * p.scale_place] = scale;
    }
    divide_held<0, kHeld>(scale, latent);
    divide_rope_part(scale, rope);
  }
}

QUERN_DEVICE void append_tokens(const MlaAppendParams& p) {
  const int team_lane = lane() % kTeam;
  const u32 tokens = static_cast<u32>(p.tokens), step = static_cast<u32>(p.latent_blocks) * kTokenTeams;
  // Counted for the warp's first team: all of a warp go round equally often.
  const u32 warp_first = static_cast<u32>(block_index(0)) * kTokenTeams + warp() * (kWarp / kTeam);
  RawToken next = load_token(p, warp_first + lane() / kTeam, team_lane);
  RawWeights<Weight> weights = {};
  if constexpr (kNorm) weights = load_weights(static_cast<const Weight*>(p.weight), team_lane);
  const HeldFrequencies frequencies = hold_frequencies(p.rope, team_lane);
  QUERN_ROLLED for (u32 first = warp_first; first < tokens; first += step) {
    const u32 token = first + lane() / kTeam;
    const RawToken raw = next;
    next = load_token(p, token + step, team_lane);
    const TokenPlace at = token < tokens ? place_of_token(p.places, static_cast<i32>(token), raw.place) : TokenPlace{};
    if (at.wrong && p.status && team_lane == 0) atomic_or(p.status, at.wrong);
    RopePart rope = turned_rope_part(raw.rope, p.rope, frequencies, at.position, team_lane);
    if (at.taken && p.k_rope_out)
      store_rope_part(static_cast<X*>(p.k_rope_out) + token * p.k_rope_out_token, team_lane, rope);
    Latent latent = widen_latent(raw.latent);
    if constexpr (kNorm) normalise_latent(weights, p.eps, latent);
    if (at.taken && p.latent_out)
      store_latent(static_cast<X*>(p.latent_out) + token * p.latent_out_token, team_lane, latent);
    quantise_token<kKind>(p, at, team_lane, latent, rope);
    if (!at.taken) continue;
    store_rope_part(
        reinterpret_cast<CacheRope*>(p.cache_rope + at.page * p.rope_page_bytes + at.place * p.rope_place_bytes),
        team_lane, rope);
    store_latent(reinterpret_cast<Cache*>(p.cache + at.page * p.page_bytes + at.place * p.place_bytes), team_lane,
                 latent);
  }
}

QUERN_DEVICE void turn_queries(const MlaAppendParams& p) {
  const int team_lane = lane() % kLanes;
  const HeldVectors held = held_vectors(team_lane, false);
  const i64 items = static_cast<i64>(p.tokens) * p.strips.value;
  const i64 step = static_cast<i64>(block_count(0) - p.latent_blocks) * kHeadTeams;
  const i64 begin = static_cast<i64>(block_index(0) - p.latent_blocks) * kHeadTeams + thread_index() / kLanes;
  QUERN_ROLLED for (i64 item = begin; item < items; item += step) {
    const i32 token = static_cast<i32>(item) / p.strips;  // the library keeps items below 2^31
    turn_strip(p.queries, p.rope, held, team_lane, token, static_cast<i32>(item) - token * p.strips.value, [&] {
      const TokenPlace at = place_of_token(p.places, token);
      return TurnedToken{at.taken, at.position};
    });
  }
}

}  // namespace q

QUERN_KERNEL(quern_mla_append, THREADS, BLOCKS_PER_SM, QUERN_PARAM q::MlaAppendParams p) {
  q::launch_next_grid();
  q::wait_for_previous_grid();
  if (q::block_index(0) < p.latent_blocks) {
    q::append_tokens(p);
  } else if (HAS_Q) {
    q::turn_queries(p);
  }
}
