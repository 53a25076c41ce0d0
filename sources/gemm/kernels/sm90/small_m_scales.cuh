// What Hopper's kernels for few rows have in common: warps that bring block scales.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/sm90/warpgroup.cuh"
#include "gemm/kernels/shared/pipeline.cuh"
#include "gemm/kernels/shared/source.cuh"

namespace q {

// Block scales of a step: for each row of a, times that of the tile's rows of b, which are all of one block; with a gate each half
// has its own.
inline constexpr i32 kScaleSets = kGate ? 2 : 1;
inline constexpr i32 kScaleCount = kBlockScale ? kScaleSets * kTileM : 0;

// Where those of a row of a and of the tile's rows of b begin.
QUERN_DEVICE const f32* block_scales_of_row(const GemmParams& p, const Work& work, i32 line) {
  const i32 source = source_row(p, work, line);
  return p.scale_a + (kGrouping == kContiguous ? 0 : work.group) * p.scale_a_group + (source < 0 ? 0 : source) * p.scale_a_row;
}
QUERN_DEVICE const f32* block_scales_of_columns(const GemmParams& p, const Work& work, i32 set) {
  // The last peer's tile may lie beyond the columns.
  const i32 column = set * (p.n / 2) + work.column;
  return p.scale_b + work.group * p.scale_b_group + (column < p.n ? column : p.n - 1) / 128 * p.scale_b_row;
}

// Scales of some steps, `apart` from one another, on their way.
template <i32 steps, i32 apart>
struct ScaleBatch {
  static constexpr i32 kRows = div_up(kTileM, kWarp);
  f32 of_row[steps][kRows], of_b[steps][kScaleSets];

  QUERN_DEVICE void load(const GemmParams& p, const f32* const (&rows)[kRows], const f32* const (&b)[kScaleSets], i32 first, i32 last) {
    QUERN_UNROLL for (i32 i = 0; i < steps; ++i) {
      const i64 step = first + i * apart < last ? first + i * apart : last - 1;
      QUERN_UNROLL for (i32 r = 0; r < kRows; ++r) of_row[i][r] = rows[r][step * p.scale_a_k];
      QUERN_UNROLL for (i32 s = 0; s < kScaleSets; ++s) of_b[i][s] = b[s][step * p.scale_b_k];
    }
  }
};

// By warp `number` of so many, which take the steps in turn, in batches of so many of their own. Each reads its next batch while it hands
// one out, so that memory answers for several at a time. There is room for the scales of so many steps, `places`, which may be fewer
// than there are stages: those of a step take the place of those so many steps before, and wait for these to be multiplied. A stage is
// always the same warp's, which therefore waits for each time that it is free, for another time's phase would pass for its own; where
// the steps are multiplied one after the other, none is so far behind. `asked` is called in each tile once its first scales are on
// their way.
template <i32 steps, i32 warps, i32 places, class Tiles, class Asked>
QUERN_DEVICE void copy_scales(const GemmParams& p, Tiles tiles, i32 number, f32* scales, Stages& stages, Asked asked) {
  using Batch = ScaleBatch<steps, warps>;
  constexpr i32 kRows = Batch::kRows;
  const i32 l = lane();
  Work work;
  StageState begin;  // of the tile
  PipelineState<places> begin_place;
  QUERN_ROLLED while (tiles.next(work)) {
    const f32* rows[kRows];
    const f32* of_b[kScaleSets];
    QUERN_UNROLL for (i32 r = 0; r < kRows; ++r) rows[r] = block_scales_of_row(p, work, l + r * kWarp);
    QUERN_UNROLL for (i32 s = 0; s < kScaleSets; ++s) of_b[s] = block_scales_of_columns(p, work, s);
    Batch batch;
    i32 first = work.first_step + (number + kStages - begin.stage) % warps;
    if (first < work.last_step) batch.load(p, rows, of_b, first, work.last_step);
    asked();
    QUERN_ROLLED for (; first < work.last_step; first += warps * steps) {
      f32 product[steps][kScaleSets][kRows];
      QUERN_UNROLL for (i32 i = 0; i < steps; ++i) {
        QUERN_UNROLL for (i32 s = 0; s < kScaleSets; ++s) {
          QUERN_UNROLL for (i32 r = 0; r < kRows; ++r) product[i][s][r] = batch.of_row[i][r] * batch.of_b[i][s];
        }
      }
      if (first + warps * steps < work.last_step) batch.load(p, rows, of_b, first + warps * steps, work.last_step);
      StageState state = begin;
      state.skip(first - work.first_step);
      PipelineState<places> place = begin_place;
      place.skip(first - work.first_step);
      QUERN_UNROLL for (i32 i = 0; i < steps; ++i) {
        if (first + i * warps < work.last_step) {
          StageState freed = state;  // by the step that had the place
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
    begin.skip(work.last_step - work.first_step);
    begin_place.skip(work.last_step - work.first_step);
  }
}

}  // namespace q
