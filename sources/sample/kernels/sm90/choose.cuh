// What a cluster does once its blocks know each other's chunks: the choice. Each function is called by all threads of
// all blocks and takes the same way in each of them; where it returns an OwnChoice, one block alone has it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "sample/kernels/sm90/search.cuh"

namespace q {

struct OwnChoice {
  bool mine;  // this block has it
  i32 id;
  f32 x;  // its logit
};

// One of this block's chunks, a token for each thread and step, in order: f(token, logit). Without what lists name if
// `unlisted`.
inline constexpr i32 kOwnTokens = kChunk / kThreads;
QUERN_DEVICE f32 logit_of(const Part& part, const Row& row, i32 token, bool unlisted) {
  if constexpr (kKeeps) {
    const i32 local = token - part.begin();
    return unlisted && part.lists() && bit_at(part.marks, local) ? -infinity() : part.slice[local];
  } else {
    return token < part.vocab ? fmax(to_f32(row.logits[token]), -infinity()) : -infinity();
  }
}

// The lowest token with the largest logit.
QUERN_DEVICE OwnChoice choose_largest(const Part& part, const Row& row, f32 max) {
  release();
  u32 chunk = ~0u;
  QUERN_ROLLED for (i32 c = lane(); c < part.all; c += kWarp) {
    if (chunk == ~0u && part.top_of(c) == max) chunk = static_cast<u32>(c);
  }
  const i32 its = static_cast<i32>(warp_min(chunk));
  if (warp() != 0 || its < part.first || its >= part.first + part.chunks) return {false, -1, 0.0f};
  u32 best = ~0u;
  QUERN_ROLLED for (i32 from = its * kChunk; from < (its + 1) * kChunk && warp_min(best) == ~0u; from += 8 * kWarp) {
    f32 x[8];
    QUERN_UNROLL for (int j = 0; j < 8; ++j) x[j] = logit_of(part, row, from + j * kWarp + lane(), false);
    QUERN_UNROLL for (int j = 7; j >= 0; --j) best = x[j] == max ? static_cast<u32>(from + j * kWarp + lane()) : best;
  }
  return {true, static_cast<i32>(warp_min(best)), max};
}

// Of the whole row, by the sums over its chunks: the chunk, then the token.
QUERN_DEVICE OwnChoice choose_of_row(const Part& part, const Row& row, const RowSums& sums, const Stream& stream,
                                     u64 random) {
  const Room room = part.room();
  const u64 target = scale_to(random, sums.total());
  if (kEdits && target >= sums.of_chunks) {
    u64 best = ~u64{0};
    QUERN_ROLLED for (i32 r = 0; r < part.blocks; ++r) {
      const u64 its = of_block(&part.desk->race, r);
      best = its < best ? its : best;
    }
    // Used before the others may go on, whose memory it was.
    const i32 id = shuffle(best == ~u64{0} ? -1 : static_cast<i32>(static_cast<u32>(best)), 0);
    release();
    const bool mine = id < 0 ? part.rank == 0 : part.owns(id);
    return {mine, id, mine && id >= 0 ? logit_of(part, row, id, false) : 0.0f};
  }
  release();
  const i32 chunk = find_on_line(room.scratch, part.all, target, part.weights);
  if (chunk < part.first || chunk >= part.first + part.chunks) return {false, -1, 0.0f};
  const f32 top = part.notes[chunk].max;
  u64 weight[kOwnTokens], own = 0;
  const i32 from = chunk * kChunk + thread_index() * kOwnTokens;
  QUERN_UNROLL for (int j = 0; j < kOwnTokens; ++j) {
    weight[j] = to_units(share_of_largest(top, logit_of(part, row, from + j, true), sums.scale));
    own += weight[j];
  }
  u64 before = sum_before(room.scratch, own);
  const u64 within = scale_to(wide(stream.at(kWithinChunk)), room.scratch[kThreads / kWarp]);
  u32 found = 0;
  QUERN_UNROLL for (int j = 0; j < kOwnTokens; ++j) {
    if (before <= within && within < before + weight[j]) found = static_cast<u32>(from + j) + 1;
    before += weight[j];
  }
  sync_block();
  const i32 id = static_cast<i32>(reduce_max(room, found)) - 1;
  return {true, id, id >= 0 ? logit_of(part, row, id, false) : 0.0f};
}

// The k-th largest of the chunks' largest logits: k tokens or more lie no lower. k is at most their number. desk.kth is
// 0.
QUERN_DEVICE f32 kth_top(const Part& part, u32 k) {
  u32 found = 0;
  // A few lanes next to each other compare one chunk's, each with its share of all.
  constexpr i32 kSharers = 4, kOwn = kWarp / kSharers;
  QUERN_ROLLED for (i32 base = warp() * kOwn; base < part.all; base += kThreads / kSharers) {
    const i32 c = base + lane() / kSharers;
    const f32 own = c < part.all ? part.top_of(c) : infinity();
    u32 no_lower = 0;
    QUERN_FOUR_AT_ONCE for (i32 j = lane() & (kSharers - 1); j < part.all; j += kSharers) {
      no_lower += part.top_of(j) >= own ? 1u : 0u;
    }
    QUERN_UNROLL for (int d = 1; d < kSharers; d *= 2) no_lower += shuffle_xor(no_lower, d);
    const u32 largest = warp_max(no_lower >= k && c < part.all ? key_of(own) : 0u);
    found = largest > found ? largest : found;
  }
  if (lane() == 0 && found != 0) atomic_max(&part.desk->kth, found);
  sync_block();
  return value_of(part.desk->kth);
}

}  // namespace q
