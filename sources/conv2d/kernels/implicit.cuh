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

// As gemm's Loader, by which the pipeline knows it: a thread copies the same 16 bytes of every k block for some lines a
// fixed number of them apart, divided among the sections.
template <class Staged>
class WindowLoader {
  static constexpr i32 kRowCopies = Staged::kRowBytes / kCopyBytes;
  static constexpr i32 kLinesAtOnce = kThreads / kRowCopies;
  static constexpr i32 kPasses = Staged::kRows / kLinesAtOnce;
  static constexpr bool kDivided = kSections == 2 && kPasses % 2 == 0;
  static constexpr i32 kPassBytes = kLinesAtOnce * Staged::kPitchBytes;
  static_assert(kCopyBytes == 16 && kThreads % kRowCopies == 0 && Staged::kRows % kLinesAtOnce == 0);

 public:
  static constexpr i32 kSectionPasses = kDivided ? kPasses / 2 : kPasses;

  // Lines from `first` on, of which there are those below `lines`.
  QUERN_DEVICE void begin(const ImplicitParams& p, i32 group, i32 first, i32 lines, i32 first_k_block) {
    const i32 row = thread_index() / kRowCopies, column = thread_index() % kRowCopies * Windows<kPasses>::kPerPiece;
    in_stage_ = row * Staged::kPitchBytes + column * static_cast<i32>(sizeof(ElementA));
    windows_.begin(p, group, first + row, kLinesAtOnce, lines, first_k_block * kBlockK + column);
  }
  QUERN_DEVICE void begin_k_block(i32 stage) { to_ = in_stage_ + stage; }
  QUERN_DEVICE void copy(SharedPlace stages, i32 section, i32 first, i32 last) const {
    if (!kDivided && section != 0) return;
    const SharedPlace to = stages + to_;
    QUERN_UNROLL for (i32 i = first; i < last; ++i) {
      const auto piece = windows_.piece(i, kDivided && section != 0, kPasses - kSectionPasses);
      copy_async_16(to + i * kPassBytes, piece.at, piece.there);
    }
  }
  QUERN_DEVICE void stop() { windows_.stop(); }
  QUERN_DEVICE void finish_section() {
    if constexpr (kDivided) to_ += kSectionPasses * kPassBytes;
  }
  QUERN_DEVICE void finish_k_block() { windows_.next_k_block(); }

 private:
  Windows<kPasses> windows_;
  i32 in_stage_ = 0, to_ = 0;
};

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
