// The passes of a Fourier transform of kLength numbers by a team of threads (Stockham, "High-speed convolution and
// correlation", 1966): a pass makes transforms of before x radix numbers out of `radix` of `before`, and lays them down
// so that the last one's results are in order. A thread holds the numbers of its butterflies in registers; between
// passes they change threads through shared memory, which holds a row once.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fft/params.cuh"
#include "fft/roots.cuh"

namespace q {

inline constexpr i32 kRadices[] = {RADICES};
inline constexpr i32 kPasses = static_cast<i32>(sizeof(kRadices) / sizeof(kRadices[0]));
inline constexpr i32 kLength = LENGTH;  // of the transform
inline constexpr i32 kOrder = ORDER;    // of the table of roots: a multiple of kLength
inline constexpr i32 kTeam = TEAM;      // threads that share a row
inline constexpr bool kPadded = PADDED != 0;
inline constexpr i32 kWidest = WIDEST;  // a larger radix is a sum over shared memory instead of a butterfly
inline constexpr i32 kPartial = 32;     // terms of such a sum that are added up by themselves

template <i32 pass>
struct Pass {
  static constexpr i32 kRadix = kRadices[pass];
  static constexpr i32 kBefore = Pass<pass - 1>::kBefore * Pass<pass - 1>::kRadix;
  static constexpr i32 kButterflies = kLength / kRadix;
  static constexpr bool kSums = kRadix > kWidest;
  static constexpr i32 kEach = kSums ? div_up(kLength, kTeam) : div_up(kButterflies, kTeam);  // of a thread
  static constexpr i32 kNumbers = kSums ? kEach : kEach * kRadix;
  static constexpr i32 kMostNumbers = kNumbers > Pass<pass - 1>::kMostNumbers ? kNumbers : Pass<pass - 1>::kMostNumbers;
  static constexpr FftPad kPad = kPadded && pass + 1 < kPasses ? fft_pad(kBefore, kRadix) : FftPad{1, 0};
};
template <>
struct Pass<-1> {
  static constexpr i32 kRadix = 1, kBefore = 1, kMostNumbers = 1;
  static constexpr FftPad kPad = {1, 0};
};
inline constexpr i32 kNumbers = Pass<kPasses - 1>::kMostNumbers;

// Where number i lies in shared memory behind a pass.
template <i32 pass>
QUERN_DEVICE i32 place_of(i32 i) {
  constexpr FftPad kPad = Pass<pass>::kPad;
  return kPad.by == 0 ? i : i + i / kPad.every * kPad.by;
}

QUERN_DEVICE void sync_team() {
  if constexpr (kTeam <= 32) {  // teams are parts of a warp
    sync_warp();
  } else {
    sync_block();
  }
}
// This thread's place in its team. No row's number has 32 bits: what is added is 0, which no compiler knows, so that
// none keeps in registers, from row to row, roots and places that depend on the thread alone. They are too many.
QUERN_DEVICE i32 member(i64 row) { return thread_index() % kTeam + static_cast<i32>(row >> 32); }

// Numbers transformed where they are. Of odd lengths the terms of k and -k share their factors.
template <i32 radix>
struct Butterfly {
  static_assert(radix % 2 == 1);
  static QUERN_DEVICE void go(Complex* v) {
    constexpr i32 kHalf = radix / 2;
    Complex sums[kHalf + 1], differences[kHalf + 1], first = v[0];
    QUERN_UNROLL for (i32 m = 1; m <= kHalf; ++m) {
      sums[m] = v[m] + v[radix - m], differences[m] = v[m] - v[radix - m];
      first = first + sums[m];
    }
    QUERN_UNROLL for (i32 k = 1; k <= kHalf; ++k) {
      Complex even = v[0], odd = {0.0f, 0.0f};
      QUERN_UNROLL for (i32 m = 1; m <= kHalf; ++m) {
        const Complex w = root<radix>(k * m % radix);
        even = {fma(w.re, sums[m].re, even.re), fma(w.re, sums[m].im, even.im)};
        odd = {fma(-w.im, differences[m].re, odd.re), fma(-w.im, differences[m].im, odd.im)};
      }
      // v[0] is every sum's first term, and is replaced last.
      v[k] = even + times_minus_i(odd), v[radix - k] = even - times_minus_i(odd);
    }
    v[0] = first;
  }
};
template <>
struct Butterfly<1> {
  static QUERN_DEVICE void go(Complex*) {}
};
template <>
struct Butterfly<2> {
  static QUERN_DEVICE void go(Complex* v) {
    const Complex a = v[0], b = v[1];
    v[0] = a + b, v[1] = a - b;
  }
};
template <>
struct Butterfly<4> {
  static QUERN_DEVICE void go(Complex* v) {
    const Complex a = v[0] + v[2], b = v[0] - v[2], c = v[1] + v[3], d = times_minus_i(v[1] - v[3]);
    v[0] = a + c, v[1] = b + d, v[2] = a - c, v[3] = b - d;
  }
};
template <>
struct Butterfly<8> {
  static QUERN_DEVICE void go(Complex* v) {
    constexpr f32 kRoot = 0x1.6a09e6p-1f;  // of 1/2
    Complex even[4] = {v[0], v[2], v[4], v[6]}, odd[4] = {v[1], v[3], v[5], v[7]};
    Butterfly<4>::go(even), Butterfly<4>::go(odd);
    const Complex turned[4] = {odd[0],
                               {kRoot * (odd[1].re + odd[1].im), kRoot * (odd[1].im - odd[1].re)},
                               times_minus_i(odd[2]),
                               {kRoot * (odd[3].im - odd[3].re), -kRoot * (odd[3].re + odd[3].im)}};
    QUERN_UNROLL for (i32 k = 0; k < 4; ++k) v[k] = even[k] + turned[k], v[k + 4] = even[k] - turned[k];
  }
};

// Four butterflies of 4, whose results are turned, and four of these.
template <>
struct Butterfly<16> {
  static QUERN_DEVICE void go(Complex* v) {
    Complex four[4][4];
    QUERN_UNROLL for (i32 c = 0; c < 4; ++c) {
      QUERN_UNROLL for (i32 m = 0; m < 4; ++m) four[c][m] = v[c + 4 * m];
      Butterfly<4>::go(four[c]);
    }
    QUERN_UNROLL for (i32 r = 0; r < 4; ++r) {
      Complex across[4];
      QUERN_UNROLL for (i32 c = 0; c < 4; ++c) across[c] = c * r == 0 ? four[c][r] : four[c][r] * root<16>(c * r);
      Butterfly<4>::go(across);
      QUERN_UNROLL for (i32 s = 0; s < 4; ++s) v[r + 4 * s] = across[s];
    }
  }
};

// The factors exp(-2 pi i place k / kOrder) of a butterfly's numbers: of powers of two k from the table, the others are
// products of at most four of these, since a root takes more instructions to find than to multiply.
template <i32 radix>
QUERN_DEVICE void turn_numbers(i32 place, Complex* v) {
  Complex w[radix];
  QUERN_UNROLL for (i32 k = 1; k < radix; ++k) {
    const i32 power = k >= 8 ? 8 : k >= 4 ? 4 : k >= 2 ? 2 : 1;
    w[k] = k == power ? root<kOrder>(place * k, k * (kOrder / radix)) : w[power] * w[k - power];
    v[k] = v[k] * w[k];
  }
}

// The sum that number `place` of a pass with a large radix is. Partial sums keep its error that of few terms.
template <i32 pass>
QUERN_CALLED Complex sum_of(const Complex* shared, i32 place) {
  using P = Pass<pass>;
  const Complex* row = in_shared(shared);
  constexpr i32 kOf = P::kBefore * P::kRadix;
  const i32 k = place / P::kButterflies, butterfly = place - k * P::kButterflies;
  const i32 step = k * P::kBefore + butterfly % P::kBefore;  // of kOf roots
  Complex sum = {0.0f, 0.0f};
  i32 at = 0;
  QUERN_ROLLED for (i32 from = 0; from < P::kRadix; from += kPartial) {
    const i32 end = from + kPartial < P::kRadix ? from + kPartial : P::kRadix;
    Complex partial = {0.0f, 0.0f};
    QUERN_FOUR_AT_ONCE for (i32 i = from; i < end; ++i) {
      const Complex w = root<kOrder>(at * (kOrder / kOf)), v = row[place_of<pass - 1>(butterfly + i * P::kButterflies)];
      partial.re = fma(-v.im, w.im, fma(v.re, w.re, partial.re));
      partial.im = fma(v.im, w.re, fma(v.re, w.im, partial.im));
      at += step;
      if (at >= kOf) at -= kOf;
    }
    sum = sum + partial;
  }
  return sum;
}

// From source(i), number i of the row, to sink(i, number): all of them are read before the first is handed on.
// `through` says that the sink writes to `row`, in shared memory, too.
template <i32 pass, bool through, class Source, class Sink>
QUERN_DEVICE void transform(i32 self, Complex* row, Complex* v, const Source& source, const Sink& sink) {
  using P = Pass<pass>;
  constexpr bool kLast = pass == kPasses - 1;
  const auto deliver = [&](i32 i, Complex number) {
    if constexpr (kLast) {
      sink(i, number);
    } else {
      row[place_of<pass>(i)] = number;
    }
  };
  if constexpr (P::kSums) {
    if constexpr (pass == 0) {
      sync_team();  // the row before may still be read
      QUERN_ROLLED for (i32 i = self; i < kLength; i += kTeam) row[i] = source(i);
      sync_team();
    }
    QUERN_UNROLL for (i32 e = 0; e < P::kEach; ++e) {
      const i32 i = self + e * kTeam;
      if (kLength % kTeam == 0 || i < kLength) v[e] = sum_of<pass>(row, i);
    }
  } else {
    QUERN_UNROLL for (i32 e = 0; e < P::kEach; ++e) {
      const i32 j = self + e * kTeam;
      if (P::kButterflies % kTeam != 0 && j >= P::kButterflies) continue;
      QUERN_UNROLL for (i32 k = 0; k < P::kRadix; ++k) {
        const i32 i = j + k * P::kButterflies;
        if constexpr (pass == 0) {
          v[e * P::kRadix + k] = source(i);
        } else {
          v[e * P::kRadix + k] = row[place_of<pass - 1>(i)];
        }
      }
    }
    QUERN_UNROLL for (i32 e = 0; e < P::kEach; ++e) {
      const i32 j = self + e * kTeam;
      if constexpr (P::kBefore > 1)
        turn_numbers<P::kRadix>(j % P::kBefore * (kOrder / (P::kBefore * P::kRadix)), v + e * P::kRadix);
      Butterfly<P::kRadix>::go(v + e * P::kRadix);
    }
  }
  // Where the sink writes to `out` alone, too, which may be x: others' numbers have been read then.
  sync_team();
  if constexpr (P::kSums) {
    QUERN_UNROLL for (i32 e = 0; e < P::kEach; ++e) {
      const i32 i = self + e * kTeam, k = i / P::kButterflies, j = i - k * P::kButterflies;
      if (kLength % kTeam != 0 && i >= kLength) continue;
      deliver(j / P::kBefore * (P::kBefore * P::kRadix) + j % P::kBefore + k * P::kBefore, v[e]);
    }
  } else {
    QUERN_UNROLL for (i32 e = 0; e < P::kEach; ++e) {
      const i32 j = self + e * kTeam;
      if (P::kButterflies % kTeam != 0 && j >= P::kButterflies) continue;
      const i32 to = j / P::kBefore * (P::kBefore * P::kRadix) + j % P::kBefore;
      QUERN_UNROLL for (i32 k = 0; k < P::kRadix; ++k) deliver(to + k * P::kBefore, v[e * P::kRadix + k]);
    }
  }
  if constexpr (!kLast) {
    sync_team();
    transform<pass + 1, through>(self, row, v, source, sink);
  } else if constexpr (through) {
    sync_team();
  }
}

}  // namespace q
