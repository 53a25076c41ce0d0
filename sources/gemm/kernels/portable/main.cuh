// The portable kernel for matrix products, dense, batched and grouped, on every target. A tile belongs to one block of
// threads or to several, which divide its k blocks (stream-K, sliced-K).
// SPDX-License-Identifier: Apache-2.0
#include "gemm/kernels/portable/load.cuh"
#if TENSOR_CORES
#include "gemm/kernels/portable/product.cuh"
#else
#include "gemm/kernels/portable/plain.cuh"
#endif
#include "gemm/kernels/portable/sliced_k.cuh"
#include "gemm/kernels/shared/dense_tiles.cuh"
#include "gemm/kernels/shared/grouped_tiles.cuh"
#include "gemm/kernels/shared/store.cuh"
#include "gemm/kernels/shared/stream_k.cuh"

namespace q {

// A sequence of one tile.
struct OneTile {
  Work work;
  bool given = false;
  QUERN_DEVICE bool next(Work& to) {
    if (given) return false;
    to = work;
    return given = true;
  }
};

// Multiplies the tiles of `tiles` one after the other and calls finish(work) with each one's accumulators in `sums`.
template <class Tiles, class Finish>
QUERN_DEVICE void multiply(const GemmParams& p, Tiles tiles, u8* shared, Sums& sums, Fragments& fragments,
                           Finish finish) {
  Work work;
  if constexpr (kContinuous) {
    Pipeline<Tiles> pipeline(p, tiles, shared);
    pipeline.fill();
    QUERN_ROLLED while (tiles.next(work)) {
      product(pipeline, work.end_k_block - work.first_k_block, sums, fragments);
      finish(work);
    }
    copy_async_wait<0>();
  } else {
    QUERN_ROLLED while (tiles.next(work)) {
      Work mine = work;
      if constexpr (kTeams > 1) mine = of_team(work);
      Pipeline<OneTile> pipeline(p, {mine}, shared + team() * kTeamBytes);
      pipeline.fill();
      if constexpr (kTeams > 1) fetch_scales(p, work);
      product(pipeline, mine.end_k_block - mine.first_k_block, sums, fragments);
      copy_async_wait<0>();
      sync_block();
      finish(work);
    }
  }
}

QUERN_DEVICE void multiply(const GemmParams& p) {
  Sums sums;
  Fragments fragments;
  u8* shared = dynamic_shared();
  auto* staged = reinterpret_cast<f32*>(kContinuous ? shared + kStages * kStageBytes : shared);
  if constexpr (kGrouping != kDense) {
    QUERN_SHARED(Experts, experts, 1);
    list_experts(p, experts[0]);
    check_indices(p, experts[0]);
    multiply(p, ExpertTiles(p, experts[0]), shared, sums, fragments,
             [&](const Work& work) { store(p, work, sums, staged); });
  } else if constexpr (kTeams > 1) {
    QUERN_SHARED(i32, flag, 1);
    SliceOfThread::Vectors gathered;
    const SlicedTiles tiles(p);
    multiply(p, tiles, shared, sums, fragments,
             [&](const Work& work) { store_sliced(p, tiles.contributors(work), work, sums, gathered, staged, flag); });
  } else if constexpr (kStreamK) {
    QUERN_SHARED(i32, flag, 1);
    const DenseTiles tiles(p);
    const StreamKSchedule schedule = tiles.schedule();
    multiply(p, tiles, shared, sums, fragments, [&](const Work& work) {
      if (reduce_partial_sums(p, schedule, work, sums, flag)) store(p, work, sums, staged);
    });
  } else {
    multiply(p, DenseTiles(p), shared, sums, fragments, [&](const Work& work) { store(p, work, sums, staged); });
  }
}

}  // namespace q

QUERN_KERNEL(quern_gemm, THREADS, BLOCKS_PER_SM, QUERN_PARAM q::GemmParams p) {
  q::launch_next_grid();
  q::wait_for_previous_grid();
  q::multiply(p);
}
