// Widens codes and multiplies them by their scales: a block of threads takes a piece of a row.
// SPDX-License-Identifier: Apache-2.0
#include "common/kernel.cuh"
#include "dequantize/params.cuh"
#include "quantize/vectors.cuh"

namespace q {

using In = IN;
using Out = OUT;
inline constexpr i64 kPass = kDequantizeThreads * kDequantizeVectors * kElements;  // columns

QUERN_DEVICE void dequantize_piece(const DequantizeParams& p, i64 row, i64 first) {
  const In* x = static_cast<const In*>(p.x) + row * p.x_stride;
  const f32* scales = p.scale ? p.scale + row / p.scale_rows * p.scale_stride_row : nullptr;
  Out* out = static_cast<Out*>(p.out) + row * p.out_stride;
  const auto column = [&](int v) { return first + (v * kDequantizeThreads + thread_index()) * kElements; };
  const auto left = [&](int v) { return static_cast<i32>(p.n - column(v)); };
  Raw<In> raw[kDequantizeVectors];
  f32 scale[kDequantizeVectors];
  QUERN_UNROLL for (int v = 0; v < kDequantizeVectors; ++v) {
    raw[v] = load_vector<Reuse::no>(x + column(v), left(v));
    const i64 group = static_cast<i32>(column(v)) / p.scale_columns;
    scale[v] = scales && left(v) > 0 ? scales[group * p.scale_stride_column] : 1.0f;
  }
  QUERN_UNROLL for (int v = 0; v < kDequantizeVectors; ++v) {
    Vector y = widen(raw[v]);
    QUERN_UNROLL for (int i = 0; i < kElements; ++i) y.x[i] *= scale[v];
    store_vector(out + column(v), y, left(v));
  }
}

QUERN_DEVICE void dequantize(const DequantizeParams& p) {
  const i64 step = static_cast<i64>(block_count(1)) * kPass;
  QUERN_ROLLED for (i64 row = block_index(0); row < p.rows; row += block_count(0)) {
    QUERN_ROLLED for (i64 first = block_index(1) * kPass; first < p.n; first += step) dequantize_piece(p, row, first);
  }
}

}  // namespace q

QUERN_KERNEL(quern_dequantize, THREADS, 4, QUERN_PARAM q::DequantizeParams p) {
  q::launch_next_grid();
  q::wait_for_previous_grid();
  q::dequantize(p);
}
