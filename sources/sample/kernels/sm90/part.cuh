// A cluster takes a row: each of its blocks keeps a part of the logits, as edited, in its shared memory, and tells the
// others what there is to know about each chunk of it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "sample/kernels/sm90/few.cuh"
#include "sample/kernels/sm90/named.cuh"
#include "sample/kernels/stream.cuh"

namespace q {

inline constexpr bool kKeeps = kFilters || kEdits;  // the logits; else the few that are needed are read again
inline constexpr i32 kWarps = kThreads / kWarp;

// The bins of a share that are looked into (top_share.cuh).
struct ShareFound {
  u32 last;                  // the bin that top_p ends in
  u32 from, to;              // those that the draw may end in
  u64 before_last;           // what weighs more than the former
  u64 before_draw, in_draw;  // and than those
};

// What a block has in static shared memory, at the same place in each of the cluster.
struct Desk {
  u64 scratch[2 * kThreads / kWarp];
  u64 few[kSegment], weights[kSegment];
  u64 bins[2][4], tokens[2][2];  // what has been found, in turns
  u32 kth;
  u64 listed_total, race, first, last;  // this block's own, which the others read
  u32 nan;
  alignas(8) u32 listed[2];  // tokens on the list, beyond its end, too
  ShareFound share;
  bool reaches;
};

// The block's part of the row under way, and where things lie in dynamic shared memory.
struct Part {
  i32 rank, blocks;   // this block among those of the cluster
  i32 first, chunks;  // of the row's
  i32 all;            // chunks of the row
  i32 vocab;
  f32* slice;    // [chunks * kChunk] if kKeeps
  u64* stats;    // [all] largest logit and sum of shares, as f32, of what no list names
  f32* middles;  // [all] a logit that a few of each hundred tokens of the chunk reach
  u32* tops;     // [all] keys of the largest logits, where there are lists
  u8* work;      // weights of chunks, histograms and lists
  Named named;   // the tokens that lists name; their values lie in the slice
  bool has_lists;
  Desk* desk;

  QUERN_DEVICE bool lists() const { return kEdits && has_lists; }

  QUERN_DEVICE Room room() const {
    Room r{};
    r.scratch = desk->scratch;
    return r;
  }
  QUERN_DEVICE i32 begin() const { return first * kChunk; }
  QUERN_DEVICE i32 length() const { return chunks * kChunk; }
  QUERN_DEVICE bool owns(i32 token) const { return token >= begin() && token < begin() + length(); }
  QUERN_DEVICE f32 top_of(i32 chunk) const {
    return lists() ? value_of(tops[chunk]) : f32_of(static_cast<u32>(stats[chunk]));
  }
};

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
  part.middles = reinterpret_cast<f32*>(desk->few);
  part.work = shared + room.work;
  part.has_lists = p.slots != 0;
  part.named = {reinterpret_cast<u32*>(shared + room.marks),
                reinterpret_cast<u16*>(shared + room.before),
                reinterpret_cast<u32*>(shared + room.words),
                nullptr,
                part.begin(),
                part.chunks,
                0};
  part.desk = desk;
  return part;
}

// f(r, what block r has there) for each block; all loads are under way at once.
template <class T, class F>
QUERN_DEVICE void each_block(const Part& part, const T* place, F f) {
  T v[kClusterBlocks];
  QUERN_UNROLL for (i32 r = 0; r < kClusterBlocks; ++r) v[r] = of_block(place, r < part.blocks ? r : 0);
  QUERN_UNROLL for (i32 r = 0; r < kClusterBlocks; ++r) {
    if (r < part.blocks) f(r, v[r]);
  }
}
// The last thing that a block does with what others have of a row; after it each may go on alone. Once in a row.
QUERN_DEVICE void release() {
  sync_warp();
  cluster_arrive_relaxed();
}

// ---- Lists
// f(token, where its logit is, what is said of it) for each token of the part that lists name.
template <class F>
QUERN_DEVICE void each_listed_of_part(const Part& part, F f) {
  QUERN_ROLLED for (u32 r = static_cast<u32>(thread_index()); r < part.named.count; r += kThreads) {
    const i32 token = part.named.token_of(r);
    f(token, part.slice + (token - part.begin()), part.named.words[r]);
  }
}

// The slice has the listed tokens' raw logits: makes them what is sampled from. *nan: there was one.
QUERN_DEVICE void settle_listed(const SampleParams& p, const Row& row, const Part& part, bool* nan) {
  sync_block();
  const bool biased = p.bias_offsets != nullptr;
  const auto settle = [&](i32 token, f32* at, f32 x) {
    *nan |= x != x;
    *at = fmax(x, -infinity());
    atomic_max(part.tops + (token >> 10), key_of(*at));
  };
  static_assert(kChunk == 1 << 10);
  each_listed_of_part(part, [&](i32 token, f32* at, u32 said) {
    const bool in_prompt = (said & kPromptBit) != 0 || (row.prompt_mask && bit_at(row.prompt_mask, token));
    f32 x = penalise(row, *at, in_prompt, static_cast<i32>(said & kCountBits) + (row.counts ? row.counts[token] : 0));
    if ((said & kBannedBit) != 0 || (row.allowed && !bit_at(row.allowed, token))) x = -infinity();
    if (biased) {
      *at = x;
    } else {
      settle(token, at, x);
    }
  });
  if (!biased) return;
  sync_block();
  const Biases biases = biases_of(p, row.i);
  QUERN_ROLLED for (i32 at = biases.begin + thread_index(); at < biases.end; at += kThreads) {
    const i32 token = p.bias_ids[at];
    if (!part.owns(token) || token >= p.vocab) continue;
    f32* const x = part.slice + (token - part.begin());
    if (*x != -infinity()) *x += p.bias_values[at];
  }
  sync_block();
  each_listed_of_part(part, [&](i32 token, f32* at, u32) { settle(token, at, *at); });
}
// What the other blocks know of their chunks. Between barriers of the cluster.
QUERN_DEVICE void learn_chunks(const Part& part, i32 chunks_each, bool sieves) {
  QUERN_ROLLED for (i32 c = thread_index(); c < part.all; c += kThreads) {
    const i32 r = c / chunks_each;
    if (r == part.rank) continue;
    part.stats[c] = of_block(part.stats + c, r);
    if (part.lists()) part.tops[c] = of_block(part.tops + c, r);
    if (sieves) part.middles[c] = of_block(part.middles + c, r);
  }
  sync_block();
}

// ---- A chunk: a warp's. Lane l has the vectors that place_in_chunk() says, in shared memory as it would in registers
// 16 bits a logit are copied into the second half of the chunk's place, and widened from there.
inline constexpr i32 kRawAt = sizeof(Logit) == 4 ? 0 : kChunk / 2;

QUERN_DEVICE bool comes_by_vectors(const SampleParams& p, i32 chunk) {
  return p.vectors && (chunk + 1) * kChunk <= p.vocab;
}
// Begins to copy it, as one group of this thread's copies.
QUERN_DEVICE void begin_chunk(const SampleParams& p, const Row& row, const Part& part, i32 c) {
  const i32 chunk = part.first + c;
  if (comes_by_vectors(p, chunk)) {
    // Places of the first, from which the others lie at constant distances.
    Logit* const to = reinterpret_cast<Logit*>(part.slice + c * kChunk + kRawAt) + place_in_chunk(0);
    const Logit* const from = row.logits + (chunk * kChunk + place_in_chunk(0));
    constexpr i32 kStep = kWarp * kVector;
    QUERN_UNROLL for (int j = 0; j < kLoads; ++j) copy_async_16(to + j * kStep, from + j * kStep, true);
  }
  copy_async_commit();
}
// What has been copied becomes f32; what could not be copied is read.
QUERN_DEVICE void widen_chunk(const SampleParams& p, const Row& row, const Part& part, i32 c) {
  const i32 chunk = part.first + c;
  f32* const to = part.slice + c * kChunk;
  if (!comes_by_vectors(p, chunk)) {
    QUERN_FOUR_AT_ONCE for (i32 at = lane(); at < kChunk; at += kWarp) {
      const i32 token = chunk * kChunk + at;
      to[at] = token < p.vocab ? to_f32(row.logits[token]) : -infinity();
    }
    sync_warp();
  } else if constexpr (sizeof(Logit) == 2) {
    const Logit* const from = reinterpret_cast<const Logit*>(to + kRawAt);
    vec16 raw[kLoads];
    QUERN_UNROLL for (int j = 0; j < kLoads; ++j) raw[j] = load16(from + place_in_chunk(j));
    sync_warp();
    QUERN_UNROLL for (int j = 0; j < kLoads; ++j) {
      QUERN_UNROLL for (int h = 0; h < 2; ++h) {
        const f32x2 low = unpack<Logit>(raw[j].x[2 * h]), high = unpack<Logit>(raw[j].x[2 * h + 1]);
        store16(to + place_in_chunk(j) + 4 * h, {{bits_of(low.x), bits_of(low.y), bits_of(high.x), bits_of(high.y)}});
      }
    }
  }
}
struct Vector {
  f32 x[kVector];
};
QUERN_DEVICE Vector load_vector(const f32* from) {
  Vector v;
  QUERN_UNROLL for (int e = 0; e < kVector; e += 4) {
    const vec16 four = load16(from + e);
    QUERN_UNROLL for (int w = 0; w < 4; ++w) v.x[e + w] = f32_of(four.x[w]);
  }
  return v;
}
QUERN_DEVICE void store_vector(f32* to, const Vector& v) {
  QUERN_UNROLL for (int e = 0; e < kVector; e += 4) {
    store16(to + e, {{bits_of(v.x[e]), bits_of(v.x[e + 1]), bits_of(v.x[e + 2]), bits_of(v.x[e + 3])}});
  }
}

// Chunk c of the part: edits it and notes what there is to know of it. The listed tokens' logits stay raw and are left
// out. True where there was a NaN.
QUERN_DEVICE bool take_chunk(const SampleParams& p, const Row& row, const Part& part, i32 c, bool sums, bool sieves,
                             f32 scale, const ChunkMasks& masks) {
  const i32 chunk = part.first + c;
  f32* const slice = part.slice + c * kChunk;
  const u32* const listed = part.lists() ? part.named.marks + c * kGroups : nullptr;
  constexpr u32 kOfLane = (1u << kVector) - 1;
  bool any_nan = false;
  f32 max = -infinity(), sum = 0.0f;
  constexpr int kAtOnce = 2;
  QUERN_ROLLED for (int first = 0; first < kLoads; first += kAtOnce) {
    QUERN_UNROLL for (int j = first; j < first + kAtOnce; ++j) {
      const i32 at = place_in_chunk(j);
      Vector v = load_vector(slice + at);
      if constexpr (kEdits) edit_vector(p, row, chunk * kChunk, j, masks, listed, v.x);
      bool nan = false;
      QUERN_UNROLL for (int e = 0; e < kVector; ++e) nan |= v.x[e] != v.x[e];
      if (nan) {
        QUERN_UNROLL for (int e = 0; e < kVector; ++e) v.x[e] = fmax(v.x[e], -infinity());
        any_nan = true;
      }
      if (kEdits || nan) {
        const u32 raw = listed ? listed[at >> 5] >> (at & 31) & kOfLane : 0u;
        if (raw == 0) {
          store_vector(slice + at, v);
        } else {
          QUERN_UNROLL for (int e = 0; e < kVector; ++e) {
            if ((raw >> e & 1) == 0) slice[at + e] = v.x[e];
          }
        }
      }
      QUERN_UNROLL for (int e = 0; e < kVector; ++e) max = fmax(max, v.x[e]);
    }
  }
  const f32 own = max;
  max = warp_max(max);
  if (kFilters && sieves && max > -infinity()) {
    // Half way between the mean of the lanes' largest and the least of them. What weighs nothing does not count.
    const f32 top = fmax(own, max - 41.0f * rcp_approx(scale));
    const f32 middle = 0.5f * (warp_sum(top) * (1.0f / kWarp) + value_of(warp_min(key_of(top))));
    if (lane() == 0) part.middles[chunk] = middle;
  }
  if (sums && max > -infinity()) {
    QUERN_TWO_AT_ONCE for (int j = 0; j < kLoads; ++j) {
      const i32 at = place_in_chunk(j);
      const Vector v = load_vector(slice + at);
      const u32 raw = listed ? listed[at >> 5] >> (at & 31) : 0u;
      QUERN_UNROLL for (int e = 0; e < kVector; ++e) {
        sum += share_in_chunk((raw >> e & 1) != 0 ? -infinity() : v.x[e], max, scale);
      }
    }
    sum = warp_sum(sum);
  }
  if (lane() == 0) {
    part.stats[chunk] = static_cast<u64>(bits_of(sum)) << 32 | bits_of(max);
    if (part.lists()) part.tops[chunk] = key_of(max);
  }
  return any_nan;
}
// The same of a chunk in registers, for kernels that neither edit nor keep.
QUERN_DEVICE bool take_loaded_chunk(const Part& part, i32 c, bool sums, f32 scale, f32 (&x)[kEach]) {
  const bool nan = take_nan_out(x);
  f32 max = x[0], sum = 0.0f;
  QUERN_UNROLL for (int i = 1; i < kEach; ++i) max = fmax(max, x[i]);
  max = warp_max(max);
  if (sums && max > -infinity()) sum = warp_sum(sum_of_shares(x, max, scale));
  if (lane() == 0) part.stats[part.first + c] = static_cast<u64>(bits_of(sum)) << 32 | bits_of(max);
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
