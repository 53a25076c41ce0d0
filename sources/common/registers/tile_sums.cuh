// Accumulator tiles that products are added to over a whole loop, kept where they cost the target's compiler the least.
//
// TileSums<kFirst, kRowTiles, kColumnTiles> holds kRowTiles x kColumnTiles accumulator tiles of one warp. It is
// constructed at the beginning of the kernel, outside of every loop and branch, and passed on by reference; a kernel
// may have several with different numbers kFirst .. kFirst + kRowTiles * kColumnTiles - 1. There are one or two row
// tiles and at most 16 tiles; at most 4 where noted. Initially they are undefined. All lanes must call each of these:
//
//   clear()                            sets all to zero
//   add(a, b, pitch)                   x[t][n] += a[t] b[n], the tiles of b 16 rows apart, stored [n][k] as load_b
//                                      takes them
//   add_transposed(a, b, pitch)        the same with tiles 16 columns apart, stored [k][n] as load_b_transposed takes
//                                      them
//   multiply_rows(factors)             x[t][n] *= factors[t][h] in the lane's row h of row tile t; the factors must
//                                      agree in all lanes that hold the row
//   read(x) write(x)                   to and from accumulators; at most 4 tiles
//   keep(from, count)                  sets columns to -inf unless they count: in the lane's row h of row tile t column
//                                      c, through all column tiles, counts where from[t][h] + c < count[t][h], in u32;
//                                      at most 4 tiles
//   maximum(max)                       max[t][h] = the greatest of itself and the lane's elements there; at most 4
//                                      tiles
//   to_weights(factor, base, sum, weights)
//                                      w = exp2(x factor - base[t][h]) of each element: adds the lane's own w to
//                                      sum[t][h] in the order of columns; weights[n][t] is w as operand A. The
//                                      accumulators are undefined afterwards; at most 4 tiles
//   store<kPitch>(to)                  stores f32 to shared memory, rows kPitch apart; `to` is 8-byte aligned and
//                                      kPitch even
//
// The operands' type is f16 or bf16, the same in all of a kernel: QUERN_TILE_ELEMENT, defined before this file is
// included.
//
// On NVIDIA's GPUs the accumulators are PTX registers with names of their own and not values that NVVM knows. It would
// carry each value through every branch, loop and pass, to no avail, since only ptxas allocates registers: a seventh of
// the time to compile a kernel of attention.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/kernel.cuh"

#ifdef QUERN_NAMED_TILE_SUMS
#include "common/registers/tile_sums_cuda.cuh"
#else

namespace q {

template <int kFirst, int kRowTiles, int kColumnTiles>
class TileSums {
  using T = QUERN_TILE_ELEMENT;
  static constexpr int kTiles = kRowTiles * kColumnTiles;
  static_assert(kRowTiles <= 2 && kTiles <= 16);

 public:
  QUERN_DEVICE TileSums() {}
  TileSums(const TileSums&) = delete;
  TileSums& operator=(const TileSums&) = delete;

  QUERN_DEVICE void clear() {
    each([&](int t, int n) { x_[t][n] = Accumulator{}; });
  }
  QUERN_DEVICE void add(const OperandA<T> (&a)[kRowTiles], const T* b, int pitch) {
    QUERN_UNROLL for (int n = 0; n < kColumnTiles; ++n) add_tile(a, load_b(b + n * 16 * pitch, pitch), n);
  }
  QUERN_DEVICE void add_transposed(const OperandA<T> (&a)[kRowTiles], const T* b, int pitch) {
    QUERN_UNROLL for (int n = 0; n < kColumnTiles; ++n) add_tile(a, load_b_transposed(b + n * 16, pitch), n);
  }
  QUERN_DEVICE void multiply_rows(const f32 (&factors)[kRowTiles][kRowsHeld]) {
    each([&](int t, int n) { QUERN_UNROLL for (int i = 0; i < kHeld; ++i) x_[t][n].x[i] *= factors[t][held_row(i)]; });
  }
  QUERN_DEVICE void read(Accumulator (&x)[kRowTiles][kColumnTiles]) const {
    static_assert(kTiles <= 4);
    each([&](int t, int n) { x[t][n] = x_[t][n]; });
  }
  QUERN_DEVICE void write(const Accumulator (&x)[kRowTiles][kColumnTiles]) {
    static_assert(kTiles <= 4);
    each([&](int t, int n) { x_[t][n] = x[t][n]; });
  }
  QUERN_DEVICE void keep(const u32 (&from)[kRowTiles][kRowsHeld], const u32 (&count)[kRowTiles][kRowsHeld]) {
    static_assert(kTiles <= 4);
    each([&](int t, int n) {
      QUERN_UNROLL for (int i = 0; i < kHeld; ++i) {
        const int h = held_row(i);
        const u32 place = from[t][h] + static_cast<u32>(n * 16 + column_of(lane(), i));
        if (place >= count[t][h]) x_[t][n].x[i] = -infinity();
      }
    });
  }
  QUERN_DEVICE void maximum(f32 (&max)[kRowTiles][kRowsHeld]) const {
    static_assert(kTiles <= 4);
    each([&](int t, int n) {
      QUERN_UNROLL for (int i = 0; i < kHeld; ++i) max[t][held_row(i)] = fmax(max[t][held_row(i)], x_[t][n].x[i]);
    });
  }
  QUERN_DEVICE void to_weights(f32 factor, const f32 (&base)[kRowTiles][kRowsHeld], f32 (&sum)[kRowTiles][kRowsHeld],
                               OperandA<T> (&weights)[kColumnTiles][kRowTiles]) {
    static_assert(kTiles <= 4);
    each([&](int t, int n) {
      QUERN_UNROLL for (int i = 0; i < kHeld; ++i) {
        x_[t][n].x[i] = exp2(fma(x_[t][n].x[i], factor, -base[t][held_row(i)]));
        sum[t][held_row(i)] += x_[t][n].x[i];
      }
      weights[n][t] = to_operand<T>(x_[t][n]);
    });
  }
  template <int kPitch>
  QUERN_DEVICE void store(f32* to) const {
    each([&](int t, int n) {
      QUERN_UNROLL for (int i = 0; i < kHeld; ++i) {
        to[(t * 16 + row_of(lane(), held_row(i))) * kPitch + n * 16 + column_of(lane(), i)] = x_[t][n].x[i];
      }
    });
  }

 private:
  static constexpr int kHeld = 256 / kWarp;

  template <class F>
  static QUERN_DEVICE void each(const F& visit) {
    QUERN_UNROLL for (int t = 0; t < kRowTiles; ++t) {
      QUERN_UNROLL for (int n = 0; n < kColumnTiles; ++n) visit(t, n);
    }
  }
  QUERN_DEVICE void add_tile(const OperandA<T> (&a)[kRowTiles], const OperandB<T>& b, int n) {
    QUERN_UNROLL for (int t = 0; t < kRowTiles; ++t) mma(x_[t][n], a[t], b);
  }

  Accumulator x_[kRowTiles][kColumnTiles];
};

}  // namespace q

#endif
