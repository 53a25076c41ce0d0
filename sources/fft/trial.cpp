// Random calls of fft for `quern verify --run`, and what they come to in double precision.
// SPDX-License-Identifier: Apache-2.0
#include "sources/verify/trial.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <string>
#include <vector>

#include "sources/ops.h"

namespace quern::ops::fft {
namespace {

using namespace verify;
using Number = std::complex<double>;

// What a call is, of rows that lie one element further apart where pairs are not one access.
struct Layout {
  std::int64_t rows, numbers, parts, gap;  // parts: real elements of a number
  std::int64_t step() const { return numbers * parts + gap; }
  std::int64_t at(std::int64_t row, std::int64_t number, std::int64_t part) const {
    return row * step() + number * parts + part;
  }
};

// [rows, numbers], or of complex numbers [rows, numbers, 2].
Field& lay(Field& all, const Layout& layout) {
  if (layout.parts == 1) return all.view({layout.rows, layout.numbers}, {layout.step(), 1});
  return all.view({layout.rows, layout.numbers, 2}, {layout.step(), 2, 1});
}

std::int64_t gap_of(std::int64_t elements, bool pairs) { return (elements % 2 == 0) == pairs ? 0 : 1; }

std::int32_t kind_of(const std::string& name) {
  return name == "forward"   ? QUERN_FFT_FORWARD
         : name == "inverse" ? QUERN_FFT_INVERSE
         : name == "real"    ? QUERN_FFT_REAL
                             : QUERN_FFT_TO_REAL;
}

// exp(2 pi i j / n) for all j.
std::vector<Number> roots_of(std::int64_t n) {
  std::vector<Number> roots;
  for (std::int64_t j = 0; j < n; ++j)
    roots.push_back(std::polar(1.0, 2 * std::acos(-1.0) * static_cast<double>(j) / static_cast<double>(n)));
  return roots;
}

// One row and three; of frames 9 of them in two signals.
void make(const Given& given, int which, Trial& trial) {
  const std::int64_t n = given.integer("n"), bins = n / 2 + 1;
  const std::int32_t kind = kind_of(given.text("kind"));
  const std::string result = given.text("result", "complex");
  const bool real = kind == QUERN_FFT_REAL, to_real = kind == QUERN_FFT_TO_REAL, framed = given.flag("framed");
  const bool inverse = kind == QUERN_FFT_INVERSE || to_real;
  const std::int64_t rows = which == 0 ? 3 : 1, frames = framed ? 9 : 1, hop = n / 3 + 1, pad = framed ? n / 2 : 0;
  const std::int64_t samples = framed ? (frames - 1) * hop + n - 2 * pad : n;
  const bool x_pairs = given.integer("x_pairs", 1) != 0, out_pairs = given.integer("out_pairs", 1) != 0;
  const std::int64_t of_x = to_real ? bins : samples, parts = real ? 1 : 2;
  const Layout from{rows, of_x, parts, gap_of(of_x * parts, x_pairs)};
  const std::int64_t made = real ? bins : n, out_parts = to_real || result != "complex" ? 1 : 2;
  const Layout to{rows * frames, made, out_parts, gap_of(made * out_parts, out_pairs)};
  const Field& x = lay(trial.given(given.dtype("dtype"), {rows * from.step()}), from);
  const Field* const window = given.flag("window") ? &trial.given(Dtype::f32, {n}) : nullptr;
  Field& out = trial.result(given.dtype("out"), {rows * frames * to.step()}, kF32Slack);
  if (framed) {
    std::vector<std::int64_t> shape{rows, frames, made}, strides{frames * to.step(), to.step(), out_parts};
    if (out_parts == 2) shape.push_back(2), strides.push_back(1);
    out.view(shape, strides);
  } else {
    lay(out, to);
  }
  trial.later([=, &x, &out] {
    out.unknown();
    const std::vector<Number> roots = roots_of(n);
    // The first, the last and some between: the sum of each is as long as a row.
    for (std::int64_t r = 0; r < rows * frames; ++r) {
      for (std::int64_t k = 0; k < made; k += std::max<std::int64_t>(made / 40, 1)) {
        Number sum = 0;
        for (std::int64_t j = 0; j < n; ++j) {
          std::int64_t at = j;
          bool mirrored = false;
          if (framed) {
            at = r % frames * hop - pad + j;
            at = at < 0 ? -at : at >= samples ? 2 * (samples - 1) - at : at;
          }
          if (to_real && j >= bins) at = n - j, mirrored = true;
          const std::int64_t row = r / frames;
          Number value = x.get(from.at(row, at, 0));
          const bool is_real = real || (to_real && (j == 0 || 2 * j == n));
          if (!is_real) value.imag(x.get(from.at(row, at, 1)) * (mirrored ? -1 : 1));
          if (window != nullptr) value *= window->get(j);
          const Number root = roots[static_cast<std::size_t>(j * k % n)];
          sum += value * (inverse ? root : std::conj(root));
        }
        if (inverse) sum /= static_cast<double>(n);
        if (result == "power") sum = std::norm(sum);
        if (result == "magnitude") sum = std::abs(sum);
        out.know(to.at(r, k, 0), sum.real());
        if (out_parts == 2) out.know(to.at(r, k, 1), sum.imag());
      }
    }
  });
  quern_fft_args args{};
  args.x = x.tensor(), args.window = window != nullptr ? window->tensor() : nullptr, args.out = out.tensor();
  args.n = static_cast<std::int32_t>(n), args.kind = kind;
  args.result = result == "power" ? QUERN_FFT_POWER : result == "magnitude" ? QUERN_FFT_MAGNITUDE : QUERN_FFT_COMPLEX;
  args.scaling = inverse ? QUERN_FFT_BY_N : QUERN_FFT_UNSCALED;
  if (framed) {
    args.hop = static_cast<std::int32_t>(hop), args.padding = n > 1 ? QUERN_FFT_REFLECT : QUERN_FFT_ZEROS;
    args.pad_begin = args.pad_end = static_cast<std::int32_t>(pad);
  }
  trial.what = std::to_string(rows) + (framed ? " signals, n " : " rows of ") + std::to_string(n);
  trial.call(workspace, run, args);
}

}  // namespace

const OpTrials trials{make, 2};

}  // namespace quern::ops::fft
