// A call of fft with its tensors, and what it comes to by direct sums in fp64.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <complex>
#include <string>
#include <vector>

#include "tests/ops/array.h"
#include "tests/ops/rows.h"
#include "tests/ops/used_workspace.h"

namespace quern::test {

constexpr ThreeCalls<quern_fft_args> kFft{quern_fft, quern_fft_workspace, quern_fft_prepare};

// How x lies: rows one behind the other; an odd or an even number of elements apart, with a gap; each beginning within
// the one before; numbers of all rows side by side.
enum class FftPlaces { rows, gaps, overlapping, transposed, even_gaps };

struct FftCase {
  std::string name;
  std::int64_t n = 16, given = -1, rows = 3, outer = 0;  // given -1: all; outer 0: no such dimension
  quern_fft_kind kind = QUERN_FFT_FORWARD;
  quern_fft_result result = QUERN_FFT_COMPLEX;
  quern_fft_scaling scaling = QUERN_FFT_UNSCALED;
  Element x = Element::f32, out = Element::f32;
  FftPlaces x_places = FftPlaces::rows, out_places = FftPlaces::rows;
  bool window = false, in_place = false, complex_dtype = false;
  std::int64_t hop = 0, samples = 0, frames = 0;  // of frames; rows are signals
  int pad_begin = 0, pad_end = 0;
  quern_fft_padding padding = QUERN_FFT_ZEROS;
  int max_sms = 0, alignment = 0;

  bool real() const { return kind == QUERN_FFT_REAL; }
  bool to_real() const { return kind == QUERN_FFT_TO_REAL; }
  bool inverse() const { return kind == QUERN_FFT_INVERSE || to_real(); }
  std::int64_t bins() const { return n / 2 + 1; }
  std::int64_t taken() const { return given >= 0 ? given : to_real() ? bins() : n; }  // numbers of a row, or a frame
  std::int64_t of_x() const { return hop > 0 ? samples : taken(); }
  std::int64_t x_parts() const { return real() ? 1 : 2; }
  std::int64_t made() const { return real() ? bins() : n; }
  std::int64_t out_parts() const { return to_real() || result != QUERN_FFT_COMPLEX ? 1 : 2; }
  std::int64_t outers() const { return hop > 0 ? rows : std::max<std::int64_t>(outer, 1); }
  std::int64_t inners() const { return hop > 0 ? frames : rows; }
};

// Of [outer, rows, numbers, parts].
inline Array::Extents fft_strides(FftPlaces places, std::int64_t rows, std::int64_t numbers, std::int64_t parts) {
  const std::int64_t row = numbers * parts;
  if (places == FftPlaces::transposed) return {row * rows, parts, rows * parts, 1};
  const std::int64_t step = places == FftPlaces::gaps          ? row + (row % 2 == 0 ? 3 : 2)
                            : places == FftPlaces::even_gaps   ? row + (row % 2 == 0 ? 2 : 3)
                            : places == FftPlaces::overlapping ? std::max<std::int64_t>(row / 3, 1) / parts * parts
                                                               : row;
  return {step * rows + (places == FftPlaces::overlapping ? row : 0), step, parts, 1};
}

class Fourier {
 public:
  using Number = std::complex<double>;

  explicit Fourier(const FftCase& c)
      : args(sized<quern_fft_args>()),
        x(c.x, {c.hop > 0 ? 1 : c.outers(), c.rows, c.of_x(), c.x_parts()},
          fft_strides(c.x_places, c.rows, c.of_x(), c.x_parts())),
        window(Element::f32, {c.taken()}),
        out(c.out, {c.outers(), c.inners(), c.made(), c.out_parts()},
            fft_strides(c.out_places, c.inners(), c.made(), c.out_parts())),
        c_(c) {
    Random random(c.name);
    each_of_x([&](auto... at) { x.set(random.normal(), at...); });
    for (std::int64_t i = 0; i < c.taken(); ++i) window.set(random.uniform(), i);
    hand(x, c.hop > 0 || c.outer == 0, c.x_parts(), c.complex_dtype && !c.real());
    hand(out, c.hop == 0 && c.outer == 0, c.out_parts(), c.complex_dtype && c.out_parts() == 2);
    args.x = x.tensor(), args.out = c.in_place ? x.tensor() : out.tensor();
    if (c.window) args.window = window.tensor();
    args.n = static_cast<std::int32_t>(c.n), args.kind = c.kind, args.result = c.result, args.scaling = c.scaling;
    args.hop = static_cast<std::int32_t>(c.hop), args.pad_begin = c.pad_begin, args.pad_end = c.pad_end;
    args.padding = c.padding, args.max_sms = c.max_sms, args.alignment = c.alignment;
    for (Array* a : {&x, &window, &out}) a->upload();
  }

  void run(quern_context* context) {
    ASSERT_NO_FATAL_FAILURE(run_in_used_workspace(context, kFft, args)) << c_.name;
    out.download();
    if (!c_.in_place) return;
    // Results to where they are looked for, and x as it was.
    std::vector<double> given;
    each_of_x([&](auto... at) { given.push_back(x.get(at...)); });
    x.download();
    std::size_t next = 0;
    each_of_x([&](auto... at) { out.set(x.get(at...), at...), x.set(given[next++], at...); });
  }

  // Some bins of long rows: each sum is as long as its row.
  void check() const {
    double worst = 0;
    const std::int64_t step = std::max<std::int64_t>(c_.n * c_.made() / (1 << 21), 1);
    for (std::int64_t o = 0; o < c_.outers(); ++o) {
      for (std::int64_t r = 0; r < c_.inners(); ++r) {
        const std::vector<Number> row = row_of(o, r);
        double norm = 0;
        for (const Number& each : row) norm += std::norm(each);
        for (std::int64_t k = 0; k < c_.made(); k += step) {
          worst = std::max(worst, error_at(o, r, k, sum(row, k), std::sqrt(norm) * scale()));
        }
        if (c_.out_places == FftPlaces::gaps && r + 1 < c_.inners()) {
          EXPECT_TRUE(out.is_untouched(o, r, c_.made(), 0)) << c_.name;
        }
      }
    }
    EXPECT_LE(worst, 1.0) << c_.name << " n " << c_.n << "; QUERN_TEST_SEED=" << run_seed();
  }

  // The numbers of the transform of a row, window and all.
  std::vector<Number> row_of(std::int64_t o, std::int64_t r) const {
    std::vector<Number> row(static_cast<std::size_t>(c_.n));
    for (std::int64_t j = 0; j < c_.n; ++j) {
      const bool mirrored = c_.to_real() && j >= c_.bins();
      std::int64_t at = mirrored ? c_.n - j : j;
      if (at >= c_.taken()) continue;
      Number value;
      if (c_.hop > 0) {
        at += r * c_.hop - c_.pad_begin;
        const bool outside = at < 0 || at >= c_.samples;
        if (outside && c_.padding == QUERN_FFT_ZEROS) continue;
        at = at < 0 ? -at : at >= c_.samples ? 2 * (c_.samples - 1) - at : at;
        value = x.get(0, o, at, 0);
      } else {
        value = x.get(o, r, at, 0);
        const bool is_real = c_.real() || (c_.to_real() && (j == 0 || 2 * j == c_.n));
        if (!is_real) value.imag(x.get(o, r, at, 1) * (mirrored ? -1 : 1));
      }
      row[static_cast<std::size_t>(j)] = value * (c_.window ? window.get(j) : 1.0);
    }
    return row;
  }

  quern_fft_args args;
  Array x, window, out;

 private:
  // Without the dimensions that the call has not.
  static void hand(Array& array, bool without_outer, std::int64_t parts, bool complex) {
    TensorBox& box = array.box();
    DLTensor& t = box.tensor;
    if (parts == 1) --t.ndim;
    if (complex) {
      --t.ndim, t.dtype = {kDLComplex, 64, 1};
      for (int d = 0; d < 3; ++d) box.strides[d] /= 2;
    }
    if (without_outer) --t.ndim, ++t.shape, ++t.strides;
  }
  template <class Visit>
  void each_of_x(const Visit& visit) {
    for (std::int64_t o = 0; o < x.extent(0); ++o) {
      for (std::int64_t r = 0; r < c_.rows; ++r) {
        for (std::int64_t i = 0; i < c_.of_x(); ++i) {
          for (std::int64_t part = 0; part < c_.x_parts(); ++part) visit(o, r, i, part);
        }
      }
    }
  }
  double scale() const {
    const auto n = static_cast<double>(c_.n);
    return c_.scaling == QUERN_FFT_BY_N ? 1 / n : c_.scaling == QUERN_FFT_BY_ROOT ? 1 / std::sqrt(n) : 1.0;
  }
  Number sum(const std::vector<Number>& row, std::int64_t k) const {
    static constexpr double kPi = 3.14159265358979323846;
    thread_local std::vector<Number> roots;
    thread_local std::int64_t order = 0;
    if (order != c_.n) {
      order = c_.n, roots.clear();
      for (std::int64_t j = 0; j < order; ++j)
        roots.push_back(std::polar(1.0, 2 * kPi * static_cast<double>(j) / static_cast<double>(order)));
    }
    double re = 0, im = 0;
    std::int64_t at = 0;
    for (const Number& value : row) {
      const Number root = roots[static_cast<std::size_t>(at)];
      const double sine = c_.inverse() ? root.imag() : -root.imag();
      re += value.real() * root.real() - value.imag() * sine, im += value.real() * sine + value.imag() * root.real();
      at += k;
      if (at >= c_.n) at -= c_.n;
    }
    return Number(re, im) * scale();
  }
  // 1 is what rounding allows: some units in the last place of the row's norm for each halving of its length.
  double error_at(std::int64_t o, std::int64_t r, std::int64_t k, Number wanted, double norm) const {
    const double noise = 0x1p-24 * (6 + 2 * std::log2(static_cast<double>(c_.n))) * norm, unit = c_.out.roundoff();
    const double least = c_.out.kind() == Element::f16 ? 0x1p-24 : 1e-37;
    const auto against = [&](double got, double truth, double allowed) {
      return std::isnan(got) ? HUGE_VAL : std::fabs(got - truth) / (allowed + unit * std::fabs(truth) + least);
    };
    const double re = out.get(o, r, k, 0), size = std::abs(wanted);
    if (c_.result == QUERN_FFT_POWER)
      return against(re, size * size, (2 * size + noise) * noise + 0x1p-22 * size * size);
    if (c_.result == QUERN_FFT_MAGNITUDE) return against(re, size, noise + 0x1p-22 * size);
    const double error = against(re, wanted.real(), noise);
    return c_.out_parts() == 1 ? error : std::max(error, against(out.get(o, r, k, 1), wanted.imag(), noise));
  }

  FftCase c_;
};

}  // namespace quern::test
