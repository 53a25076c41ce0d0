// A cluster takes a row: each of its blocks keeps a part of the logits, as edited, in its shared memory, and tells the
// others what there is to know about each chunk of it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/sm90/tma.cuh"
#include "sample/kernels/random.cuh"
#include "sample/kernels/report.cuh"
#include "sample/kernels/stream.cuh"

namespace q {

inline constexpr bool kKeeps = kFilters || kEdits;  // the logits; else the few that are needed are read again
inline constexpr i32 kWarps = kThreads / kWarp;

// What a block has in static shared memory, at the same place in each of the cluster.
struct Desk {
  u64 scratch[kThreads / kWarp + 4];
  u64 few[kThreads], weights[kThreads];
  u64 found[4];
  u64 total, listed_total, race;  // this block's own, which the others read
  u32 nan;
  u32 listed[2];  // tokens on the list, beyond its end, too
};

// The block's part of the row under way, and where things lie in dynamic shared memory.
struct Part {
  i32 rank, blocks;   // this block among those of the cluster
  i32 first, chunks;  // of the row's
  i32 all;            // chunks of the row
  i32 vocab;
  f32* slice;     // [chunks * kChunk] if kKeeps
  u64* stats;     // [all] largest logit and sum of shares, as f32, of what no list names
  u32* tops;      // [all] keys of the largest logits, where there are lists
  u32* marks;     // [chunks * kGroups] bits of the tokens that lists name
  u8* work;       // the table of listed tokens; then histograms and lists; then weights of chunks
  EditTable table;  // of this part's tokens, without values
  bool named;
  Desk* desk;

  QUERN_DEVICE bool lists() const { return kEdits && named; }

  QUERN_DEVICE Room room() const {
    Room r{};
    r.scratch = desk->scratch, r.few = desk->few, r.weights = desk->weights;
    return r;
  }
  QUERN_DEVICE i32 begin() const { return first * kChunk; }
  QUERN_DEVICE i32 length() const { return chunks * kChunk; }
  QUERN_DEVICE bool owns(i32 token) const { return token >= begin() && token < begin() + length(); }
  QUERN_DEVICE f32 top_of(i32 chunk) const {
    return lists() ? value_of(tops[chunk]) : f32_of(static_cast<u32>(stats[chunk]));
  }
};

// What block r has at this place.
template <class T>
QUERN_DEVICE T of_block(const T* place, i32 r) {
  return load_cluster<T>(cluster_address(place, static_cast<u32>(r)));
}

QUERN_DEVICE Part part_of(const SampleParams& p, Desk* desk) {
  Part part{};
  part.rank = static_cast<i32>(cluster_rank()), part.blocks = static_cast<i32>(cluster_size());
  part.all = p.chunks, part.vocab = p.vocab;
  part.first = part.rank * p.chunks_per_block;
  const i32 rest = p.chunks - part.first;
  part.chunks = rest < 0 ? 0 : rest < p.chunks_per_block ? rest : p.chunks_per_block;
  const ClusterRoom room = cluster_room(p.chunks, p.chunks_per_block, kKeeps, kFilters, p.slots);
  u8* const shared = dynamic_shared();
  part.slice = reinterpret_cast<f32*>(shared);
  part.stats = reinterpret_cast<u64*>(shared + room.stats);
  part.tops = reinterpret_cast<u32*>(shared + room.tops);
  part.marks = reinterpret_cast<u32*>(shared + room.marks);
  part.work = shared + room.work;
  part.named = p.slots != 0;
  part.desk = desk;
  return part;
}

// ---- Lists
// The table of those that lists name among the part's tokens. All threads; ends with a barrier.
QUERN_DEVICE void list_part(const SampleParams& p, const Row& row, Part* part) {
  EditTable& table = part->table;
  table.slots = static_cast<u32>(p.slots);
  table.tokens = reinterpret_cast<u32*>(part->work);
  table.counts = table.tokens + table.slots;
  bins_zero<kThreads>(part->marks, part->chunks * kGroups);
  QUERN_ROLLED for (i32 s = thread_index(); s < p.slots; s += kThreads) {
    table.tokens[s] = EditTable::kFree, table.counts[s] = 0;
  }
  sync_block();
  each_edited(p, row.i, [&](i32 token, From from, i32) {
    if (!part->owns(token)) return;
    const u32 slot = table.slot_for(token), local = static_cast<u32>(token - part->begin());
    atomic_or(part->marks + (local >> 5), 1u << (local & 31));
    if (from == From::output) atomic_add(table.counts + slot, 1u);
    if (from == From::prompt) atomic_or(table.counts + slot, EditTable::kInPrompt);
    if (from == From::banned) atomic_or(table.counts + slot, EditTable::kBanned);
  });
  sync_block();
}

template <class F>
QUERN_DEVICE void each_listed_of_part(const Part& part, F f) {
  QUERN_ROLLED for (u32 s = static_cast<u32>(thread_index()); s < part.table.slots; s += kThreads) {
    const u32 token = part.table.tokens[s];
    if (token != EditTable::kFree) f(static_cast<i32>(token), part.slice + (static_cast<i32>(token) - part.begin()), s);
  }
}

// The slice has the listed tokens' raw logits: makes them what is sampled from. *nan: there was one.
QUERN_DEVICE void settle_listed(const SampleParams& p, const Row& row, const Part& part, bool* nan) {
  sync_block();
  each_listed_of_part(part, [&](i32 token, f32* at, u32 slot) {
    const u32 count = part.table.counts[slot];
    f32 x = penalise(row, *at, (count & EditTable::kInPrompt) != 0 || (row.prompt_mask && bit_at(row.prompt_mask, token)),
                     static_cast<i32>(count & (EditTable::kInPrompt - 1)) + (row.counts ? row.counts[token] : 0));
    if ((count & EditTable::kBanned) != 0 || (row.allowed && !bit_at(row.allowed, token))) x = -infinity();
    *at = x;
  });
  sync_block();
  const Biases biases = biases_of(p, row.i);
  QUERN_ROLLED for (i32 at = biases.begin + thread_index(); at < biases.end; at += kThreads) {
    const i32 token = p.bias_ids[at];
    if (!part.owns(token) || token >= p.vocab) continue;
    f32* const x = part.slice + (token - part.begin());
    if (*x != -infinity()) *x += p.bias_values[at];
  }
  sync_block();
  each_listed_of_part(part, [&](i32 token, f32* at, u32) {
    const f32 x = *at;
    *nan |= x != x;
    *at = fmax(x, -infinity());
    atomic_max(part.tops + (token >> 10), key_of(*at));
  });
  static_assert(kChunk == 1 << 10);
}
// What the other blocks know of their chunks. Between barriers of the cluster.
QUERN_DEVICE void learn_chunks(const Part& part, i32 chunks_each) {
  QUERN_ROLLED for (i32 c = thread_index(); c < part.all; c += kThreads) {
    const i32 r = c / chunks_each;
    if (r == part.rank) continue;
    part.stats[c] = of_block(part.stats + c, r);
    if (part.lists()) part.tops[c] = of_block(part.tops + c, r);
  }
  sync_block();
}

// ---- A chunk
QUERN_DEVICE void keep_vector(f32* to, const f32* x) {
  QUERN_UNROLL for (int e = 0; e < kVector; e += 4) {
    store16(to + e, {{bits_of(x[e]), bits_of(x[e + 1]), bits_of(x[e + 2]), bits_of(x[e + 3])}});
  }
}

// Chunk c of the part, as it came into x: edits it, keeps it and notes what there is to know of it. True where there was a NaN.
QUERN_DEVICE bool take_chunk(const SampleParams& p, const Row& row, const Part& part, i32 c, bool sums, f32 scale,
                             f32 (&x)[kEach]) {
  const i32 chunk = part.first + c;
  f32* const to = part.slice + c * kChunk;
  const u32* const listed = part.lists() ? part.marks + c * kGroups : nullptr;
  if constexpr (kEdits) {
    if (listed) {
      QUERN_UNROLL for (int j = 0; j < kLoads; ++j) keep_vector(to + place_in_chunk(j), x + j * kVector);
    }
    edit_chunk(p, row, chunk * kChunk, listed, x);
  }
  const bool nan = take_nan_out(x);
  if constexpr (kKeeps) {
    QUERN_UNROLL for (int j = 0; j < kLoads; ++j) {
      const i32 at = place_in_chunk(j);
      constexpr u32 kOfLane = (1u << kVector) - 1;
      const u32 raw = listed ? listed[at >> 5] >> (at & 31) & kOfLane : 0u;
      if (raw == 0) {
        keep_vector(to + at, x + j * kVector);
      } else {
        QUERN_UNROLL for (int e = 0; e < kVector; ++e) {
          if ((raw >> e & 1) == 0) to[at + e] = x[j * kVector + e];
        }
      }
    }
  }
  f32 max = x[0], sum = 0.0f;
  QUERN_UNROLL for (int i = 1; i < kEach; ++i) max = fmax(max, x[i]);
  max = warp_max(max);
  if (sums && max > -infinity()) sum = warp_sum(sum_of_shares(x, max, scale));
  if (lane() == 0) {
    part.stats[chunk] = static_cast<u64>(bits_of(sum)) << 32 | bits_of(max);
    if (part.lists()) part.tops[chunk] = key_of(max);
  }
  return nan;
}

// ---- What the chunks come to, the same in every block
struct RowSums {
  f32 max, scale;
  u64 of_chunks, of_listed;
  QUERN_DEVICE u64 total() const { return of_chunks + of_listed; }
};
QUERN_DEVICE u64 weight_of_chunk(const Part& part, i32 chunk, f32 max, f32 inverse_temperature) {
  const f32 top = f32_of(static_cast<u32>(part.stats[chunk])), sum = f32_of(static_cast<u32>(part.stats[chunk] >> 32));
  if (!(top > -infinity())) return 0;
  return static_cast<u64>(sum * exp_of_minus(at_most(distance(max, top, inverse_temperature), 128.0f)) * kUnits);
}

}  // namespace q
