// Vectors of four f32 in which each thread adds up values from global memory, numbered at compile time.
//
// NumberedVectors<kCount> holds vectors 0 .. kCount - 1, a multiple of four. It is constructed at the beginning of the
// kernel, outside of every loop and branch; a kernel has at most one. Initially the vectors are undefined. All
// addresses are aligned to 16 bytes, distances count floats:
//
//   clear()                              sets all to zero
//   add<apart>(from)                     vector i += the four floats at from + i apart; all reads are in flight
//                                        together
//   store<columns, down, across>(to)     stores vector i to shared memory, to + i / columns down + i % columns across
//   move<columns, down, across, apart>(from, to)
//                                        copies kCount vectors from shared memory, placed as `store` places them, to
//                                        to + i apart in global memory; does not change the vectors held
//
// On NVIDIA's GPUs they are PTX registers with names of their own, for the reason that common/registers/tile_sums.cuh
// gives.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/kernel.cuh"

#ifdef QUERN_NAMED_TILE_SUMS
#include "common/registers/numbered_vectors_cuda.cuh"
#else

namespace q {

template <int kCount>
class NumberedVectors {
 public:
  QUERN_DEVICE NumberedVectors() {}
  NumberedVectors(const NumberedVectors&) = delete;
  NumberedVectors& operator=(const NumberedVectors&) = delete;

  QUERN_DEVICE void clear() { QUERN_UNROLL for (int i = 0; i < kCount; ++i) x_[i] = vec16{}; }
  template <int apart>
  QUERN_DEVICE void add(const f32* from) {
    vec16 read[kCount];
    QUERN_UNROLL for (int i = 0; i < kCount; ++i) read[i] = load16(from + i * apart);
    QUERN_UNROLL for (int i = 0; i < kCount; ++i) {
      QUERN_UNROLL for (int e = 0; e < 4; ++e) x_[i].x[e] = bits_of(f32_of(x_[i].x[e]) + f32_of(read[i].x[e]));
    }
  }
  template <int columns, int down, int across>
  QUERN_DEVICE void store(f32* to) const {
    QUERN_UNROLL for (int i = 0; i < kCount; ++i) store16(to + i / columns * down + i % columns * across, x_[i]);
  }
  template <int columns, int down, int across, int apart>
  static QUERN_DEVICE void move(const f32* from, f32* to) {
    QUERN_UNROLL for (int i = 0; i < kCount; ++i)
        store16(to + i * apart, load16(from + i / columns * down + i % columns * across));
  }

 private:
  vec16 x_[kCount];
};

}  // namespace q

#endif
