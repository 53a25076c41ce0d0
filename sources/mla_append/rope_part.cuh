// A token's rope part on its way through a team's registers, a pair of dimensions a lane: so each lane computes one
// sine and cosine, where a vector of pairs would have them computed by a few lanes, one after the other, while all
// wait.
//
// The kernel defines what rope/heads.cuh asks for, and HAS_ROPE_PART.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mla_append/params.cuh"
#include "rope/heads.cuh"

namespace q {

inline constexpr bool kHasRope = HAS_ROPE_PART != 0;
inline constexpr int kRopePairs = DIM_K / 2, kTurned = ROTARY / 2;
inline constexpr int kPairsHeld =
    (kRopePairs + kAppendTeam - 1) / kAppendTeam;  // of a lane: pairs lane, lane + team ..

struct RopePart {
  f32 x[kPairsHeld][2];
};

// Which dimension one of a pair is; -1: there is no such pair.
QUERN_DEVICE i32 dimension_of(int team_lane, int e, int which) {
  const int pair = e * kAppendTeam + team_lane;
  if (!kHasRope || pair >= kRopePairs) return -1;
  // Those that do not turn are neighbours.
  if (kInterleaved || pair >= kTurned) return 2 * pair + which;
  return pair + which * kTurned;
}

// Of neighbours both are loaded and stored at once.
struct RawRopePart {
  Packed<X, 2> x[kPairsHeld];
};
QUERN_DEVICE RawRopePart load_rope_part(const X* from, int team_lane, bool take) {
  RawRopePart raw = {};
  QUERN_UNROLL for (int e = 0; e < kPairsHeld; ++e) {
    const i32 at = dimension_of(team_lane, e, 0);
    if (!take || at < 0) continue;
    if constexpr (kInterleaved) {
      raw.x[e] = load_packed<X, 2>(from + at);
    } else {
      raw.x[e].words[0] = load_packed<X, 1>(from + at).words[0] |
                          load_packed<X, 1>(from + dimension_of(team_lane, e, 1)).words[0] << 16;
    }
  }
  return raw;
}

// What is loaded once for all tokens: as a parameter each lane's frequency would be fetched apart, token by token.
struct HeldFrequencies {
  u64 of[kPairsHeld];
};
QUERN_DEVICE HeldFrequencies hold_frequencies(const Rope& rope, int team_lane) {
  HeldFrequencies frequencies{};
#if !HAS_TABLE
  QUERN_UNROLL for (int e = 0; e < kPairsHeld; ++e) {
    const int pair = e * kAppendTeam + team_lane;
    if (kTurns) frequencies.of[e] = held(rope.frequency[pair < HeadK::kPairs ? pair : 0]);
  }
#endif
  return frequencies;
}

// Widened and turned.
QUERN_DEVICE RopePart turned_rope_part(const RawRopePart& raw, const Rope& rope, const HeldFrequencies& frequencies,
                                       i64 position, int team_lane) {
  RopePart part;
  QUERN_UNROLL for (int e = 0; e < kPairsHeld; ++e) {
    f32(&x)[2] = part.x[e];
    widen_packed<X, 2>(raw.x[e], x);
    if constexpr (kTurns) {
      const int pair = e * kAppendTeam + team_lane;
#if HAS_TABLE
      const UnitTurns<1> turns = turns_from_table<TableElement, HeadK, 1>(rope, position, pair);
#else
      const Turn turn = turn_of(phase_of(frequencies.of[e], position));
      const UnitTurns<1> turns = {{{turn.cosine * rope.factor, turn.sine * rope.factor}}};
#endif
      turn_unit<HeadK, 1, kInterleaved>(turns, pair, x);
    }
  }
  return part;
}

template <class T>
QUERN_DEVICE void store_rope_part(T* to, int team_lane, const RopePart& part) {
  QUERN_UNROLL for (int e = 0; e < kPairsHeld; ++e) {
    const i32 at = dimension_of(team_lane, e, 0);
    if (at < 0) continue;
    if constexpr (kInterleaved) {
      store_packed<T, 2>(to + at, narrow_packed<T, 2>(part.x[e]));
    } else {
      QUERN_UNROLL for (int which = 0; which < 2; ++which) {
        store_packed<T, 1>(to + dimension_of(team_lane, e, which), narrow_packed<T, 1>(&part.x[e][which]));
      }
    }
  }
}

// The largest finite magnitude of the lane's own.
QUERN_DEVICE f32 largest_of(const RopePart& part) {
  f32 largest = 0.0f;
  QUERN_UNROLL for (int e = 0; e < kPairsHeld; ++e) {
    QUERN_UNROLL for (int i = 0; i < 2; ++i) largest = fmax(largest, fabs(fma(part.x[e][i], 0.0f, part.x[e][i])));
  }
  return largest;
}
QUERN_DEVICE void divide_rope_part(f32 scale, RopePart& part) {
  const ScaleDivisor by = scale_divisor(scale);
  QUERN_UNROLL for (int e = 0; e < kPairsHeld; ++e) {
    QUERN_UNROLL for (int i = 0; i < 2; ++i) part.x[e][i] = divide_by(part.x[e][i], by);
  }
}

}  // namespace q
