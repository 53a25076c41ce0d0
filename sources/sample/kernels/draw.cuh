// Drawing one of the tokens that are left, as its weight is to the sum of all, from the row's seed and offset.
//
// Of a whole row: by its place on the line of all weights, first the chunk's, then the token's within. Of the tokens
// that lists name: by a race. Each has an exponentially distributed number of its own over its weight, the least wins;
// which number depends on the token alone, so they may be in any order. Of what filters leave: by its place on the line
// of weights in descending order, which is what filters search, too.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "sample/kernels/random.cuh"
#include "sample/kernels/select.cuh"

namespace q {

// Of the source's tokens; -1 where there is none.
QUERN_CALLED i32 draw_by_race(const Room& room, const Source& source, const Stream& stream) {
  u64 best = ~u64{0};
  each(source, [&](Place place) {
    if (place == 0) return;
    const f32 weight = source.share(place);
    if (weight == 0.0f) return;
    const i32 token = index_at(place);
    const f32 time = exponential(stream.of_token(token).x[0]) * rcp_approx(weight);
    const u64 own = static_cast<u64>(bits_of(time)) << 32 | static_cast<u32>(token);
    best = own < best ? own : best;
  });
  best = reduce_min(room, best);
  return best == ~u64{0} ? -1 : static_cast<i32>(static_cast<u32>(best));
}

// One of the tokens that a source over the row has in a chunk.
QUERN_CALLED i32 draw_in_chunk(const Room& room, const Source& source, i32 chunk, const Stream& stream) {
  constexpr i32 kOwn = kChunk / kThreads;
  const i32 begin = chunk * kChunk + thread_index() * kOwn;
  u64 own = 0;
  u64* weights = room.weights;
  static_assert(kBins >= kChunk);
  sync_block();
  QUERN_ROLLED for (int j = 0; j < kOwn; ++j) {
    const Place place = begin + j < source.count ? place_of_token(source, begin + j) : Place{0};
    const u64 weight = source.has(place) ? source.weigh(place) : u64{0};
    weights[thread_index() * kOwn + j] = weight;
    own += weight;
  }
  u64 before = sum_before(room.scratch, own);
  const u64 total = room.scratch[kThreads / kWarp];
  const u64 target = scale_to(wide(stream.at(kWithinChunk)), total);
  u32 found = 0;
  QUERN_ROLLED for (int j = 0; j < kOwn; ++j) {
    const u64 weight = weights[thread_index() * kOwn + j];
    if (before <= target && target < before + weight) found = static_cast<u32>(begin + j) + 1;
    before += weight;
  }
  sync_block();
  return static_cast<i32>(reduce_max(room, found)) - 1;
}

}  // namespace q
