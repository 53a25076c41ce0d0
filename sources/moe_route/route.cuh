// Routing: every token's experts, and the beginning of the sort by expert. With few tokens, also its end: the last
// thread block to finish places all choices. With more, place.cuh's kernel does, a thread block for each of this
// kernel's.
// SPDX-License-Identifier: Apache-2.0
#include "common/arrival.cuh"
#include "moe_route/choose.cuh"
#include "moe_route/place.cuh"

namespace q {

inline constexpr int kWarps = kThreads / kWarp;

// From each local expert's choices to where its rows begin, and to the outputs that tell of both.
QUERN_DEVICE void begin_experts(const MoeRouteParams& p, const u32* count, u32* next_row) {
  constexpr int kOwn = kCapacity > kThreads ? kCapacity / kThreads : 1;  // experts of a thread, side by side
  constexpr int kScanned = kCapacity / kOwn / kWarp;                     // warps that have any
  QUERN_SHARED(u32, warp_total, kScanned);
  const i32 begin = thread_index() * kOwn;
  const bool has = warp() < kScanned;
  u32 own = 0;
  if (has) {
    QUERN_UNROLL for (int i = 0; i < kOwn; ++i) own += count[begin + i];
  }
  u32 sum = own;  // inclusive over the warp
  QUERN_UNROLL for (int d = 1; d < kWarp; d *= 2) {
    const u32 below = shuffle_up(sum, d);
    if (lane() >= d) sum += below;
  }
  if (has && lane() == kWarp - 1) warp_total[warp()] = sum;
  sync_block();
  u32 row = sum - own;
  QUERN_UNROLL for (int w = 0; w < kScanned; ++w) {
    if (w < warp()) row += warp_total[w];
  }
  if (has) {
    QUERN_UNROLL for (int i = 0; i < kOwn; ++i) {
      const i32 e = begin + i;
      next_row[e] = row;
      if (e <= p.local_experts && p.offsets) p.offsets[e] = static_cast<i32>(row);
      if (e < p.local_experts) {
        if (p.counts) p.counts[e] = static_cast<i32>(count[e]);
        if (p.sort == MoeSort::begun) p.begins[e] = row;
      }
      row += count[e];
    }
    // Where every place for an expert is taken, the end has none of its own.
    if (begin + kOwn == kCapacity && p.local_experts == kCapacity && p.offsets)
      p.offsets[kCapacity] = static_cast<i32>(row);
  }
}

QUERN_DEVICE void route(const MoeRouteParams& p, u32* count) {
  QUERN_SHARED(i32, chosen, kWarps * kMostTopK);
  u32* shared_keys = reinterpret_cast<u32*>(dynamic_shared()) + warp() * kCapacity;
  const i32 begin = block_index(0) * p.chunk;
  const i32 end = begin + p.chunk < p.tokens ? begin + p.chunk : p.tokens;
  QUERN_ROLLED for (i32 token = begin + warp(); token < end; token += kWarps) {
    const i32 id = route_token(p, token, chosen + warp() * kMostTopK, shared_keys);
    const i32 expert = id - p.first_expert;
    if (p.sort != MoeSort::none && id >= 0 && expert >= 0 && expert < p.local_experts) atomic_add(count + expert, 1u);
  }
}

QUERN_DEVICE void route_and_sort(const MoeRouteParams& p) {
  QUERN_SHARED(u32, count, kCapacity);
  QUERN_SHARED(u32, next_row, kCapacity);
  QUERN_SHARED(u32, chosen_by, kCapacity);
  QUERN_ROLLED for (i32 e = thread_index(); e < kCapacity; e += kThreads) count[e] = chosen_by[e] = 0;
  sync_block();
  wait_for_previous_grid();
  route(p, count);
  if (p.sort == MoeSort::none) return;
  sync_block();
  if (p.sort == MoeSort::begun) {
    QUERN_ROLLED for (i32 e = thread_index(); e < p.pitch; e += kThreads)
        p.chunk_counts[static_cast<i64>(block_index(0)) * p.pitch + e] = count[e];
  }
  if (block_count(0) > 1) {
    QUERN_ROLLED for (i32 e = thread_index(); e < p.local_experts; e += kThreads) {
      if (count[e] != 0) atomic_add(p.counters + 1 + e, count[e]);
    }
    QUERN_SHARED(u32, last, 1);
    const auto blocks = [] { return static_cast<u32>(block_count(0)); };
    if (!arrived_last(thread_index() == 0, &last[0], [] { sync_block(); }, [&] { return p.counters; }, blocks)) return;
    QUERN_ROLLED for (i32 e = thread_index(); e < p.local_experts; e += kThreads) {
      count[e] = p.counters[1 + e];
      p.counters[1 + e] = 0;
    }
    sync_block();
  }
  begin_experts(p, count, next_row);
  if (p.sort == MoeSort::whole) place_choices(p, 0, p.tokens, next_row, chosen_by);
}

}  // namespace q

QUERN_KERNEL(quern_moe_route, THREADS, 1, QUERN_PARAM q::MoeRouteParams p) {
  q::launch_next_grid();
  q::route_and_sort(p);
}
