// A team's share of a token's heads, turned one after the other. The kernel defines what rope/heads.cuh asks for.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rope/heads.cuh"
#include "rope/launch_params.cuh"

namespace q {

struct TurnedToken {
  bool taken;  // else its heads are left alone
  i64 position;
};

// Heads strip, strip + heads.strips and so on of `token`. find() tells where the token is: it is called once what comes
// from memory is on its way, and again what is loaded comes while the head before is at work.
template <class Find>
QUERN_DEVICE void turn_strip(const RopeHeads& heads, const Rope& rope, const HeldVectors& held, int team_lane,
                             i32 token, i32 strip, const Find& find) {
  const X* from = static_cast<const X*>(heads.from) + token * heads.from_token;
  RawHead next = load_head(from + strip * heads.from_head, held, true);
  const TurnedToken at = find();
  if (!at.taken) return;
  const TokenTurns turns = token_turns(rope, at.position, team_lane);
  QUERN_ROLLED for (i32 h = strip; h < heads.heads; h += heads.strips) {
    HeadElements head = widen_head(next);
    const i32 after = h + heads.strips;
    next = load_head(from + after * heads.from_head, held, after < heads.heads);
    turn_head(turns, team_lane, head);
    store_head(static_cast<X*>(heads.to) + token * heads.to_token + h * heads.to_head, held, head);
  }
}

}  // namespace q
