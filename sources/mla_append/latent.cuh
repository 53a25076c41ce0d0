// A token's latent on its way through a team's registers: loaded, normalised, quantised, stored.
//
// The kernel defines: D_LATENT, LATENT_WIDTH (elements of a vector), and what rope/heads.cuh asks for.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/reduce.cuh"
#include "common/scale.cuh"
#include "mla_append/params.cuh"
#include "rope/heads.cuh"

namespace q {

inline constexpr int kTeam = kAppendTeam;
inline constexpr int kLatentWidth = LATENT_WIDTH;
inline constexpr int kLatentVectors = D_LATENT / kLatentWidth;
inline constexpr int kHeld = (kLatentVectors + kTeam - 1) / kTeam;  // vectors of a lane: numbers lane, lane + kTeam ..

struct RawLatent {
  Packed<X, kLatentWidth> x[kHeld];
};
struct Latent {
  f32 x[kHeld][kLatentWidth];
};

// The lane's vector `e`, in elements; -1: it holds none.
QUERN_DEVICE i32 latent_vector(int team_lane, int e) {
  const int v = e * kTeam + team_lane;
  return v < kLatentVectors ? v * kLatentWidth : -1;
}

// 0 where the lane holds none.
QUERN_DEVICE RawLatent load_latent(const X* from, int team_lane, bool take) {
  RawLatent raw = {};
  QUERN_UNROLL for (int e = 0; e < kHeld; ++e) {
    const i32 at = latent_vector(team_lane, e);
    if (take && at >= 0) raw.x[e] = load_packed<X, kLatentWidth>(from + at);
  }
  return raw;
}
QUERN_DEVICE Latent widen_latent(const RawLatent& raw) {
  Latent latent;
  QUERN_UNROLL for (int e = 0; e < kHeld; ++e) widen_packed<X, kLatentWidth>(raw.x[e], latent.x[e]);
  return latent;
}
template <class T>
QUERN_DEVICE void store_latent(T* to, int team_lane, const Latent& latent) {
  QUERN_UNROLL for (int e = 0; e < kHeld; ++e) {
    const i32 at = latent_vector(team_lane, e);
    if (at >= 0) store_packed<T, kLatentWidth>(to + at, narrow_packed<T, kLatentWidth>(latent.x[e]));
  }
}

// The lane's numbers of a vector of weights, as they lie in memory.
template <class W>
struct RawWeights {
  static constexpr int kOnce = kLatentWidth * 2 / static_cast<int>(sizeof(W));  // as much as rows are aligned to
  Packed<W, kOnce> x[kHeld][kLatentWidth / kOnce];
};
template <class W>
QUERN_DEVICE RawWeights<W> load_weights(const W* from, int team_lane) {
  constexpr int kOnce = RawWeights<W>::kOnce;
  RawWeights<W> weights = {};
  QUERN_UNROLL for (int e = 0; e < kHeld; ++e) {
    const i32 at = latent_vector(team_lane, e);
    QUERN_UNROLL for (int i = 0; i < kLatentWidth / kOnce; ++i) {
      if (at >= 0) weights.x[e][i] = load_packed<W, kOnce>(from + at + i * kOnce);
    }
  }
  return weights;
}

// x / sqrt(mean(x^2) + eps) * weight. All of the warp take part.
template <class W>
QUERN_DEVICE void normalise_latent(const RawWeights<W>& weights, f32 eps, Latent& latent) {
  constexpr int kOnce = RawWeights<W>::kOnce;
  f32 squares[2] = {};  // one chain would be waited for
  QUERN_UNROLL for (int e = 0; e < kHeld; ++e) {
    QUERN_UNROLL for (int i = 0; i < kLatentWidth; ++i) squares[i % 2] =
        fma(latent.x[e][i], latent.x[e][i], squares[i % 2]);
  }
  const f32 sum = lanes_reduce<kTeam>(squares[0] + squares[1], Plus());
  const f32 inverse = rsqrt(fma(sum, 1.0f / D_LATENT, eps));
  QUERN_UNROLL for (int e = 0; e < kHeld; ++e) {
    QUERN_UNROLL for (int i = 0; i < kLatentWidth; i += kOnce) {
      f32 by[kOnce];
      widen_packed<W, kOnce>(weights.x[e][i / kOnce], by);
      QUERN_UNROLL for (int j = 0; j < kOnce; ++j) latent.x[e][i + j] *= inverse * by[j];
    }
  }
}

// The largest finite magnitude of the lane's own vectors first .. first + count - 1.
template <int first, int count>
QUERN_DEVICE f32 largest_held(const Latent& latent) {
  f32 largest = 0.0f;
  QUERN_UNROLL for (int e = first; e < first + count; ++e) {
    // Times 0 infinities are NaN, which fmax passes over.
    QUERN_UNROLL for (int i = 0; i < kLatentWidth; ++i) largest =
        fmax(largest, fabs(fma(latent.x[e][i], 0.0f, latent.x[e][i])));
  }
  return largest;
}
template <int first, int count>
QUERN_DEVICE void divide_held(f32 scale, Latent& latent) {
  const ScaleDivisor by = scale_divisor(scale);
  QUERN_UNROLL for (int e = first; e < first + count; ++e) {
    QUERN_UNROLL for (int i = 0; i < kLatentWidth; ++i) latent.x[e][i] = divide_by(latent.x[e][i], by);
  }
}

// Divides each kScaleGroup numbers of 512 by a scale of their own, which one of their lanes stores where `scales` is
// given. All of the warp take part.
template <int first = 0>
QUERN_DEVICE void quantise_groups(bool power_of_two, int team_lane, f32* scales, Latent& latent) {
  constexpr int kVectors = kScaleGroup / kLatentWidth;              // of a group,
  constexpr int kLanesOf = kVectors < kTeam ? kVectors : kTeam;     // which so many lanes hold,
  constexpr int kRounds = kVectors > kTeam ? kVectors / kTeam : 1;  // each so many of them
  static_assert(D_LATENT != 512 || (kHeld % kRounds == 0 && kLatentVectors % kTeam == 0), "no lane is left out");
  const f32 largest = lanes_reduce<kLanesOf>(largest_held<first, kRounds>(latent), Larger());
  const f32 scale = scale_for<e4m3>(largest, power_of_two);
  divide_held<first, kRounds>(scale, latent);
  const int group = (first * kTeam + team_lane) / kVectors;
  if (scales && team_lane % kLanesOf == 0) scales[group] = scale;
  if constexpr (first + kRounds < kHeld) quantise_groups<first + kRounds>(power_of_two, team_lane, scales, latent);
}

}  // namespace q
