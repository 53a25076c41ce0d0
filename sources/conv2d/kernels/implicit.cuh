// A convolution as a matrix product of windows by weights, whose windows are not laid out: they are read where x has
// them. Tiles, the product and the epilogue are those of gemm's portable kernel.
// SPDX-License-Identifier: Apache-2.0
#include "conv2d/kernels/window_loader.cuh"
#include "gemm/kernels/portable/load.cuh"
#include "gemm/kernels/portable/product.cuh"
#include "gemm/kernels/portable/sequence.cuh"
#include "gemm/kernels/shared/dense_tiles.cuh"
#include "gemm/kernels/shared/store.cuh"
#include "gemm/kernels/shared/stream_k.cuh"

namespace q {

template <bool windows, class T, class Staged>
struct OperandLoader {
  using Type = WindowLoader<Staged>;
};
template <class T, class Staged>
struct OperandLoader<false, T, Staged> {
  using Type = Loader<T, Staged, false, false, false>;
};

struct WindowsAndWeights {
  using Params = ImplicitParams;
  static constexpr bool kWindowsFirst = WINDOWS_FIRST != 0;
  typename OperandLoader<kWindowsFirst, ElementA, StagedA>::Type a;
  typename OperandLoader<!kWindowsFirst, ElementB, StagedB>::Type b;

  QUERN_DEVICE void begin(const ImplicitParams& p, const Work& work) {
    begin_rows(a, p, work);
    begin_columns(b, p, work);
  }

 private:
  template <class Staged>
  static QUERN_DEVICE void begin_rows(WindowLoader<Staged>& loader, const ImplicitParams& p, const Work& work) {
    loader.begin(p, work.group, work.row, work.rows, work.first_k_block);
  }
  template <class Weights>
  static QUERN_DEVICE void begin_rows(Weights& loader, const ImplicitParams& p, const Work& work) {
    const GemmParams& g = p.product;
    loader.begin(g.a, g.a_row, 1, work.first_k_block, g.k, [&](i32 line) { return source_row(g, work, line); });
  }
  template <class Staged>
  static QUERN_DEVICE void begin_columns(WindowLoader<Staged>& loader, const ImplicitParams& p, const Work& work) {
    loader.begin(p, work.group, work.column, p.product.n, work.first_k_block);
  }
  template <class Weights>
  static QUERN_DEVICE void begin_columns(Weights& loader, const ImplicitParams& p, const Work& work) {
    const GemmParams& g = p.product;
    loader.begin(g.b, g.b_row, 1, work.first_k_block, g.k, [&](i32 line) { return source_column(g, work, line); });
  }
};

QUERN_DEVICE void convolve(const ImplicitParams& p) {
  Sums sums;
  Fragments fragments;
  u8* shared = dynamic_shared();
  auto* staged = reinterpret_cast<f32*>(kContinuous ? shared + kStages * kStageBytes : shared);
  const GemmParams& g = p.product;
  const DenseTiles tiles(g);
  if constexpr (kStreamK) {
    QUERN_SHARED(i32, flag, 1);
    const StreamKSchedule schedule = tiles.schedule();
    multiply<WindowsAndWeights>(p, tiles, shared, sums, fragments, [&](const Work& work) {
      if (reduce_partial_sums(g, schedule, work, sums, flag)) store(g, work, sums, staged);
    });
  } else {
    multiply<WindowsAndWeights>(p, tiles, shared, sums, fragments,
                                [&](const Work& work) { store(g, work, sums, staged); });
  }
}

}  // namespace q

QUERN_KERNEL(quern_convolution_implicit, THREADS, BLOCKS_PER_SM, QUERN_PARAM q::ImplicitParams p) {
  q::launch_next_grid();
  q::wait_for_previous_grid();
  q::convolve(p);
}
