// Matrix products, dense, batched and grouped: the kernel. Tiles are one block's each, or shared by the steps of k.
// SPDX-License-Identifier: Apache-2.0
#include "gemm/load.cuh"
#if TENSOR_CORES
#include "gemm/product.cuh"
#else
#include "gemm/plain.cuh"
#endif
#include "gemm/experts.cuh"
#include "gemm/share.cuh"
#include "gemm/store.cuh"
#include "gemm/tiles.cuh"

namespace q {

// A sequence of one.
struct OneTile {
  Work work;
  bool given = false;
  QUERN_DEVICE bool next(Work& to) {
    if (given) return false;
    to = work;
    return given = true;
  }
};

// Every tile is a block's own.
struct WholeTiles {
  QUERN_DEVICE bool whole(const Work&, Sums&) const { return true; }
  template <class Tiles>
  QUERN_DEVICE bool next(const Tiles&, Work&, Sums&) const {
    return false;
  }
};

// Takes the tiles of `tiles` one after the other, and then what `open` has of them.
template <class Tiles, class Open>
QUERN_DEVICE void multiply(const GemmParams& p, Tiles tiles, Open open, u8* shared, Sums& sums) {
  auto* staged = reinterpret_cast<f32*>(kContinuous ? shared + kStages * kStageBytes : shared);
  Work work;
  if constexpr (kContinuous) {
    Pipeline<Tiles> pipeline(p, tiles, shared);
    pipeline.fill();
    QUERN_ROLLED for (;;) {
      if (tiles.next(work)) {
        product(pipeline, work.last_step - work.first_step, sums);
        if (!open.whole(work, sums)) continue;
      } else if (!open.next(tiles, work, sums)) {
        break;
      }
      store(p, work, sums, staged);
    }
    copy_async_wait<0>();
  } else {
    QUERN_ROLLED for (;;) {
      if (tiles.next(work)) {
        Pipeline<OneTile> pipeline(p, {work}, shared);
        pipeline.fill();
        product(pipeline, work.last_step - work.first_step, sums);
        copy_async_wait<0>();
        sync_block();
        if (!open.whole(work, sums)) continue;
      } else if (!open.next(tiles, work, sums)) {
        break;
      }
      store(p, work, sums, staged);
    }
  }
}

QUERN_DEVICE void multiply(const GemmParams& p) {
  Sums sums;
  u8* shared = dynamic_shared();
  if constexpr (kGrouping != kDense) {
    QUERN_SHARED(Experts, experts, 1);
    list_experts(p, experts[0]);
    check_indices(p, experts[0]);
    multiply(p, ExpertTiles(p, experts[0]), WholeTiles(), shared, sums);
  } else if constexpr (kShared) {
    QUERN_SHARED(i32, flags, 2);
    const DenseTiles tiles(p);
    multiply(p, tiles, OpenTiles<Sums>(p, tiles.deal(), flags), shared, sums);
  } else {
    multiply(p, DenseTiles(p), WholeTiles(), shared, sums);
  }
}

}  // namespace q

QUERN_KERNEL(quern_gemm, THREADS, BLOCKS_PER_SM, QUERN_PARAM q::GemmParams p) {
  q::launch_next_grid();
  q::wait_for_previous_grid();
  q::multiply(p);
}
