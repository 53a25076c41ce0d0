// What the blocks of a cluster that share a row know of each other, and of a row's chunks.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/sm90/tma.cuh"
#include "sample/kernels/random.cuh"
#include "sample/kernels/report.cuh"
#include "sample/kernels/stream.cuh"

namespace q {

inline constexpr i32 kWarps = kThreads / kWarp;

// What block r has at this place.
template <class T>
QUERN_DEVICE T of_block(const T* place, i32 r) {
  return load_cluster<T>(cluster_address(place, static_cast<u32>(r)));
}
// f(r, what block r has there) for the first `blocks` blocks, of a place that is the same for all lanes, which all
// call.
template <class T, class F>
QUERN_DEVICE void each_block(i32 blocks, const T* place, F f) {
  const T own = of_block(place, lane() < blocks ? lane() : 0);
  QUERN_ROLLED for (i32 r = 0; r < blocks; ++r) f(r, shuffle(own, r));
}
// The largest of what the first `blocks` blocks have there.
template <class T>
QUERN_DEVICE T largest_of_blocks(i32 blocks, const T* place) {
  return warp_max(of_block(place, lane() < blocks ? lane() : 0));
}
QUERN_DEVICE void sync_blocks(i32 blocks) {
  if (blocks == 1) {
    sync_block();
  } else {
    sync_cluster_shared();
  }
}

struct RowSums {
  f32 max, scale;
  u64 total;  // of the weights, where they were asked for
};
struct Choice {
  i32 id;
  f32 x;  // its logit
};

// What there is to know of a chunk: its largest logit, and the sum of the shares that its tokens have of that one's.
QUERN_DEVICE u64 to_stats(f32 max, f32 sum) { return static_cast<u64>(bits_of(sum)) << 32 | bits_of(max); }
QUERN_DEVICE f32 max_of_stats(u64 stats) { return f32_of(static_cast<u32>(stats)); }
QUERN_DEVICE u64 weight_of_stats(u64 stats, f32 max, f32 inverse_temperature) {
  const f32 top = max_of_stats(stats), sum = f32_of(static_cast<u32>(stats >> 32));
  if (!(top > -infinity())) return 0;
  return static_cast<u64>(sum * exp_of_minus(at_most(distance(max, top, inverse_temperature), 128.0f)) * kUnits);
}
// In the calling block: what the others know of their chunks.
QUERN_DEVICE void learn_stats(u64* stats, i32 chunks, i32 chunks_each, i32 rank) {
  QUERN_ROLLED for (i32 c = thread_index(); c < chunks; c += kThreads) {
    const i32 r = c / chunks_each;
    if (r != rank) stats[c] = of_block(stats + c, r);
  }
}
// Leaves the weights of a row's chunks, and returns their sum.
QUERN_DEVICE u64 weigh_stats(u64* scratch, const u64* stats, i32 chunks, f32 max, f32 inverse_temperature,
                             u64* weights) {
  u64 own = 0;
  QUERN_ROLLED for (i32 c = thread_index(); c < chunks; c += kThreads) {
    own += weights[c] = weight_of_stats(stats[c], max, inverse_temperature);
  }
  return reduce(scratch, own, How::sum);
}

// A token of a chunk, drawn by its place on the line of the chunk's weights. logit(token): of those in the draw, -inf
// of others. All threads, which all get it; `told` is a word in shared memory.
template <class F>
QUERN_DEVICE Choice draw_of_chunk(u64* scratch, u64* told, i32 chunk, f32 top, f32 scale, const Stream& stream,
                                  F logit) {
  constexpr i32 kOwn = kChunk / kThreads;
  u64 weight[kOwn], own = 0;
  f32 x[kOwn]{};
  const i32 from = chunk * kChunk + thread_index() * kOwn;
  if constexpr (kEdits) {
    QUERN_ROLLED for (int j = 0; j < kOwn; ++j) {
      QUERN_UNROLL for (int m = 1; m < kOwn; ++m) x[m - 1] = x[m];
      x[kOwn - 1] = logit(from + j);
    }
  } else {
    QUERN_UNROLL for (int j = 0; j < kOwn; ++j) x[j] = logit(from + j);
  }
  QUERN_UNROLL for (int j = 0; j < kOwn; ++j) own += weight[j] = to_units(share_of_largest(top, x[j], scale));
  if (thread_index() == 0) *told = 0;
  u64 before = sum_before(scratch, own);
  const u64 within = scale_to(wide(stream.at(kWithinChunk)), scratch[kThreads / kWarp]);
  QUERN_UNROLL for (int j = 0; j < kOwn; ++j) {
    if (before <= within && within < before + weight[j]) *told = place_of(x[j], from + j);
    before += weight[j];
  }
  sync_block();
  const u64 place = *told;
  return place == 0 ? Choice{-1, 0.0f} : Choice{index_at(place), value_at(place)};
}

}  // namespace q
