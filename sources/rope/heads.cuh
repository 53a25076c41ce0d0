// One head of one token on its way through a team's registers: loaded, normalised, turned, quantised, stored.
//
// The kernel defines: X_ELEMENT, DIM_K and DIM_V (of the last two kinds of heads), ROTARY (dimensions that turn, 0:
// none), INTERLEAVED, TABLE_ELEMENT with HAS_TABLE, WIDTH, LANES (of a team).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/reduce.cuh"
#include "rope/rotate.cuh"

namespace q {

using X = X_ELEMENT;  // f16, bf16 or f32
using TableElement = TABLE_ELEMENT;
inline constexpr int kWidth = WIDTH;
inline constexpr int kLanes = LANES;
inline constexpr bool kInterleaved = INTERLEAVED != 0;
inline constexpr bool kTurns = ROTARY != 0;
using HeadK = Head<DIM_K, ROTARY, kWidth, kInterleaved && kTurns>;  // of queries and keys
using HeadV = Head<DIM_V, 0, kWidth, false>;
inline constexpr int kMostUnits = HeadK::kUnits > HeadV::kUnits ? HeadK::kUnits : HeadV::kUnits;
inline constexpr int kEach = (kMostUnits + kLanes - 1) / kLanes;  // units of a lane

// Which vectors the calling lane holds of a head, in elements from the head's first; -1: none.
struct HeldVectors {
  i32 at[kEach][2];
};
template <class H>
QUERN_DEVICE i32 vector_at(int unit, int which) {
  const int v = which == 0 ? H::first(unit) : H::second(unit);
  return unit < H::kUnits && v < H::kVectors ? v * kWidth : -1;
}
QUERN_DEVICE HeldVectors held_vectors(int team_lane, bool values) {
  HeldVectors held;
  QUERN_UNROLL for (int e = 0; e < kEach; ++e) {
    QUERN_UNROLL for (int which = 0; which < 2; ++which) {
      const int unit = e * kLanes + team_lane;
      held.at[e][which] = values ? vector_at<HeadV>(unit, which) : vector_at<HeadK>(unit, which);
    }
  }
  return held;
}

// The lane's elements of a head as they lie in memory, 0 where it holds none: so long before they are needed.
struct RawHead {
  Packed<X, kWidth> x[kEach][2];
};
QUERN_DEVICE RawHead load_head(const X* from, const HeldVectors& held, bool take) {
  RawHead raw = {};
  QUERN_UNROLL for (int e = 0; e < kEach; ++e) {
    QUERN_UNROLL for (int which = 0; which < 2; ++which) {
      if (take && held.at[e][which] >= 0) raw.x[e][which] = load_packed<X, kWidth>(from + held.at[e][which]);
    }
  }
  return raw;
}
struct HeadElements {
  f32 x[kEach][2 * kWidth];
};
QUERN_DEVICE HeadElements widen_head(const RawHead& raw) {
  HeadElements head;
  QUERN_UNROLL for (int e = 0; e < kEach; ++e) {
    QUERN_UNROLL for (int which = 0; which < 2; ++which)
        widen_packed<X, kWidth>(raw.x[e][which], head.x[e] + which * kWidth);
  }
  return head;
}

template <class T>
QUERN_DEVICE void store_head(T* to, const HeldVectors& held, const HeadElements& head) {
  QUERN_UNROLL for (int e = 0; e < kEach; ++e) {
    QUERN_UNROLL for (int which = 0; which < 2; ++which) {
      if (held.at[e][which] < 0) continue;
      store_packed<T, kWidth>(to + held.at[e][which], narrow_packed<T, kWidth>(head.x[e] + which * kWidth));
    }
  }
}

// x / sqrt(mean(x^2) + eps) (weight + offset). All of the warp take part; a null weight leaves the head as it is.
template <class W>
QUERN_DEVICE void normalise_head(const W* weight, f32 offset, f32 eps, const HeldVectors& held, HeadElements& head) {
  f32 squares = 0.0f;
  QUERN_UNROLL for (int e = 0; e < kEach; ++e) {
    QUERN_UNROLL for (int i = 0; i < 2 * kWidth; ++i) squares = fma(head.x[e][i], head.x[e][i], squares);
  }
  squares = lanes_reduce<kLanes>(squares, Plus());
  if (!weight) return;
  const f32 inverse = rcp(sqrt(fma(squares, 1.0f / DIM_K, eps)));
  QUERN_UNROLL for (int e = 0; e < kEach; ++e) {
    QUERN_UNROLL for (int which = 0; which < 2; ++which) {
      if (held.at[e][which] < 0) continue;
      f32* x = head.x[e] + which * kWidth;
      QUERN_UNROLL for (int i = 0; i < kWidth; ++i) x[i] *= inverse * (to_f32(weight[held.at[e][which] + i]) + offset);
    }
  }
}

// What turns the lane's units of a token.
struct TokenTurns {
  UnitTurns<kWidth> of[kTurns ? kEach : 1];
};
QUERN_DEVICE TokenTurns token_turns(const Rope& rope, i64 position, int team_lane) {
  TokenTurns turns;
  if constexpr (kTurns) {
    QUERN_UNROLL for (int e = 0; e < kEach; ++e) {
      const int unit = e * kLanes + team_lane;
#if HAS_TABLE
      turns.of[e] = turns_from_table<TableElement, HeadK, kWidth>(rope, position, unit);
#else
      turns.of[e] = turns_computed<HeadK, kWidth>(rope, position, unit);
#endif
    }
  } else {
    turns.of[0] = {};
    (void)rope, (void)position, (void)team_lane;
  }
  return turns;
}
QUERN_DEVICE void turn_head(const TokenTurns& turns, int team_lane, HeadElements& head) {
  if constexpr (kTurns) {
    QUERN_UNROLL for (int e = 0; e < kEach; ++e) {
      turn_unit<HeadK, kWidth, kInterleaved>(turns.of[e], e * kLanes + team_lane, head.x[e]);
    }
  } else {
    (void)turns, (void)team_lane, (void)head;
  }
}

// The head's largest finite magnitude. All of the warp take part.
QUERN_DEVICE f32 largest_of(const HeadElements& head) {
  f32 largest = 0.0f;
  QUERN_UNROLL for (int e = 0; e < kEach; ++e) {
    // Times 0 infinities are NaN, which fmax passes over.
    QUERN_UNROLL for (int i = 0; i < 2 * kWidth; ++i) largest =
        fmax(largest, fabs(fma(head.x[e][i], 0.0f, head.x[e][i])));
  }
  return lanes_reduce<kLanes>(largest, Larger());
}
QUERN_DEVICE void divide_head(f32 scale, HeadElements& head) {
  const ScaleDivisor by = scale_divisor(scale);
  QUERN_UNROLL for (int e = 0; e < kEach; ++e) {
    QUERN_UNROLL for (int i = 0; i < 2 * kWidth; ++i) head.x[e][i] = divide_by(head.x[e][i], by);
  }
}

}  // namespace q
