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

// The lowest token with the largest logit. Behind release().
QUERN_DEVICE OwnChoice choose_largest(const Part& part, const Row& row, f32 max) {
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
QUERN_DEVICE OwnChoice choose_of_row(const Part& part, const Row& row, const RowSums& sums, u64 random,
                                     u64 random_within) {
  const Room room = part.room();
  u64* const tokens = part.desk->tokens;  // the first two are 0
  const u64 target = place_on_line(random, sums.total());
  const bool of_listed = kEdits && target >= sums.of_chunks;
  i32 id = -1;
  if (of_listed) {
    u64 best = ~u64{0};
    QUERN_ROLLED for (i32 r = 0; r < part.blocks; ++r) {
      const u64 its = of_block(&part.desk->race, r);
      best = its < best ? its : best;
    }
    // Used before the others may go on, whose memory it was.
    id = shuffle(best == ~u64{0} ? -1 : static_cast<i32>(static_cast<u32>(best)), 0);
  }
  release();
  if (of_listed) {
    const bool mine = id < 0 ? part.rank == 0 : part.owns(id);
    return {mine, id, mine && id >= 0 ? logit_of(part, row, id, false) : 0.0f};
  }
  u64 before = sums.before;
  const Run run(part.all);
  QUERN_ROLLED for (i32 c = run.begin; c < run.end; ++c) {
    const u64 weight = part.weights[c];
    if (before <= target && target < before + weight) tokens[0] = static_cast<u64>(c) + 1;
    before += weight;
  }
  sync_block();
  const i32 chunk = static_cast<i32>(tokens[0]) - 1;
  if (chunk < part.first || chunk >= part.first + part.chunks) return {false, -1, 0.0f};
  const f32 top = part.notes[chunk].max;
  u64 weight[kOwnTokens], own = 0;
  f32 x[kOwnTokens];
  const i32 from = chunk * kChunk + thread_index() * kOwnTokens;
  QUERN_UNROLL for (int j = 0; j < kOwnTokens; ++j) x[j] = logit_of(part, row, from + j, true);
  QUERN_UNROLL for (int j = 0; j < kOwnTokens; ++j) {
    weight[j] = to_units(share_of_largest(top, x[j], sums.scale));
    own += weight[j];
  }
  before = sum_before(room.scratch, own);
  const u64 within = place_on_line(random_within, room.scratch[kWarps]);
  QUERN_UNROLL for (int j = 0; j < kOwnTokens; ++j) {
    if (before <= within && within < before + weight[j])
      tokens[1] = static_cast<u64>(bits_of(x[j])) << 32 | static_cast<u32>(from + j + 1);
    before += weight[j];
  }
  sync_block();
  const u64 found = tokens[1];
  return {true, static_cast<i32>(static_cast<u32>(found)) - 1, f32_of(static_cast<u32>(found >> 32))};
}

// A logit that k of the chunks' largest reach, and not many more do, so that k tokens or more lie no lower: what lies
// between the least and the largest of these is halved. k is at most their number. By each warp.
QUERN_DEVICE f32 kth_top(const Part& part, u32 k, f32 max) {
  // A lane's first few stay in registers: notes lie four to a turn of the banks.
  constexpr i32 kHeldTops = 4;
  f32 top[kHeldTops];
  QUERN_UNROLL for (int j = 0; j < kHeldTops; ++j) {
    const i32 c = lane() + j * kWarp;
    const f32 its = part.top_of(c < part.all ? c : 0);
    top[j] = c < part.all ? its : infinity();
  }
  f32 least = fmin(fmin(top[0], top[1]), fmin(top[2], top[3]));
  constexpr i32 kBehind = kHeldTops * kWarp;
  QUERN_ROLLED for (i32 c = kBehind + lane(); c < part.all; c += kWarp) least = fmin(least, part.top_of(c));
  QUERN_UNROLL for (int j = 0; j < kHeldTops; ++j) top[j] = lane() + j * kWarp < part.all ? top[j] : -infinity();
  // k or more reach the one, fewer the other.
  u32 low = warp_min(key_of(least)), high = key_of(max) + 1;
  QUERN_ROLLED while (high - low > 1) {
    const u32 middle = low + (high - low) / 2;
    const f32 bound = value_of(middle);
    u32 reach = 0;
    QUERN_UNROLL for (int j = 0; j < kHeldTops; ++j) reach += top[j] >= bound ? 1u : 0u;
    QUERN_ROLLED for (i32 c = kBehind + lane(); c < part.all; c += kWarp) reach += part.top_of(c) >= bound ? 1u : 0u;
    reach = warp_total(reach);
    low = reach >= k ? middle : low, high = reach >= k ? high : middle;
    if (reach >= k && reach - k <= k / 8) break;
  }
  return value_of(low);
}

}  // namespace q
