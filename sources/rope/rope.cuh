// Turns queries and keys by their tokens' positions, in one launch bound by memory. A team of lanes takes some heads of
// one token, one after the other, and computes the token's sines and cosines once for them.
// SPDX-License-Identifier: Apache-2.0
#include "rope/launch_params.cuh"
#include "rope/strip.cuh"

namespace q {

inline constexpr int kThreads = THREADS;
inline constexpr int kTeams = kThreads / kLanes;

QUERN_DEVICE void turn(const RopeParams& p) {
  const int team_lane = lane() % kLanes;
  const HeldVectors held = held_vectors(team_lane, false);
  const i64 items = static_cast<i64>(p.tokens) * p.strips.value, step = static_cast<i64>(block_count(0)) * kTeams;
  const i64 begin = static_cast<i64>(block_index(0)) * kTeams + thread_index() / kLanes;
  QUERN_ROLLED for (i64 item = begin; item < items; item += step) {
    const i32 token = static_cast<i32>(item) / p.strips;  // the library keeps items below 2^31
    i32 strip = static_cast<i32>(item) - token * p.strips.value;
    const bool keys = strip >= p.heads[0].strips;
    const RopeHeads& heads = p.heads[keys ? 1 : 0];
    if (keys) strip -= p.heads[0].strips;
    turn_strip(heads, p.rope, held, team_lane, token, strip,
               [&] { return TurnedToken{true, integer_at(p.positions, token)}; });
  }
}

}  // namespace q

QUERN_KERNEL(quern_rope, THREADS, BLOCKS_PER_SM, QUERN_PARAM q::RopeParams p) {
  q::launch_next_grid();
  q::wait_for_previous_grid();
  q::turn(p);
}
