// The random numbers of a row, and places on a line of weights.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/philox.cuh"
#include "sample/kernels/room.cuh"

namespace q {

// philox(), a round at a time: some hundred instructions less.
QUERN_CALLED Philox random_at(u64 seed, u64 offset, u64 high) {
  PhiloxRound round = philox_begin(seed, offset, high);
  QUERN_ROLLED for (int i = 0; i < kPhiloxRounds; ++i) round = round.next();
  return round.c;
}

struct Stream {
  u64 seed, offset, row;
  QUERN_DEVICE Philox at(u32 place) const { return random_at(seed, offset, row << 32 | place); }
  QUERN_DEVICE Philox of_row() const { return at(0); }
  QUERN_DEVICE Philox of_token(i32 token) const { return at(static_cast<u32>(token) + 1); }
};
// The row's first 64 bits choose a chunk or so, its next 32 xtc's chance; a second draw of 64 the token within a chunk.
inline constexpr u32 kWithinChunk = 0xffffffffu;
QUERN_DEVICE u64 wide(const Philox& random) { return static_cast<u64>(random.x[1]) << 32 | random.x[0]; }

// scale_to(), compiled once.
QUERN_CALLED u64 place_on_line(u64 random, u64 total) { return scale_to(random, total); }

// -log(1 - v) for v = (bits + 1/2) / 2^32: small ones to full precision, since the least of many counts.
QUERN_DEVICE f32 exponential(u32 bits) {
  const f32 v = (static_cast<f32>(bits) + 0.5f) * 0x1p-32f;
  return v < 0x1p-6f ? v * fma(v, fma(v, fma(v, 0.25f, 0.33333333f), 0.5f), 1.0f) : -log(fmax(1.0f - v, 0x1p-24f));
}

// The number whose stretch of the line `target` falls into, of n in order, their stretches being `weights`. All
// threads, which share them in runs. -1 where target is not below the sum.
QUERN_CALLED i32 find_on_line(u64* scratch, i32 n, u64 target, const u64* weights) {
  const i32 each = div_up(n, kThreads), begin = thread_index() * each, end = begin + each < n ? begin + each : n;
  u64 own = 0;
  QUERN_ROLLED for (i32 i = begin; i < end; ++i) own += weights[i];
  u64 before = sum_before(scratch, own);
  i32 found = -1;
  if (before <= target && target < before + own) {
    QUERN_ROLLED for (i32 i = begin; i < end; ++i) {
      if (target < before + weights[i]) {
        found = i;
        break;
      }
      before += weights[i];
    }
  }
  sync_block();
  return static_cast<i32>(reduce(scratch, static_cast<u64>(found + 1), How::max)) - 1;
}

}  // namespace q
