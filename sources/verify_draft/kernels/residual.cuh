// What is left of target's distribution at a node once some of its children have been rejected, and how it is summed up
// and drawn from.
//
// Probabilities are summed up as integers, in units of 2^-43: such sums do not depend on an order, and a draw finds the
// same token however the row is divided. What is less likely than that is never drawn.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/philox.cuh"
#include "renormalise/kernels/tokens.cuh"
#include "verify_draft/params.cuh"

namespace q {

inline constexpr f32 kUnits = 0x1p43f;

enum class Proposal : i32 {
  own,          // each child was chosen: all of its distribution is on its token
  independent,  // drawn from draft's distribution
  distinct      // drawn from what the children before it left of that
};

// The children that were rejected, in order.
struct Rejected {
  i32* tokens;    // [kMostDrafts] in shared memory
  f32* inverses;  // what is left before it was tried, over its sum: times this
  f32* scales;    // of draft's distribution
  i32 count;
  Proposal proposal;
};

QUERN_DEVICE f32 as_probability(f32 p) { return p > 0.0f ? fmin(p, 1.0f) : 0.0f; }

// The token's share of what is left, not over the sum of the last step; of a single rejection it is told below. What is
// needed of the list comes by value: lists whose address is taken would lie in local memory.
QUERN_CALLED f32 residual_after(const i32* tokens, const f32* inverses, const f32* scales, i32 count, Proposal proposal,
                                i32 token, f32 left, f32 drawn) {
  bool gone = false;
  QUERN_ROLLED for (i32 i = 0; i < count; ++i) {
    const bool own = tokens[i] == token;
    f32 taken = drawn;
    if (proposal == Proposal::own) taken = own ? 1.0f : 0.0f;
    if (proposal == Proposal::distinct) taken = gone ? 0.0f : drawn * scales[i];
    left = fmax(fma(left, inverses[i], -taken), 0.0f);
    gone |= own;
  }
  return left;
}
QUERN_DEVICE f32 residual_of(const Rejected& r, i32 token, f32 p, f32 q) {
  return residual_after(r.tokens, r.inverses, r.scales, r.count, r.proposal, token, as_probability(p),
                        as_probability(q));
}

// A node's distributions, target's as probabilities or as logits. Both rows are counted from target's 16-byte boundary;
// draft's may lie elsewhere.
struct Node {
  Slice s;
  KeptRow kept;      // of logits
  const f32* draft;  // null where there is none
  bool draft_vectors;
  i32 vocab;

  QUERN_DEVICE Node(const Element* target, const KeptRow& of_target, const f32* of_draft, i32 n)
      : s(slice_of(target, n)),
        kept(of_target),
        draft(of_draft),
        draft_vectors((reinterpret_cast<u64>(of_draft) - static_cast<u64>(s.shift) * sizeof(f32)) % 16 == 0),
        vocab(n) {}

  // f(j, weights) for each vector of this thread's tokens, those of tile `tile` and the ones behind it. Not where
  // target has nothing there for any lane, as is mostly so of logits.
  template <class F>
  QUERN_DEVICE void each_vector(const Rejected& r, i32 tile, F f) const {
    f32 p[kEach], q[kEach];
    load_elements<Fill::nan>(s, tile, p);
    const bool drawn = draft && r.count > 0;  // else q stays 0
    QUERN_UNROLL for (int i = 0; i < kEach; i += 4) {
      const i32 index = s.place(tile + i / kVector) - s.shift + i % kVector;
      vec16 four{};
      if (drawn && tile + i / kVector < s.last) {
        if (draft_vectors && index >= 0 && index + 4 <= vocab) {
          four = load16_once(draft + index);
        } else {
          QUERN_UNROLL for (int e = 0; e < 4; ++e) {
            if (index + e >= 0 && index + e < vocab) four.x[e] = bits_of(draft[index + e]);
          }
        }
      }
      QUERN_UNROLL for (int e = 0; e < 4; ++e) q[i + e] = f32_of(four.x[e]);
    }
    if constexpr (kLogits) {
      if (!any_stays(kept, p)) return;
      QUERN_ROLLED for (int j = 0; j < kTiles; ++j) {
        // The others move up, so that the code is short.
        weigh(r, s.place(tile + j) - s.shift, j, p, q, f);
        QUERN_UNROLL for (int i = 0; i < kEach - kVector; ++i) p[i] = p[i + kVector], q[i] = q[i + kVector];
      }
    } else {
      QUERN_UNROLL for (int j = 0; j < kTiles; ++j)
          weigh(r, s.place(tile + j) - s.shift, j, p + j * kVector, q + j * kVector, f);
    }
  }

 private:
  template <class F>
  QUERN_DEVICE void weigh(const Rejected& r, i32 first, int j, const f32* of_target, const f32* of_draft, F f) const {
    f32 p[kVector];
    QUERN_UNROLL for (int e = 0; e < kVector; ++e) p[e] =
        kLogits ? probability_of(kept, of_target[e], first + e) : of_target[e];
    u64 weights[kVector];
    if (r.count <= 1) {
      // As at the end of a chain.
      const i32 rejected = r.count == 1 && r.proposal == Proposal::own ? r.tokens[0] : -1;
      QUERN_UNROLL for (int e = 0; e < kVector; ++e) {
        const f32 left = fmax(as_probability(p[e]) - as_probability(of_draft[e]), 0.0f);
        weights[e] = static_cast<u64>((first + e == rejected ? 0.0f : left) * kUnits);
      }
    } else {
      QUERN_UNROLL for (int e = 0; e < kVector; ++e) {
        weights[e] = static_cast<u64>(residual_of(r, first + e, p[e], of_draft[e]) * kUnits);
      }
    }
    f(j, weights);
  }
};

// Of kTiles tiles each, that a warp takes of 2^20 tokens and of what lies before them in their first vector.
inline constexpr i32 kMostTiles = ((1 << 20) + kVector - 1 + kTile - 1) / kTile;
inline constexpr i32 kMostSteps = ((kMostTiles + kWarps - 1) / kWarps + kTiles - 1) / kTiles;

struct DrawRoom {
  u64* of_steps;   // [kWarps * kMostSteps]
  u64* of_warps;   // [kWarps]
  u64* of_blocks;  // [kMostRowBlocks]
  i32* found;      // [1]
};

// The weight of all tokens; the room then has those of each step, warp and block. Barriers at both ends.
QUERN_DEVICE u64 weigh_node(const DrawRoom& room, const Node& node, const Rejected& r) {
  u64 of_warp = 0;
  sync_row();  // what was there before has been read
  QUERN_ROLLED for (i32 tile = node.s.first, step = 0; tile < node.s.last; tile += kTiles, ++step) {
    u64 own = 0;
    node.each_vector(r, tile, [&](int, const u64(&weights)[kVector]) {
      QUERN_UNROLL for (int e = 0; e < kVector; ++e) own += weights[e];
    });
    own = warp_total(own);
    if (lane() == 0) room.of_steps[warp() * kMostSteps + step] = own;
    of_warp += own;
  }
  if (lane() == 0) room.of_warps[warp()] = of_warp;
  sync_block();
  u64 of_block = 0;
  QUERN_ROLLED for (int w = 0; w < kWarps; ++w) of_block += room.of_warps[w];
  if (thread_index() < row_blocks()) tell(room.of_blocks + row_block(), thread_index(), of_block);
  sync_row();
  u64 total = 0;
  QUERN_ROLLED for (i32 b = 0; b < row_blocks(); ++b) total += room.of_blocks[b];
  return total;
}

// The token whose stretch of the line of all weights `target` falls into, behind weigh_node: target is below the total.
QUERN_DEVICE i32 find_token(const DrawRoom& room, const Node& node, const Rejected& r, u64 target) {
  u64 before = 0, own = room.of_warps[warp()];
  QUERN_ROLLED for (i32 b = 0; b < row_block(); ++b) before += room.of_blocks[b];
  QUERN_ROLLED for (int w = 0; w < warp(); ++w) before += room.of_warps[w];
  if (before <= target && target < before + own) {
    // One warp of all.
    i32 step = 0;
    while (target >= before + room.of_steps[warp() * kMostSteps + step])
      before += room.of_steps[warp() * kMostSteps + step++];
    const i32 tile = node.s.first + step * kTiles;
    node.each_vector(r, tile, [&](int j, const u64(&weights)[kVector]) {
      u64 mine = 0;
      QUERN_UNROLL for (int e = 0; e < kVector; ++e) mine += weights[e];
      const u64 through = warp_scan(mine);
      u64 at = before + through - mine;
      QUERN_UNROLL for (int e = 0; e < kVector; ++e) {
        if (at <= target && target < at + weights[e]) {
          const i32 token = node.s.place(tile + j) - node.s.shift + e;
          QUERN_ROLLED for (i32 b = 0; b < row_blocks(); ++b) tell(room.found, b, token);
        }
        at += weights[e];
      }
      before += shuffle(through, kWarp - 1);
    });
  }
  sync_row();
  return room.found[0];
}

}  // namespace q
