// Matrix products, dense, batched and grouped: the kernel. Tiles are one block's each, or shared by the steps of k.
// SPDX-License-Identifier: Apache-2.0
#include "gemm/tile.cuh"
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
    QUERN_SHARED(i32, flag, 1);
    const i32 tiles = p.groups * p.tiles_m * p.tiles_n, steps = div_up(p.k, kStepK);
    const Deal deal{static_cast<i64>(tiles) * steps, block_count(0), steps};
    i32 tile = block_index(0), first_step = 0;
    i64 unit = 0, end = 0;
    if (p.whole_tiles == 0) {
      unit = deal.begin(block_index(0)), end = deal.begin(block_index(0) + 1);
      tile = unit < end ? static_cast<i32>(unit / steps) : tiles;
      first_step = static_cast<i32>(unit - static_cast<i64>(tile) * steps);
    }
    QUERN_ROLLED while (tile < tiles) {
      Work work = work_of(p, tile);
      if (p.whole_tiles == 0) {
        work.first_step = first_step;
        const i64 left = end - unit;
        if (left < work.last_step - first_step) work.last_step = first_step + static_cast<i32>(left);
      }
      Sums sums = product(p, work, shared);
      if (p.whole_tiles != 0 || shared_sums(p, deal, work, sums, flag)) store(p, work, sums, staged);
      if (p.whole_tiles != 0) {
        tile += block_count(0);
      } else {
        unit += work.last_step - work.first_step;
        tile = unit < end ? tile + 1 : tiles;
        first_step = 0;
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
