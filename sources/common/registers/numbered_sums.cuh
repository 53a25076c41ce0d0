// Accumulator tiles of one warp, numbered at compile time, for products of any operands.
//
// NumberedSums<kFirst, kCount> holds tiles 0 .. kCount - 1. It is constructed at the beginning of the kernel, outside
// of every loop and branch, and passed on by reference; a kernel may have several with different numbers kFirst ..
// kFirst + kCount - 1. Initially they are undefined. All lanes must call each of these:
//
//   clear()                           sets all to zero
//   add<n, i, j>(a, b)                tile n += a b, of operands i and j of NumberedOperands that are prepared, or of
//                                     WideOperands
//   add_four<n, apart, i, j>(a, b)    tiles n, n + apart, n + 2 apart, n + 3 apart += operands i to i + 3 of a, one
//                                     each, times operand j of b; 16 bits
//   add_scaled<n, m>(from, factors)   tile n += tile m of `from` times factors[h] in the lane's row h
//   store<n, count, pitch>(to)        stores tiles n .. n + count - 1 side by side as f32 to shared memory, rows
//                                     `pitch` apart; `to` is 8-byte aligned and pitch even
//   write_apart<stride>(to)           stores element i of tile n to to[(n * 256 / kWarp + i) * stride] in global memory
//   add_apart<stride>(from, there)    adds what write_apart stored at each of the first `there` places of `from`, one
//                                     after the other; the other places are read too and may be any. All reads of a
//                                     tile are in flight together
//
// On NVIDIA's GPUs they are PTX registers with names of their own, for the reason that common/registers/tile_sums.cuh
// gives.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/registers/numbered_operands.cuh"

namespace q {

// Element number `first` and those after it, of each place.
template <int stride, int places, int held>
QUERN_DEVICE void read_apart(const f32* const (&from)[places], int first, f32 (&v)[places][held]) {
  QUERN_UNROLL for (int place = 0; place < places; ++place) {
    QUERN_UNROLL for (int i = 0; i < held; ++i) v[place][i] = from[place][(first + i) * stride];
  }
}

}  // namespace q

#ifdef QUERN_NAMED_TILE_SUMS
#include "common/registers/numbered_sums_cuda.cuh"
#else

namespace q {

template <int kFirst, int kCount>
class NumberedSums {
 public:
  QUERN_DEVICE NumberedSums() {}
  NumberedSums(const NumberedSums&) = delete;
  NumberedSums& operator=(const NumberedSums&) = delete;

  QUERN_DEVICE void clear() { QUERN_UNROLL for (int n = 0; n < kCount; ++n) x_[n] = Accumulator{}; }
  template <int n, int i, int j, class A, class B>
  QUERN_DEVICE void add(const A& a, const B& b) {
    mma(x_[n], a.operand(i), b.operand(j));
  }
  template <int n, int apart, int i, int j, class A, class B>
  QUERN_DEVICE void add_four(const A& a, const B& b) {
    QUERN_UNROLL for (int one = 0; one < 4; ++one) mma(x_[n + one * apart], a.operand(i + one), b.operand(j));
  }
  template <int n, int m, int first, int count>
  QUERN_DEVICE void add_scaled(const NumberedSums<first, count>& from, const f32 (&factors)[kRowsHeld]) {
    QUERN_UNROLL for (int i = 0; i < kHeld; ++i) x_[n].x[i] = fma(from.tile(m).x[i], factors[held_row(i)], x_[n].x[i]);
  }
  template <int n, int count, int pitch>
  QUERN_DEVICE void store(f32* to) const {
    QUERN_UNROLL for (int j = 0; j < count; ++j) {
      QUERN_UNROLL for (int i = 0; i < kHeld; ++i) {
        to[row_of(lane(), held_row(i)) * pitch + 16 * j + column_of(lane(), i)] = x_[n + j].x[i];
      }
    }
  }

  template <int stride>
  QUERN_DEVICE void write_apart(f32* to) const {
    QUERN_UNROLL for (int n = 0; n < kCount; ++n) {
      QUERN_UNROLL for (int i = 0; i < kHeld; ++i) to[(n * kHeld + i) * stride] = x_[n].x[i];
    }
  }
  template <int stride, int places>
  QUERN_DEVICE void add_apart(const f32* const (&from)[places], int there) {
    QUERN_UNROLL for (int n = 0; n < kCount; ++n) {
      f32 v[places][kHeld];
      read_apart<stride>(from, n * kHeld, v);
      QUERN_UNROLL for (int place = 0; place < places; ++place) {
        QUERN_UNROLL for (int i = 0; i < kHeld; ++i) x_[n].x[i] += place < there ? v[place][i] : 0.0f;
      }
    }
  }
  QUERN_DEVICE const Accumulator& tile(int n) const { return x_[n]; }

 private:
  static constexpr int kHeld = 256 / kWarp;

  Accumulator x_[kCount];
};

}  // namespace q

#endif
