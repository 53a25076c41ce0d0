// Values of 8 bits, turned: a product sums over keys, and its second operand of 8 bits must have them side by side,
// while a cache has dims side by side.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "attention/kernels/sm90/shape.cuh"

namespace q {

// 32 keys of a block, by one warp; the k-th of 32 is that which operand_column says of weights. What lies behind
// `valid` keys may be anything, and becomes zeros.
QUERN_DEVICE void turn_block(const u8* from, u8* to, int part, i32 valid) {
  const int l = lane(), matrix = l >> 3, key = part * 32 + l;
  u32 keep[4];  // of the two keys that a lane holds of each eight
  QUERN_UNROLL for (int i = 0; i < 4; ++i) {
    const i32 first = part * 32 + i * 8 + (l & 3) * 2;
    keep[i] = first + 1 < valid ? 0xffffffffu : first < valid ? 0xffffu : 0u;
  }
  QUERN_FOUR_AT_ONCE for (int chunk = 0; chunk < kDimV / 16; ++chunk) {
    u32 v[4];  // two dims of two keys each
    load_matrix<true>(v, from + ((chunk / 8 * kBlock + key) * kSpanBytes + ((chunk ^ key) % 8) * 16));
    QUERN_UNROLL for (int i = 0; i < 4; ++i) v[i] &= keep[i];
    const u32 turned[4] = {permute_bytes<0x6420>(v[0], v[1]), permute_bytes<0x7531>(v[0], v[1]),
                           permute_bytes<0x6420>(v[2], v[3]), permute_bytes<0x7531>(v[2], v[3])};
    const int dim = chunk * 16 + (l & 7) * 2 + (matrix & 1), place = part * 2 + (matrix >> 1);
    store_matrix<false>(to + (dim * kSpanBytes + ((place ^ dim) % 8) * 16), turned);
  }
}

// By a warpgroup, block after block of values in the order in which they are copied.
QUERN_DEVICE void turn_values(Shared* shared, const Tiles& tiles) {
  Told told(shared);
  const SharedArray<Mbarrier> full(shared->values.full), empty(shared->values.empty);
  const SharedArray<Mbarrier> full_turned(shared->turned.full), empty_turned(shared->turned.empty);
  PipelineState<kStages> of_v;
  PipelineState<kTurnedStages> of_turned;
  QUERN_ROLLED for (;;) {
    const Task& task = told.next();
    if (task.piece.count == 0) break;
    const i32 begin = task.begin, end = task.end;
    i32 valid = task.sequence.kv_len - task.sequence.first - (end - 1) * kBlock;
    QUERN_ROLLED for (i32 block = end - 1; block >= begin; --block, valid += kBlock) {
      await(full, of_v);
      acquire(empty_turned, of_turned);
      turn_block(tiles.values + of_v.stage * kValueBytes, tiles.turned + of_turned.stage * kTurnedBytes,
                 shuffle(warp() % 4, 0), valid);
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
