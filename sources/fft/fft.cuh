// Fourier transforms of rows: a team of threads takes a row. An inverse transform is the forward one with real and
// imaginary parts exchanged before and behind it. Real rows of an even length are taken as complex ones of half of it,
// each number of which is two neighbours (Cooley, Lewis, Welch, "The fast Fourier transform algorithm", 1970).
// SPDX-License-Identifier: Apache-2.0
#include "common/elements.cuh"
#include "fft/passes.cuh"

namespace q {

using Given = GIVEN;
using Made = MADE;
inline constexpr i32 kTeams = TEAMS, kPitch = PITCH;  // of a block; numbers of shared memory from team to team
inline constexpr bool kReal = KIND == 2, kToReal = KIND == 3, kInverse = KIND == 1 || KIND == 3;
inline constexpr bool kPower = RESULT == 1, kMagnitude = RESULT == 2;
inline constexpr bool kHasWindow = HAS_WINDOW != 0, kFramed = FRAMED != 0;
inline constexpr bool kXPairs = X_PAIRS != 0, kOutPairs = OUT_PAIRS != 0;  // two real elements are one access
inline constexpr i32 kN = N;
inline constexpr bool kHalved = (kReal || kToReal) && kN % 2 == 0;  // two real numbers are one of the transform

// One row of x, or one frame of a signal.
struct RowOfX {
  const u8* at;
  const f32* window;
  i64 step;
  i32 given, samples, begin;
  bool there, reflect;
};

template <class T>
QUERN_DEVICE f32 load_one(const u8* row, i64 at) {
  f32 value = 0.0f;
  values_of(load_elements<T, 1>(row + at * static_cast<i64>(sizeof(T))), &value);
  return value;
}
template <class T>
QUERN_DEVICE Complex load_pair(const u8* row, i64 at) {
  f32 values[2];
  values_of(load_elements<T, 2>(row + at * static_cast<i64>(sizeof(T))), values);
  return {values[0], values[1]};
}

QUERN_DEVICE f32 real_at(const RowOfX& x, i32 i) {
  if (!x.there || i >= x.given) return 0.0f;
  i32 at = i;
  if constexpr (kFramed) {
    at += x.begin;
    if (at < 0 || at >= x.samples) {
      if (!x.reflect) return 0.0f;
      at = at < 0 ? -at : 2 * (x.samples - 1) - at;
    }
  }
  const f32 value = load_one<Given>(x.at, at * x.step);
  return kHasWindow ? value * x.window[i] : value;
}
// Numbers 2 i and 2 i + 1.
QUERN_DEVICE Complex reals_at(const RowOfX& x, i32 i) {
  if constexpr (kXPairs) {
    if (x.there && 2 * i + 1 < x.given) {
      Complex pair = load_pair<Given>(x.at, 2 * i);
      if constexpr (kHasWindow) pair = {pair.re * x.window[2 * i], pair.im * x.window[2 * i + 1]};
      return pair;
    }
  }
  return {real_at(x, 2 * i), real_at(x, 2 * i + 1)};
}
QUERN_DEVICE Complex complex_at(const RowOfX& x, i32 i) {
  if (!x.there || i >= x.given) return {0.0f, 0.0f};
  Complex value;
  if constexpr (kXPairs) {
    value = load_pair<Given>(x.at, 2 * i);
  } else {
    value = {load_one<Given>(x.at, i * x.step), load_one<Given>(x.at, i * x.step + 1)};
  }
  return kHasWindow ? x.window[i] * value : value;
}
// Of the spectrum of a real row: what must be real is taken as real.
QUERN_DEVICE Complex bin_at(const RowOfX& x, i32 k) {
  const Complex value = complex_at(x, k);
  return k == 0 || 2 * k == kN ? Complex{value.re, 0.0f} : value;
}

// Number i of the transform.
QUERN_DEVICE Complex number_at(const RowOfX& x, i32 i) {
  if constexpr (kToReal && kHalved) {
    const Complex a = bin_at(x, i), b = conjugate(bin_at(x, kLength - i)), turned = (a - b) * conjugate(root<kN>(i));
    return swapped(a + b - times_minus_i(turned));
  } else if constexpr (kToReal) {
    return swapped(i <= kN / 2 ? bin_at(x, i) : conjugate(bin_at(x, kN - i)));
  } else if constexpr (kHalved) {
    return reals_at(x, i);
  } else if constexpr (kReal) {
    return {real_at(x, i), 0.0f};
  } else {
    return kInverse ? swapped(complex_at(x, i)) : complex_at(x, i);
  }
}

template <class T>
QUERN_DEVICE void store_one(u8* row, i64 at, f32 value) {
  store_elements<T, 1>(row + at * static_cast<i64>(sizeof(T)), elements_of<T, 1>(&value));
}
template <class T>
QUERN_DEVICE void store_pair(u8* row, i64 at, Complex pair) {
  const f32 values[2] = {pair.re, pair.im};
  store_elements<T, 2>(row + at * static_cast<i64>(sizeof(T)), elements_of<T, 2>(values));
}

// The square of what lies outside of these bounds may not be a number of f32.
QUERN_DEVICE f32 magnitude(Complex value) {
  const f32 larger = fmax(fabs(value.re), fabs(value.im));
  f32 down = 1.0f, up = 1.0f;
  if (larger > 0x1p60f) down = 0x1p-70f, up = 0x1p70f;
  if (larger < 0x1p-40f) down = 0x1p70f, up = 0x1p-70f;
  const Complex scaled = down * value;
  return sqrt(fma(scaled.re, scaled.re, scaled.im * scaled.im)) * up;
}

// Number k of a row's results.
QUERN_DEVICE void store_number(const FftParams& p, u8* row, i32 k, Complex value) {
  if constexpr (kPower) {
    store_one<Made>(row, k * p.out_step, fma(value.re, value.re, value.im * value.im));
  } else if constexpr (kMagnitude) {
    store_one<Made>(row, k * p.out_step, magnitude(value));
  } else if constexpr (kOutPairs) {
    store_pair<Made>(row, 2 * k, value);
  } else {
    store_one<Made>(row, k * p.out_step, value.re);
    store_one<Made>(row, k * p.out_step + 1, value.im);
  }
}
// Real numbers 2 k and 2 k + 1.
QUERN_DEVICE void store_reals(const FftParams& p, u8* row, i32 k, Complex pair) {
  if constexpr (kOutPairs) {
    store_pair<Made>(row, 2 * k, pair);
  } else {
    store_one<Made>(row, 2 * k * p.out_step, pair.re);
    store_one<Made>(row, (2 * k + 1) * p.out_step, pair.im);
  }
}

// The spectrum of a real row out of that of its halves: bins k and kLength - k are made of numbers k and kLength - k.
QUERN_DEVICE void store_spectrum(const FftParams& p, i32 self, u8* out, const Complex* row) {
  const f32 half = 0.5f * p.scale;
  QUERN_ROLLED for (i32 k = self; k <= kLength / 2; k += kTeam) {
    const Complex a = row[k], b = conjugate(row[k == 0 ? 0 : kLength - k]);
    const Complex even = a + b, odd = root<kN>(k) * times_minus_i(a - b);
    store_number(p, out, k, half * (even + odd));
    if (2 * k != kLength) store_number(p, out, kLength - k, half * conjugate(even - odd));
  }
}

QUERN_DEVICE void transform_row(const FftParams& p, i64 row, Complex* shared) {
  const bool there = kTeams == 1 || row < p.rows;
  const i32 outer = there ? static_cast<i32>(row) / p.inner : 0;
  const i32 inner = there ? static_cast<i32>(row) - outer * p.inner.value : 0;
  const i64 from = outer * p.x_outer + inner * p.x_inner, to = outer * p.out_outer + inner * p.out_inner;
  const RowOfX x = {p.x + from * static_cast<i64>(sizeof(Given)),
                    p.window,
                    p.x_step,
                    p.given,
                    p.samples,
                    kFramed ? static_cast<i32>(i64{inner} * p.hop - p.pad_begin) : 0,
                    there,
                    p.reflect != 0};
  u8* const out = p.out + to * static_cast<i64>(sizeof(Made));
  const i32 self = member(row);
  Complex held[kNumbers];
  const auto source = [&](i32 i) { return number_at(x, i); };
  if constexpr (kReal && kHalved) {
    transform<0, true>(self, shared, held, source, [&](i32 i, Complex value) { shared[i] = value; });
    if (there) store_spectrum(p, self, out, shared);
  } else {
    transform<0, false>(self, shared, held, source, [&](i32 i, Complex value) {
      if (!there) return;
      if constexpr (kInverse) value = swapped(value);
      value = p.scale * value;
      if constexpr (kToReal && kHalved) {
        store_reals(p, out, i, value);
      } else if constexpr (kToReal) {
        store_one<Made>(out, i * p.out_step, value.re);
      } else if (!kReal || i <= kN / 2) {
        store_number(p, out, i, value);
      }
    });
  }
}

}  // namespace q

QUERN_KERNEL(quern_fft, TEAM* TEAMS, BLOCKS_PER_SM, QUERN_PARAM q::FftParams p) {
  q::launch_next_grid();
  q::wait_for_previous_grid();
  q::Complex* const shared =
      reinterpret_cast<q::Complex*>(q::dynamic_shared()) + q::thread_index() / q::kTeam * q::kPitch;
  const q::i64 step = q::i64{q::block_count(0)} * q::kTeams;
  // All threads of a block go through the same rounds: teams without a row wait with the others.
  QUERN_ROLLED for (q::i64 first = q::i64{q::block_index(0)} * q::kTeams; first < p.rows; first += step) {
    q::transform_row(p, first + q::thread_index() / q::kTeam, shared);
  }
}
