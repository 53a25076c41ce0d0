// Matrix products, dense, batched and grouped: the kernel. Tiles are one block's each, or shared by the steps of k.
// SPDX-License-Identifier: Apache-2.0
#include "gemm/load.cuh"
#if TENSOR_CORES
#include "gemm/product.cuh"
#else
#include "gemm/plain.cuh"
#endif
#include "gemm/epilogue.cuh"
#include "gemm/experts.cuh"
#include "gemm/share.cuh"

namespace q {

// Tiles are taken in panels of some rows of tiles, column after column, so that blocks at work together share a and b in L2.
QUERN_DEVICE Work work_of(const GemmParams& p, i32 tile) {
  const i32 of_group = p.tiles_m * p.tiles_n;
  const i32 within = tile % of_group;
  const i32 panel = within / (p.panel * p.tiles_n);
  const i32 rest = p.tiles_m - panel * p.panel, height = rest < p.panel ? rest : p.panel;
  const i32 place = within - panel * p.panel * p.tiles_n;
  Work work{};
  work.group = tile / of_group;
  work.row = (panel * p.panel + place % height) * kTileM;
  work.column = place / height * kOutTileN;
  work.rows = p.m;
  work.last_step = div_up(p.k, kStepK);
  work.tile = tile;
  return work;
}

QUERN_DEVICE void multiply(const GemmParams& p) {
  u8* shared = dynamic_shared();
  auto* staged = reinterpret_cast<f32*>(shared);
  if constexpr (kGrouping != kDense) {
    QUERN_SHARED(Experts, experts, 1);
    list_experts(p, experts[0]);
    check_indices(p, experts[0]);
    const i32 tiles = experts[0].first_tile[p.groups] * p.tiles_n;
    QUERN_ROLLED for (i32 tile = block_index(0); tile < tiles; tile += block_count(0)) {
      const Work work = work_of(p, experts[0], tile);
      store(p, work, product(p, work, shared), staged);
    }
  } else {
    const i32 tiles = p.groups * p.tiles_m * p.tiles_n, steps = div_up(p.k, kStepK);
    if constexpr (!kShared) {
      QUERN_ROLLED for (i32 tile = block_index(0); tile < tiles; tile += block_count(0)) {
        const Work work = work_of(p, tile);
        store(p, work, product(p, work, shared), staged);
      }
    } else {
      QUERN_SHARED(i32, flag, 1);
      // Whole tiles are dealt out as one unit each.
      const i32 units_of_tile = p.whole_tiles != 0 ? 1 : steps;
      const Deal deal{static_cast<i64>(tiles) * units_of_tile, block_count(0), units_of_tile};
      const i64 end = deal.begin(block_index(0) + 1);
      QUERN_ROLLED for (i64 unit = deal.begin(block_index(0)); unit < end;) {
        Work work = work_of(p, static_cast<i32>(unit / units_of_tile));
        i64 taken = 1;
        if (p.whole_tiles == 0) {
          work.first_step = static_cast<i32>(unit % units_of_tile);
          taken = end - unit < steps - work.first_step ? end - unit : steps - work.first_step;
          work.last_step = work.first_step + static_cast<i32>(taken);
        }
        Sums sums = product(p, work, shared);
        if (shared_sums(p, deal, work, sums, flag)) store(p, work, sums, staged);
        unit += taken;
      }
    }
  }
}

}  // namespace q

QUERN_KERNEL(quern_gemm, THREADS, BLOCKS_PER_SM, QUERN_PARAM q::GemmParams p) {
  q::launch_next_grid();
  q::wait_for_previous_grid();
  q::multiply(p);
}
