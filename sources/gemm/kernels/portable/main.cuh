// The portable kernel for matrix products, dense, batched and grouped, on every target. A tile belongs to one block of
// threads or to several, which divide its k blocks (stream-K, sliced-K).
// SPDX-License-Identifier: Apache-2.0
#include "gemm/kernels/portable/load.cuh"
#if TENSOR_CORES
#include "gemm/kernels/portable/product.cuh"
#else
#include "gemm/kernels/portable/plain.cuh"
#endif
#include "gemm/kernels/portable/sequence.cuh"
#include "gemm/kernels/shared/dense_tiles.cuh"
#include "gemm/kernels/shared/grouped_tiles.cuh"
#include "gemm/kernels/shared/store.cuh"
#include "gemm/kernels/shared/stream_k.cuh"

namespace q {

QUERN_DEVICE void multiply(const GemmParams& p) {
  Sums sums;
  Fragments fragments;
  u8* shared = dynamic_shared();
  auto* staged = reinterpret_cast<f32*>(kContinuous ? shared + kStages * kStageBytes : shared);
  if constexpr (kGrouping != kDense) {
    QUERN_SHARED(Experts, experts, 1);
    list_experts(p, experts[0]);
    check_indices(p, experts[0]);
    multiply<GemmOperands>(p, ExpertTiles(p, experts[0]), shared, sums, fragments,
                           [&](const Work& work) { store(p, work, sums, staged); });
  } else if constexpr (kTeams > 1) {
    QUERN_SHARED(i32, flag, 1);
    SliceOfThread::Vectors gathered;
    const SlicedTiles tiles(p);
    multiply<GemmOperands>(p, tiles, shared, sums, fragments, [&](const Work& work) {
      store_sliced(p, tiles.contributors(work), work, sums, gathered, staged, flag);
    });
  } else if constexpr (kStreamK) {
    QUERN_SHARED(i32, flag, 1);
    const DenseTiles tiles(p);
    const StreamKSchedule schedule = tiles.schedule();
    multiply<GemmOperands>(p, tiles, shared, sums, fragments, [&](const Work& work) {
      if (reduce_partial_sums(p, schedule, work, sums, flag)) store(p, work, sums, staged);
    });
  } else {
    multiply<GemmOperands>(p, DenseTiles(p), shared, sums, fragments,
                           [&](const Work& work) { store(p, work, sums, staged); });
  }
}

}  // namespace q

QUERN_KERNEL(quern_gemm, THREADS, BLOCKS_PER_SM, QUERN_PARAM q::GemmParams p) {
  q::launch_next_grid();
  q::wait_for_previous_grid();
  q::multiply(p);
}
