// Sliced-K: the warps of a block form teams, each of which has stages and k blocks of its own; the tile is the sum over
// all teams. For few rows: more warps at work, more bytes in flight, and only a team's own warps meet at its barriers.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gemm/kernels/shared/tile.cuh"

namespace q {

inline constexpr i32 kTeams = TEAMS;
inline constexpr i32 kTeamThreads = kThreads / kTeams;
inline constexpr i32 kTeamBytes = kStages * kStageBytes;  // of a team's stages
static_assert(kTeamThreads * kTeams == kThreads && kTeamThreads % kWarp == 0);

QUERN_DEVICE i32 team() { return kTeams == 1 ? 0 : thread_index() / kTeamThreads; }
QUERN_DEVICE i32 thread_of_team() { return kTeams == 1 ? thread_index() : thread_index() % kTeamThreads; }
QUERN_DEVICE i32 warp_of_team() { return kTeams == 1 ? warp() : warp() % (kTeamThreads / kWarp); }

QUERN_DEVICE void sync_team() {
  if constexpr (kTeams == 1) {
    sync_block();
  } else {
#ifdef QUERN_NAMED_BARRIERS
    sync_named(1 + team(), kTeamThreads);
#endif
  }
}

}  // namespace q
