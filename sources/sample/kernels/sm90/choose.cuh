// What a cluster does once its blocks know each other's chunks: the choice. Each function is called by all threads of
// all blocks and takes the same way in each of them; where it returns a Choice, one block alone has it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "sample/kernels/sm90/search.cuh"

namespace q {

struct Choice {
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
QUERN_DEVICE Choice choose_largest(const Part& part, const Row& row, f32 max) {
  const Room room = part.room();
  u32 chunk = ~0u;
  QUERN_ROLLED for (i32 c = thread_index(); c < part.all; c += kThreads) {
    if (chunk == ~0u && part.top_of(c) == max) chunk = static_cast<u32>(c);
  }
  const i32 its = static_cast<i32>(reduce_min(room, chunk));
  if (its < part.first || its >= part.first + part.chunks) return {false, -1, 0.0f};
  u32 best = ~0u;
  f32 x[kOwnTokens];
  const i32 from = its * kChunk + thread_index() * kOwnTokens;
  QUERN_UNROLL for (int j = 0; j < kOwnTokens; ++j) x[j] = logit_of(part, row, from + j, false);
  QUERN_UNROLL for (int j = kOwnTokens - 1; j >= 0; --j) best = x[j] == max ? static_cast<u32>(from + j) : best;
  return {true, static_cast<i32>(reduce_min(room, best)), max};
}

// Of the whole row, by the sums over its chunks: the chunk, then the token.
QUERN_DEVICE Choice choose_of_row(const Part& part, const Row& row, const RowSums& sums, const Stream& stream) {
  const Room room = part.room();
  const u64* const weights = reinterpret_cast<const u64*>(part.work);
  const u64 target = scale_to(wide(stream.of_row()), sums.total());
  if (kEdits && target >= sums.of_chunks) {
    u64 best = ~u64{0};
    QUERN_ROLLED for (i32 r = 0; r < part.blocks; ++r) {
      const u64 its = of_block(&part.desk->race, r);
      best = its < best ? its : best;
    }
    const i32 id = best == ~u64{0} ? -1 : static_cast<i32>(static_cast<u32>(best));
    const bool mine = id < 0 ? part.rank == 0 : part.owns(id);
    return {mine, id, mine && id >= 0 ? logit_of(part, row, id, false) : 0.0f};
  }
  const i32 chunk = find_on_line(room, part.all, target, weights);
  if (chunk < part.first || chunk >= part.first + part.chunks) return {false, -1, 0.0f};
  const f32 top = f32_of(static_cast<u32>(part.stats[chunk]));
  u64 weight[kOwnTokens], own = 0, total;
  const i32 from = chunk * kChunk + thread_index() * kOwnTokens;
  QUERN_UNROLL for (int j = 0; j < kOwnTokens; ++j) {
    weight[j] = to_units(share_of_largest(top, logit_of(part, row, from + j, true), sums.scale));
    own += weight[j];
  }
  u64 before = block_scan<kThreads>(own, room.scratch, &total);
  const u64 within = scale_to(wide(stream.at(kWithinChunk)), total);
  u32 found = 0;
  QUERN_UNROLL for (int j = 0; j < kOwnTokens; ++j) {
    if (before <= within && within < before + weight[j]) found = static_cast<u32>(from + j) + 1;
    before += weight[j];
  }
  sync_block();
  const i32 id = static_cast<i32>(reduce_max(room, found)) - 1;
  return {true, id, id >= 0 ? logit_of(part, row, id, false) : 0.0f};
}

// The k-th largest of the chunks' largest logits, as a key: k tokens or more lie no lower. k is at most their number.
QUERN_CALLED u32 key_of_kth_top(const Part& part, u32 k) {
  u64* const keys = reinterpret_cast<u64*>(part.work);
  QUERN_ROLLED for (i32 c = thread_index(); c < part.all; c += kThreads) {
    keys[c] = static_cast<u64>(key_of(part.top_of(c))) << 32 | static_cast<u32>(c);
  }
  sync_block();
  u32 found = 0;
  QUERN_ROLLED for (i32 c = thread_index(); c < part.all; c += kThreads) {
    const u64 own = keys[c];
    u32 larger = 0;
    QUERN_FOUR_AT_ONCE for (i32 j = 0; j < part.all; ++j) larger += keys[j] > own;
    if (larger + 1 == k) found = static_cast<u32>(own >> 32);
  }
  return reduce_max(part.room(), found);
}

// Of a few tokens in the first block: the k largest, the share of those, one of what is left.
QUERN_DEVICE Choice choose_of_list(const Part& part, const Scope& scope, const Settings& s, i32 count,
                                   const Stream& stream) {
  if (part.rank != 0) return {false, -1, 0.0f};
  const Room room = part.room();
  const i32 t = thread_index();
  const bool there = t < count;
  const Place place = there ? room.few[t] : Place{0};
  const u64 units = there ? scope.weigh(value_at(place)) : u64{0};
  room.weights[t] = units;
  sync_block();
  u32 rank = 0;
  u64 before = 0;
  QUERN_FOUR_AT_ONCE for (i32 i = 0; i < count; ++i) {
    const bool larger = room.few[i] > place;
    rank += larger, before += larger ? room.weights[i] : 0;
  }
  bool stays = there && (s.top_k <= 0 || rank < static_cast<u32>(s.top_k));
  if (s.top_p < 1.0f) stays = share_of(s.top_p, reduce_sum(room, stays ? units : u64{0}), false) > before && stays;
  const u64 target = scale_to(wide(stream.of_row()), reduce_sum(room, stays ? units : u64{0}));
  const bool drawn = stays && before <= target && target < before + units;
  const Place found = reduce_max(room, drawn ? place : Place{0});
  return {true, found == 0 ? -1 : index_at(found), value_at(found)};
}

// What filters leave, whatever that is.
QUERN_DEVICE Choice choose_by_search(const Part& part, const Scope& scope, const Settings& s, bool counts, bool joint,
                                     const Stream& stream) {
  Desk& desk = *part.desk;
  Bins::of(part).zero();
  sync_block();
  const u64 own = reduce_sum(part.room(), bin_part(part, scope, counts));
  if (thread_index() == 0) desk.total = own;
  sync_cluster_shared();
  u64 all = 0, of_bins;
  QUERN_ROLLED for (i32 r = 0; r < part.blocks; ++r) all += of_block(&desk.total, r);
  Search search{part, scope, add_up(part, &of_bins), 0};
  u64 left = all;
  if (counts) {
    const FoundToken last = search.find(By::count, static_cast<u64>(s.top_k));
    if (last.place != 0) left = last.through;
  }
  if (s.top_p < 1.0f) {
    const u64 share = share_of(s.top_p, joint ? all : left, false);
    if (share < left) left = search.find(By::weight, share).through;
  }
  const Place found = search.find(By::weight, scale_to(wide(stream.of_row()), left) + 1).place;
  return {part.rank == 0, found == 0 ? -1 : index_at(found), value_at(found)};
}

QUERN_DEVICE Choice choose_of_filtered(const SampleParams& p, const Part& part, const RowSums& sums, const Settings& s,
                                       f32 inverse_temperature, const Stream& stream) {
  const bool counts = s.top_k > 0 && s.top_k < p.vocab, joint = p.joint && counts && s.top_p < 1.0f;
  Scope scope{sums.max, sums.scale, 0.0f, -infinity()};
  if (s.min_p > 0.0f) scope.least = fmin(sums.max + log(s.min_p) / inverse_temperature, sums.max);
  const bool few = counts && s.top_k <= p.chunks;
  if (!joint && (few || s.min_p > 0.0f)) {
    u32 key = key_of(scope.least);
    if (few) {
      const u32 kth = key_of_kth_top(part, static_cast<u32>(s.top_k));
      key = kth > key ? kth : key;
    }
    key = key > kDead ? key : kDead + 1;
    const i32 count = collect_all(part, scope, {value_of(key), infinity(), kNoBin, 0, ~u64{0}}, 1, false);
    if (count >= 0) return choose_of_list(part, scope, s, count, stream);
  }
  // Beyond so many powers of 2 a token weighs nothing, or too little to be within top_p, or is not there.
  f32 most = 41.0f;
  if (!counts && s.top_p < 1.0f) most = fmin(most, 0.5f - log2((1.0f - s.top_p) / static_cast<f32>(p.vocab)));
  if (s.min_p > 0.0f) most = fmin(most, 0.5f - log2(s.min_p));
  scope.per = static_cast<f32>(kSpots) / most;
  return choose_by_search(part, scope, s, counts, joint, stream);
}

}  // namespace q
