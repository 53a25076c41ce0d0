// Roots of unity as a table in the kernel's image, made by the compiler in double precision and rounded once. What
// symmetry gives is not stored: an eighth of the circle is enough where the order is a multiple of 4.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/kernel.cuh"

namespace q {

struct alignas(8) Complex {
  f32 re, im;
};
QUERN_DEVICE Complex operator+(Complex a, Complex b) { return {a.re + b.re, a.im + b.im}; }
QUERN_DEVICE Complex operator-(Complex a, Complex b) { return {a.re - b.re, a.im - b.im}; }
QUERN_DEVICE Complex operator*(f32 by, Complex a) { return {by * a.re, by * a.im}; }
QUERN_DEVICE Complex operator*(Complex a, Complex b) {
  return {fma(a.re, b.re, -(a.im * b.im)), fma(a.re, b.im, a.im * b.re)};
}
QUERN_DEVICE Complex conjugate(Complex a) { return {a.re, -a.im}; }
QUERN_DEVICE Complex swapped(Complex a) { return {a.im, a.re}; }
QUERN_DEVICE Complex times_minus_i(Complex a) { return {a.im, -a.re}; }

struct Turn {
  f64 cosine, sine;
};

// cos and sin of 2 pi part / whole by their series, for up to half a turn: 2^-50 at worst, where 2^-25 is rounded to.
QUERN_SHARED_CODE constexpr Turn turn(i32 part, i32 whole) {
  const f64 x = 6.283185307179586476925 * part / whole;
  f64 cosine = 1, sine = x, term = x;
  for (i32 i = 2; i < 30; i += 2) {
    term = -term * x / i;
    cosine += term;
    term = term * x / (i + 1);
    sine += term;
  }
  return {cosine, sine};
}

template <i32 order>
struct RootTable {
  // How many roots from 1 on all others are mirror images of.
  static constexpr i32 kCount = (order % 4 == 0 ? order / 8 : order % 2 == 0 ? order / 4 : order / 2) + 1;
  Complex of[kCount];  // cos and sin of 2 pi i / order
};

// Products of turns, as many as can be had without a series of each: compilers bound how long they compute.
template <i32 order>
QUERN_SHARED_CODE constexpr RootTable<order> root_table() {
  constexpr i32 kFine = 64;
  RootTable<order> table{};
  Turn fine[kFine] = {};
  for (i32 i = 0; i < kFine && i < RootTable<order>::kCount; ++i) fine[i] = turn(i, order);
  for (i32 from = 0; from < RootTable<order>::kCount; from += kFine) {
    const Turn a = turn(from, order);
    for (i32 i = 0; i < kFine && from + i < RootTable<order>::kCount; ++i) {
      const Turn b = fine[i];
      table.of[from + i].re = static_cast<f32>(a.cosine * b.cosine - a.sine * b.sine);
      table.of[from + i].im = static_cast<f32>(a.sine * b.cosine + a.cosine * b.sine);
    }
  }
  return table;
}

template <i32 order>
QUERN_GLOBAL constexpr RootTable<order> kRoots = root_table<order>();

// exp(-2 pi i place / order), 0 <= place < most <= order. Where `most` is known to the compiler, so is which mirror
// images there may be.
template <i32 order>
QUERN_DEVICE Complex root(i32 place, i32 most = order) {
  const bool below = most - 1 > order / 2 && place > order / 2;
  if (below) place = order - place;
  bool left = false, steep = false;
  if constexpr (order % 2 == 0) {
    left = most - 1 > order / 4 && place > order / 4;
    if (left) place = order / 2 - place;
  }
  if constexpr (order % 4 == 0) {
    steep = most - 1 > order / 8 && place > order / 8;
    if (steep) place = order / 4 - place;
  }
  const Complex found = kRoots<order>.of[place];
  const f32 cosine = steep ? found.im : found.re, sine = steep ? found.re : found.im;
  return {left ? -cosine : cosine, below ? sine : -sine};
}

}  // namespace q
