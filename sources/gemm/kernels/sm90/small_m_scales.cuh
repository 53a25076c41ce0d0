// The producer warps that load block scales in the Hopper kernels for few rows (swap_ab.cuh, small_m.cuh, split_k.cuh).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/sm90/warpgroup.cuh"
#include "gemm/kernels/shared/pipeline.cuh"
#include "gemm/kernels/shared/source.cuh"

namespace q {

// The factors of a k block: for each row of a its scale times that of the tile's rows of b, which belong to one block
// of 128. With a gate each half has its own.
inline constexpr i32 kScaleSets = kGate ? 2 : 1;
inline constexpr i32 kScaleCount = kBlockScale ? kScaleSets * kTileM : 0;

// Where the scales of a row of a and of the tile's rows of b begin.
QUERN_DEVICE const f32* block_scales_of_row(const GemmParams& p, const Work& work, i32 line) {
  const i32 source = source_row(p, work, line);
  return p.scale_a + work.group * p.scale_a_group + (source < 0 ? 0 : source) * p.scale_a_row;
}
QUERN_DEVICE const f32* block_scales_of_columns(const GemmParams& p, const Work& work, i32 set) {
  // The tile of the last peer may lie beyond the columns.
  const i32 column = set * (p.n / 2) + work.column;
  return p.scale_b + work.group * p.scale_b_group + (column < p.n ? column : p.n - 1) / 128 * p.scale_b_row;
}

// Asks for the block scales of b, before the previous grid has finished: they come from far away, and behind the first
// copies of b they would come late.
template <class Tiles>
QUERN_DEVICE void fetch_scales_of_b(const GemmParams& p, Tiles tiles) {
  Work work;
  QUERN_ROLLED while (tiles.next(work)) {
    QUERN_UNROLL for (i32 s = 0; s < kScaleSets; ++s) {
      const f32* scales = block_scales_of_columns(p, work, s);
      QUERN_ROLLED for (i32 k_block = work.first_k_block + lane(); k_block < work.end_k_block; k_block += kWarp) {
        prefetch_line(scales + k_block * p.scale_b_k);
      }
    }
  }
}

// The scales of some k blocks, `apart` k blocks from one another, while they are being loaded.
template <i32 k_blocks, i32 apart>
struct ScaleBatch {
  static constexpr i32 kRows = div_up(kTileM, kWarp);
  f32 of_row[k_blocks][kRows], of_b[k_blocks][kScaleSets];

  QUERN_DEVICE void load(const GemmParams& p, const f32* const (&rows)[kRows], const f32* const (&b)[kScaleSets],
                         i32 first, i32 last) {
    QUERN_UNROLL for (i32 i = 0; i < k_blocks; ++i) {
      const i64 k_block = first + i * apart < last ? first + i * apart : last - 1;
      QUERN_UNROLL for (i32 r = 0; r < kRows; ++r) of_row[i][r] = rows[r][k_block * p.scale_a_k];
      QUERN_UNROLL for (i32 s = 0; s < kScaleSets; ++s) of_b[i][s] = b[s][k_block * p.scale_b_k];
    }
  }
};

// The loop of scale warp `number`. The `warps` scale warps take the k blocks in turn, in batches of `k_blocks` of their
// own. Each loads its next batch while it hands out the present one, so that several loads are in flight. There are
// `places` places for the factors of a k block, possibly fewer than stages: a k block reuses the place of the one
// `places` before it and waits until that has been multiplied. A stage is always served by the same warp, which
// therefore waits for each of its phases; otherwise it could mistake another phase for the one it waits for. Where the
// k blocks are multiplied one after the other, no warp is so far behind that this could happen. issued() is called in
// each tile once its first loads have been issued.
template <i32 k_blocks, i32 warps, i32 places, class Tiles, class Issued>
QUERN_DEVICE void copy_scales(const GemmParams& p, Tiles tiles, i32 number, f32* scales, Stages& stages,
                              Issued issued) {
  using Batch = ScaleBatch<k_blocks, warps>;
  constexpr i32 kRows = Batch::kRows;
  const i32 l = lane();
  Work work;
  StageState begin;  // of the tile's first k block
  PipelineState<places> begin_place;
  QUERN_ROLLED while (tiles.next(work)) {
    const f32* rows[kRows];
    const f32* of_b[kScaleSets];
    QUERN_UNROLL for (i32 r = 0; r < kRows; ++r) rows[r] = block_scales_of_row(p, work, l + r * kWarp);
    QUERN_UNROLL for (i32 s = 0; s < kScaleSets; ++s) of_b[s] = block_scales_of_columns(p, work, s);
    Batch batch;
    i32 first = work.first_k_block + (number + kStages - begin.stage) % warps;
    if (first < work.end_k_block) batch.load(p, rows, of_b, first, work.end_k_block);
    issued();
    QUERN_ROLLED for (; first < work.end_k_block; first += warps * k_blocks) {
      f32 product[k_blocks][kScaleSets][kRows];
      QUERN_UNROLL for (i32 i = 0; i < k_blocks; ++i) {
        QUERN_UNROLL for (i32 s = 0; s < kScaleSets; ++s) {
          QUERN_UNROLL for (i32 r = 0; r < kRows; ++r) product[i][s][r] = batch.of_row[i][r] * batch.of_b[i][s];
        }
      }
      if (first + warps * k_blocks < work.end_k_block)
        batch.load(p, rows, of_b, first + warps * k_blocks, work.end_k_block);
      StageState state = begin;
      state.skip(first - work.first_k_block);
      PipelineState<places> place = begin_place;
      place.skip(first - work.first_k_block);
      QUERN_UNROLL for (i32 i = 0; i < k_blocks; ++i) {
        if (first + i * warps < work.end_k_block) {
          StageState freed = state;  // the stage of the k block that had the place before
          freed.template advance<kStages - places>();
          mbarrier_wait(stages.empty[freed.stage], freed.phase ^ 1);
          f32* to = scales + place.stage * kScaleCount;
          QUERN_UNROLL for (i32 s = 0; s < kScaleSets; ++s) {
            QUERN_UNROLL for (i32 r = 0; r < kRows; ++r) {
              if (l + r * kWarp < kTileM) to[s * kTileM + l + r * kWarp] = product[i][s][r];
            }
          }
          sync_warp();
          if (l == 0) mbarrier_arrive(stages.full[state.stage]);
          state.template advance<warps>(), place.template advance<warps>();
        }
      }
    }
    begin.skip(work.end_k_block - work.first_k_block);
    begin_place.skip(work.end_k_block - work.first_k_block);
  }
}

}  // namespace q
