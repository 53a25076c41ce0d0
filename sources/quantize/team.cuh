// The threads that share a row, and what they find out together: a part of a warp, a warp, or the whole block.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/reduce.cuh"

namespace q {

inline constexpr int kThreads = THREADS;
inline constexpr int kTeam = TEAM;        // threads of a row
inline constexpr int kVectors = VECTORS;  // that a thread holds at once
inline constexpr int kTeams = kThreads / kTeam;
static_assert(kTeam == kThreads || (kTeam <= kWarp && (kTeam & (kTeam - 1)) == 0),
              "a row is a warp's, a part's of one, or a block's");

// Joins over many threads, one result after the other. Two results take turns with the shared memory: who writes the
// next but one has passed the barrier of the next, and all have read this one by then.
class Joiner {
 public:
  QUERN_DEVICE explicit Joiner(f32* shared) : shared_(shared) {}

  template <class Join>
  QUERN_DEVICE f32 team(f32 v, Join join) {
    if constexpr (kTeam <= kWarp) {
      return lanes_reduce<kTeam>(v, join);
    } else {
      return block(v, join);
    }
  }
  template <class Join>
  QUERN_DEVICE f32 block(f32 v, Join join) {
    v = lanes_reduce<kWarp>(v, join);
    if constexpr (kThreads > kWarp) {
      f32* here = shared_ + turn_ * kWarps;
      turn_ ^= 1;
      if (lane() == 0) here[warp()] = v;
      sync_block();
      v = here[0];
      QUERN_UNROLL for (int w = 1; w < kWarps; ++w) v = join(v, here[w]);
    }
    return v;
  }

  // Two sums at once. A kernel that joins pairs has twice the shared memory for them, and joins nothing else.
  QUERN_DEVICE void sum_pair(f32& a, f32& b) {
    constexpr int kLanes = kTeam <= kWarp ? kTeam : kWarp;
    a = lanes_reduce<kLanes>(a, Plus()), b = lanes_reduce<kLanes>(b, Plus());
    if constexpr (kTeam > kWarp) {
      f32* here = shared_ + turn_ * 2 * kWarps;
      turn_ ^= 1;
      if (lane() == 0) here[warp()] = a, here[kWarps + warp()] = b;
      sync_block();
      a = here[0], b = here[kWarps];
      QUERN_UNROLL for (int w = 1; w < kWarps; ++w) a += here[w], b += here[kWarps + w];
    }
  }

  static constexpr int kWarps = (kThreads + kWarp - 1) / kWarp;

 private:
  f32* shared_;
  int turn_ = 0;
};

}  // namespace q
