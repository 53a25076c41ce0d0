// Values of 8 bits, turned: a product sums over keys, and its second operand of 8 bits must have them side by side,
// while a cache has dims side by side.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "attention/kernels/sm90/shape.cuh"

namespace q {

// Where a lane reads and writes in a block of values and in a turned one. A matrix that a warp stores at once holds
// either the even or the odd ones of 16 dims. Side by side, rows of turned_row() lie in all of a swizzle's eight
// places.
struct TurnPlaces {
  u32 from, to;

  // 32 keys of a block, by one warp; the k-th of 32 is that which operand_column says of weights.
  QUERN_DEVICE explicit TurnPlaces(int part) {
    const int l = lane(), matrix = l >> 3, key = part * 32 + l;
    const int row = turned_row((l & 7) * 2 + (matrix & 1)), place = part * 2 + (matrix >> 1);
    from = static_cast<u32>(key * kSpanBytes + (key & 7) * 16);
    to = static_cast<u32>(row * kSpanBytes + ((place ^ row) & 7) * 16);
  }
  QUERN_DEVICE void load(u32 (&v)[4], const u8* values, int chunk) const {
    load_matrix<true>(v, values + (chunk / 8 * kBlock * kSpanBytes + (from ^ static_cast<u32>(chunk % 8 * 16))));
  }
  QUERN_DEVICE void store(const u32 (&v)[4], u8* turned, int chunk) const {
    const u32 turns[4] = {permute_bytes<0x6420>(v[0], v[1]), permute_bytes<0x7531>(v[0], v[1]),
                          permute_bytes<0x6420>(v[2], v[3]), permute_bytes<0x7531>(v[2], v[3])};
    store_matrix<false>(turned + to + chunk * 16 * kSpanBytes, turns);
  }
};

// A block of values, of which a warp has 32 keys: several loads are under way before the first is stored.
QUERN_DEVICE void turn_block(const TurnPlaces& places, const u8* values, u8* turned) {
  constexpr int kChunks = kDimV / 16, kAhead = kChunks < 4 ? kChunks : 4;
  u32 v[kAhead][4];
  QUERN_UNROLL for (int chunk = 0; chunk < kAhead; ++chunk) places.load(v[chunk], values, chunk);
  QUERN_UNROLL for (int chunk = 0; chunk < kChunks; ++chunk) {
    places.store(v[chunk % kAhead], turned, chunk);
    if (chunk + kAhead < kChunks) places.load(v[chunk % kAhead], values, chunk + kAhead);
  }
}

// The same of a sequence's last block: what lies behind `valid` keys may be anything, and becomes zeros.
QUERN_DEVICE void turn_last_block(const TurnPlaces& places, const u8* values, u8* turned, int part, i32 valid) {
  u32 keep[4];  // of the two keys that a lane holds of each eight
  QUERN_UNROLL for (int i = 0; i < 4; ++i) {
    const i32 first = part * 32 + i * 8 + (lane() & 3) * 2;
    keep[i] = first + 1 < valid ? 0xffffffffu : first < valid ? 0xffffu : 0u;
  }
  QUERN_ROLLED for (int chunk = 0; chunk < kDimV / 16; ++chunk) {
    u32 v[4];
    places.load(v, values, chunk);
    QUERN_UNROLL for (int i = 0; i < 4; ++i) v[i] &= keep[i];
    places.store(v, turned, chunk);
  }
}

// By a warpgroup, block after block of values in the order in which they are copied.
QUERN_DEVICE void turn_values(Shared* shared, const Tiles& tiles) {
  Told told(shared);
  const SharedArray<Mbarrier> full(shared->values.full), empty(shared->values.empty);
  const SharedArray<Mbarrier> full_turned(shared->turned.full), empty_turned(shared->turned.empty);
  PipelineState<kStages> of_v;
  PipelineState<kTurnedStages> of_turned;
  const int part = shuffle(warp() % 4, 0);
  const TurnPlaces places(part);
  QUERN_ROLLED for (;;) {
    const Task& task = told.next();
    if (task.piece.count == 0) break;
    const i32 begin = shuffle(task.begin, 0), end = shuffle(task.end, 0);
    i32 valid = task.sequence.kv_len - task.sequence.first - (end - 1) * kBlock;
    QUERN_ROLLED for (i32 block = end - 1; block >= begin; --block, valid += kBlock) {
      await(full, of_v);
      acquire(empty_turned, of_turned);
      const u8* const values = tiles.values + of_v.stage * kValueBytes;
      u8* const turned = tiles.turned + of_turned.stage * kTurnedBytes;
      if (valid < kBlock) {
        turn_last_block(places, values, turned, part, valid);
      } else {
        turn_block(places, values, turned);
      }
      fence_async();
      sync_warp();
      if (elect_one()) {
        mbarrier_arrive(full_turned, of_turned.stage);
        mbarrier_arrive(empty, of_v.stage);
      }
      of_v.next();
      of_turned.next();
    }
    told.done();
  }
}

}  // namespace q
