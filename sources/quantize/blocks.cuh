// Quantises blocks of 128 rows and 128 columns that share a scale: a block of threads takes one, in registers.
// SPDX-License-Identifier: Apache-2.0
#include "common/kernel.cuh"
#include "common/scale.cuh"
#include "quantize/params.cuh"
#include "quantize/scale.cuh"
#include "quantize/team.cuh"
#include "quantize/vectors.cuh"

namespace q {

using In = IN;
using Out = OUT;
inline constexpr int kRowThreads = kGroupColumns / kElements;  // threads beside each other in a row
inline constexpr int kRowsAtOnce = kThreads / kRowThreads;
static_assert(kVectors * kRowsAtOnce == kBlockRows, "a block's threads hold all of it");

// Where a thread's vectors lie in a matrix: some rows apart.
template <class T>
struct Column {
  T* first;
  i64 step;

  QUERN_DEVICE Column(T* matrix, i64 stride, i64 row, i64 column)
      : first(matrix + (row * stride + column)), step(kRowsAtOnce * stride) {}
  QUERN_DEVICE T* at(int v) const { return first + v * step; }
};

QUERN_DEVICE void quantize_block(const QuantizeParams& p, i64 first_row, i64 first_column, Joiner& joiner) {
  const i64 column = first_column + thread_index() % kRowThreads * kElements;
  const i64 row = first_row + thread_index() / kRowThreads;
  const i32 rows_left = static_cast<i32>(p.rows - row), columns_left = static_cast<i32>(p.n - column);
  const auto left = [&](int v) { return v * kRowsAtOnce < rows_left ? columns_left : 0; };
  Raw<In> raw[kVectors];
  const Column<const In> x(static_cast<const In*>(p.x), p.x_stride, row, column);
  QUERN_UNROLL for (int v = 0; v < kVectors; ++v) raw[v] = load_vector<Reuse::no>(x.at(v), left(v));
  f32 largest = 0.0f;
  QUERN_UNROLL for (int v = 0; v < kVectors; ++v) largest = largest_magnitude(largest, widen(raw[v]));
  const bool plain = largest < infinity();
  if (!plain) {
    largest = 0.0f;
    QUERN_UNROLL for (int v = 0; v < kVectors; ++v) largest = largest_finite(largest, widen(raw[v]));
  }
  const f32 scale = scale_for<Out>(joiner.block(largest, Larger()), p.power_of_two);
  const Divisor divisor = divisor_of(scale);
  if (p.dense) {
    const Column<In> dense(static_cast<In*>(p.dense), p.dense_stride, row, column);
    QUERN_UNROLL for (int v = 0; v < kVectors; ++v) store_vector(dense.at(v), widen(raw[v]), left(v));
  }
  const Column<Out> out(static_cast<Out*>(p.out), p.out_stride, row, column);
  QUERN_UNROLL for (int v = 0; v < kVectors; ++v)
      store_vector(out.at(v), divide(widen(raw[v]), divisor, plain), left(v));
  if (thread_index() == 0) {
    p.scale[first_row / kBlockRows * p.scale_stride_row + first_column / kGroupColumns * p.scale_stride_group] = scale;
  }
}

QUERN_DEVICE void quantize_blocks(const QuantizeParams& p) {
  QUERN_SHARED(f32, shared, 2 * Joiner::kWarps);
  Joiner joiner(shared);
  const i64 down = static_cast<i64>(block_count(1)) * kBlockRows,
            across = static_cast<i64>(block_count(0)) * kGroupColumns;
  QUERN_ROLLED for (i64 row = static_cast<i64>(block_index(1)) * kBlockRows; row < p.rows; row += down) {
    QUERN_ROLLED for (i64 column = static_cast<i64>(block_index(0)) * kGroupColumns; column < p.n; column += across) {
      quantize_block(p, row, column, joiner);
    }
  }
}

}  // namespace q

QUERN_KERNEL(quern_quantize_blocks, THREADS, BLOCKS_PER_SM, QUERN_PARAM q::QuantizeParams p) {
  q::launch_next_grid();
  q::wait_for_previous_grid();
  q::quantize_blocks(p);
}
