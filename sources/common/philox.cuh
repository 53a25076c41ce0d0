// Philox4x32-10: random numbers as a function of a key and a counter, without any state (Salmon, Moraes, Dror and Shaw,
// "Parallel random numbers: as easy as 1, 2, 3", SC 2011). Whoever knows seed, offset and place draws the same number,
// on every target and in whatever order.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/types.cuh"

namespace q {

struct Philox {
  u32 x[4];  // 128 random bits
};

// What a round makes of a counter and a key, and of the key for the next one.
inline constexpr int kPhiloxRounds = 10;
struct PhiloxRound {
  Philox c;
  u32 key[2];
  QUERN_SHARED_CODE constexpr PhiloxRound next() const {
    const u64 first = static_cast<u64>(c.x[0]) * 0xd2511f53u, second = static_cast<u64>(c.x[2]) * 0xcd9e8d57u;
    return {{{static_cast<u32>(second >> 32) ^ c.x[1] ^ key[0], static_cast<u32>(second),
              static_cast<u32>(first >> 32) ^ c.x[3] ^ key[1], static_cast<u32>(first)}},
            {key[0] + 0x9e3779b9u, key[1] + 0xbb67ae85u}};
  }
};
QUERN_SHARED_CODE constexpr PhiloxRound philox_begin(u64 seed, u64 low, u64 high) {
  return {{{static_cast<u32>(low), static_cast<u32>(low >> 32), static_cast<u32>(high), static_cast<u32>(high >> 32)}},
          {static_cast<u32>(seed), static_cast<u32>(seed >> 32)}};
}
// The numbers of seed's stream at a counter of 128 bits, its low word first: usually an offset that goes from draw to
// draw, and the place of what is drawn for.
QUERN_SHARED_CODE constexpr Philox philox(u64 seed, u64 low, u64 high) {
  PhiloxRound round = philox_begin(seed, low, high);
  for (int i = 0; i < kPhiloxRounds; ++i) round = round.next();
  return round.c;
}

// Uniform in (0, 1), neither end included, 2^-23 apart: exact in f32.
QUERN_SHARED_CODE constexpr f32 uniform_of(u32 bits) { return (static_cast<f32>(bits >> 9) + 0.5f) * 0x1p-23f; }

// floor(r n / 2^64): uniform in 0 .. n-1 for a uniform r, each number to within one part in 2^64 / n.
QUERN_SHARED_CODE constexpr u64 scale_to(u64 r, u64 n) {
  const u64 r0 = r & 0xffffffffu, r1 = r >> 32, n0 = n & 0xffffffffu, n1 = n >> 32;
  const u64 middle = r1 * n0 + (r0 * n0 >> 32);
  return r1 * n1 + (middle >> 32) + ((r0 * n1 + (middle & 0xffffffffu)) >> 32);
}

}  // namespace q
