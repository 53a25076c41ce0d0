// The accumulators of a warpgroup's products as plain arrays of f32: what softmax and its like do with them between two
// products.
//
// A product of n columns leaves n / 2 elements in each thread, of two rows of the tile's 64; the four threads of a quad
// hold the same two rows. Element i of thread t lies in row accumulator_row(t, half_of(i)) and column
// accumulator_column(t, i). Every array is indexed by constants once its loops are unrolled, so that it stays in
// registers.
//
//   accumulator_row(thread, half)    the row in the tile of half 0 or 1; `thread` counts within the warpgroup
//   accumulator_column(thread, i)    the column of element i
//   half_of(i)                       which of the thread's two rows element i lies in
//   maximum(x, rows)                 rows[h] = the larger of it and the thread's own elements of row h
//   sum(x, rows)                     rows[h] += the thread's own elements of row h
//   quad_max(v) quad_sum(v)          over the four threads that hold the same rows, the result in all of them
//   scale_rows(x, rows)              times rows[h]
//   keep_columns(x, thread, from, to)  elements outside of columns from[h] <= c < to[h] become minus infinity; columns
//                                    count from the tile's first
//   to_operand<T>(x, a)              a[step]: operand A in registers of step `step` of a next product, kWgmmaK<T>
//                                    columns each. Of T = f16 or bf16 a column becomes k of its own number. Of e4m3
//                                    and e5m2 the k-th of a step is column operand_column<T>(k) of its 32, by which
//                                    operand B is then to be laid out
//   transpose_quad(v, thread)        words of four threads change places, so that results leave by 16 bytes
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/sm90/warpgroup.cuh"

namespace q {

QUERN_DEVICE constexpr int half_of(int i) { return i >> 1 & 1; }
QUERN_DEVICE constexpr int accumulator_row(int thread, int half) { return wgmma_row(thread, 2 * half); }
QUERN_DEVICE constexpr int accumulator_column(int thread, int i) { return wgmma_column(thread, i); }

template <int count>
QUERN_DEVICE void maximum(const f32 (&x)[count], f32 (&rows)[2]) {
  f32 chains[4] = {rows[0], rows[1], x[1], x[3]};  // two for each row, each independent of the others
  QUERN_UNROLL for (int i = 0; i < count; ++i) chains[half_of(i) + i % 2 * 2] =
      fmax(chains[half_of(i) + i % 2 * 2], x[i]);
  QUERN_UNROLL for (int h = 0; h < 2; ++h) rows[h] = fmax(chains[h], chains[h + 2]);
}
template <int count>
QUERN_DEVICE void sum(const f32 (&x)[count], f32 (&rows)[2]) {
  QUERN_UNROLL for (int i = 0; i < count; ++i) rows[half_of(i)] += x[i];
}
QUERN_DEVICE f32 quad_max(f32 v) {
  v = fmax(v, shuffle_xor(v, 1));
  return fmax(v, shuffle_xor(v, 2));
}
QUERN_DEVICE f32 quad_sum(f32 v) {
  v += shuffle_xor(v, 1);
  return v + shuffle_xor(v, 2);
}
template <int count>
QUERN_DEVICE void scale_rows(f32 (&x)[count], const f32 (&rows)[2]) {
  QUERN_UNROLL for (int i = 0; i < count; ++i) x[i] *= rows[half_of(i)];
}
template <int count>
QUERN_DEVICE void keep_columns(f32 (&x)[count], int thread, const i32 (&from)[2], const i32 (&to)[2]) {
  // Of a row's elements, which have columns 0, 1, 8, 9, 16 and so on from the thread's first one, as many lie left of a
  // column; and a word with a bit for each of 32 elements from `first` on, set for those among the first n.
  const auto count_left_of = [&](i32 column) {
    const i32 own = column - accumulator_column(thread, 0);
    return own <= 0 ? 0 : (own >> 3) * 2 + ((own & 7) < 2 ? own & 7 : 2);
  };
  const auto bits_of = [](i32 n, i32 first) {
    return n <= first ? 0u : n - first >= 32 ? 0xffffffffu : (1u << (n - first)) - 1u;
  };
  QUERN_UNROLL for (int h = 0; h < 2; ++h) {
    const i32 begin = count_left_of(from[h]), end = count_left_of(to[h]);
    QUERN_UNROLL for (int word = 0; word < (count + 63) / 64; ++word) {
      const u32 kept = bits_of(end, 32 * word) & ~bits_of(begin, 32 * word);
      QUERN_UNROLL for (int i = 64 * word; i < count && i < 64 * (word + 1); ++i) {
        if (half_of(i) == h && (kept >> ((i - 64 * word) / 4 * 2 + (i & 1)) & 1) == 0) x[i] = -infinity();
      }
    }
  }
}

template <class T>
QUERN_SHARED_CODE constexpr int operand_column(int k) {
  // Register r of a thread holds four elements: two columns of each of two groups of eight.
  return sizeof(T) == 2 ? k : (k & 16) + ((k & 2) << 2) + ((k >> 2 & 3) << 1) + (k & 1);
}
template <class T, int count, int steps>
QUERN_DEVICE void to_operand(const f32 (&x)[count], u32 (&a)[steps][4]) {
  static_assert(steps * kWgmmaK<T> == 2 * count, "the steps hold every column once");
  QUERN_UNROLL for (int step = 0; step < steps; ++step) {
    QUERN_UNROLL for (int r = 0; r < 4; ++r) {
      if constexpr (sizeof(T) == 2) {
        a[step][r] = pack<T>(x[8 * step + 2 * r], x[8 * step + 2 * r + 1]);
      } else {
        const int first = 16 * step + (r >> 1) * 8 + (r & 1) * 2;
        a[step][r] = pack_four_fp8<T>(x[first], x[first + 1], x[first + 4], x[first + 5]);
      }
    }
  }
}

// The 4 x 4 words that the threads of a quad hold are transposed: thread t ends up with word t of each of them. Words
// of two neighbouring columns, of four groups of eight columns, so become one group's eight columns.
QUERN_DEVICE void transpose_quad(u32 (&v)[4], int thread) {
  QUERN_UNROLL for (int bit = 1; bit <= 2; bit *= 2) {
    const bool upper = (thread & bit) != 0;
    QUERN_UNROLL for (int i = 0; i < 4; ++i) {
      if (i & bit) continue;
      const u32 received = shuffle_xor(upper ? v[i] : v[i | bit], bit);
      if (upper) {
        v[i] = received;
      } else {
        v[i | bit] = received;
      }
    }
  }
}

}  // namespace q
