// The main loop: a tile's sums over its k steps, on tensor cores.
//
// A pipeline of kStages - 1 steps under way. Within a step, what the next tensor-core step needs is read from shared memory
// while the present one is multiplied.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gemm/load.cuh"

namespace q {

inline constexpr i32 kWarpM = kTileM / kWarpsM, kWarpN = kTileN / kWarpsN;
inline constexpr i32 kTilesM = kWarpM / 16, kTilesN = kWarpN / 16;
inline constexpr i32 kProducts = kStepK / kTileK<ElementA>;  // tensor-core steps of a k step
static_assert(kTileM % (16 * kWarpsM) == 0 && kTileN % (16 * kWarpsN) == 0 && kWarpsM * kWarpsN * kWarp == kThreads);
static_assert(!kBlockScale || kStepK == 128, "a step has one scale");

template <class T>
QUERN_DEVICE T copy_of(const T& v) {
  return v;
}

struct Sums {
  Accumulator x[kTilesM][kTilesN];
};

// f(index, sum) for each sum that the thread holds.
template <class F>
QUERN_DEVICE void each_sum(Sums& sums, F f) {
  constexpr i32 kHeld = 256 / kWarp;
  QUERN_UNROLL for (i32 i = 0; i < kTilesM; ++i) {
    QUERN_UNROLL for (i32 j = 0; j < kTilesN; ++j) {
      QUERN_UNROLL for (i32 e = 0; e < kHeld; ++e) f((i * kTilesN + j) * kHeld + e, sums.x[i][j].x[e]);
    }
  }
}

QUERN_DEVICE i32 warp_row() { return warp() / kWarpsN * kWarpM; }
QUERN_DEVICE i32 warp_column() { return warp() % kWarpsN * kWarpN; }

// The operands of one tensor-core step of a warp, or of some of its columns.
template <i32 tiles_n>
struct Fragments {
  OperandA<ElementA> a[kTilesM];
  OperandB<ElementB> b[tiles_n];

  QUERN_DEVICE void load(const u8* stage, i32 k, i32 first_n = 0) {
    QUERN_UNROLL for (i32 i = 0; i < kTilesM; ++i) load_rows(stage, k, i);
    load_columns(stage, k, first_n);
  }
  QUERN_DEVICE void load_rows(const u8* stage, i32 k, i32 i) {
    const auto* tile = reinterpret_cast<const ElementA*>(stage);
    const i32 row = warp_row() + 16 * i;
    if constexpr (kTransposedA) {
      a[i] = load_a_transposed(tile + k * StagedA::kPitch + row, StagedA::kPitch);
    } else {
      a[i] = load_a(tile + row * StagedA::kPitch + k, StagedA::kPitch);
    }
  }
  QUERN_DEVICE void load_columns(const u8* stage, i32 k, i32 first_n) {
    const auto* tile = reinterpret_cast<const ElementB*>(stage + StagedA::kBytes);
    QUERN_UNROLL for (i32 j = 0; j < tiles_n; ++j) {
      const i32 column = warp_column() + 16 * (first_n + j);
      if constexpr (kTransposedB) {
        b[j] = load_b_transposed(tile + k * StagedB::kPitch + column, StagedB::kPitch);
      } else {
        b[j] = load_b(tile + column * StagedB::kPitch + k, StagedB::kPitch);
      }
    }
  }
};

using WideColumn = decltype(copy_of(multiplicand(OperandB<ElementB>{})));
// Operands that are widened before they are multiplied free their registers by it: the next ones go there at once.
inline constexpr bool kWidened = sizeof(WideColumn) > sizeof(OperandB<ElementB>);

template <i32 tiles_n, class To>
QUERN_DEVICE void multiply(To& to, const Fragments<tiles_n>& f) {
  WideColumn b[tiles_n];
  QUERN_UNROLL for (i32 j = 0; j < tiles_n; ++j) b[j] = multiplicand(f.b[j]);
  QUERN_UNROLL for (i32 i = 0; i < kTilesM; ++i) {
    const auto a = multiplicand(f.a[i]);
    QUERN_UNROLL for (i32 j = 0; j < tiles_n; ++j) mma(to.x[i][j], a, b[j]);
  }
}

// Columns of a warp's tile whose products are summed apart before they are scaled: as many as registers have room for.
inline constexpr i32 kScaledN = kTilesM * kTilesN > 8 && kTilesN % 2 == 0 ? kTilesN / 2 : kTilesN;

struct Part {
  Accumulator x[kTilesM][kScaledN];
};

// One step of which the products have a scale of their own.
template <i32 first_n>
QUERN_DEVICE void scaled_step(Sums& sums, const u8* stage) {
  const auto* scales = reinterpret_cast<const f32*>(stage + StagedA::kBytes + StagedB::kBytes);
  Part part{};
  QUERN_UNROLL for (i32 k = 0; k < kProducts; ++k) {
    Fragments<kScaledN> f;
    f.load(stage, k * kTileK<ElementA>, first_n);
    multiply(part, f);
  }
  QUERN_UNROLL for (i32 i = 0; i < kTilesM; ++i) {
    f32 of_row[kRowsHeld];
    QUERN_UNROLL for (i32 h = 0; h < kRowsHeld; ++h) of_row[h] = scales[warp_row() + 16 * i + row_of(lane(), h)];
    QUERN_UNROLL for (i32 j = 0; j < kScaledN; ++j) {
      const f32 of_column = scales[kTileM + warp_column() / 16 + first_n + j];
      QUERN_UNROLL for (i32 e = 0; e < 256 / kWarp; ++e) {
        f32& sum = sums.x[i][first_n + j].x[e];
        sum = fma(part.x[i][j].x[e], of_row[held_row(e)] * of_column, sum);
      }
    }
  }
  if constexpr (first_n + kScaledN < kTilesN) scaled_step<first_n + kScaledN>(sums, stage);
}

// The epilogue takes the tile in slices of rows: one tensor-core tile's of every warp.
inline constexpr i32 kSlices = kTilesM, kSliceRows = 16 * kWarpsM;
QUERN_DEVICE i32 row_of_slice(i32 slice, i32 row) { return row / 16 * kWarpM + 16 * slice + row % 16; }
template <i32 slice>
QUERN_DEVICE void stage_slice(const Sums& sums, f32* staged, i32 pitch) {
  const i32 l = lane(), row = warp() / kWarpsN * 16;
  QUERN_UNROLL for (i32 j = 0; j < kTilesN; ++j) {
    QUERN_UNROLL for (i32 e = 0; e < 256 / kWarp; ++e) {
      staged[(row + row_of(l, held_row(e))) * pitch + warp_column() + 16 * j + column_of(l, e)] = sums.x[slice][j].x[e];
    }
  }
}

// What belongs to tensor-core step k of a step beside its products: starting copies, and the barrier that shows the next stage to
// all and frees the one before. It comes before the last products; or, copies being spread, at the beginning, for the stage after.
template <i32 k, class Pipe>
QUERN_DEVICE void feed(Pipe& pipeline) {
  if constexpr (kSpread) {
    if constexpr (k == 0) {
      pipeline.wait_for_two();
      sync_block();
    }
    if constexpr (k + 1 < kProducts) pipeline.template load_part<k, kProducts - 1>();
  } else {
    if constexpr (k == 0) pipeline.load();
    if constexpr (k + 1 == kProducts) {
      pipeline.wait();
      sync_block();
    }
  }
}

// Tensor-core step k of a step and those after it.
template <i32 k, class Pipe>
QUERN_DEVICE void multiply_step(Sums& sums, Fragments<kTilesN>* f, Pipe& pipeline, const u8* stage, const u8* next) {
  feed<k>(pipeline);
  f[(k + 1) & 1].load(k + 1 < kProducts ? stage : next, (k + 1) % kProducts * kTileK<ElementA>);
  multiply(sums, f[k & 1]);
  if constexpr (k + 1 < kProducts) multiply_step<k + 1>(sums, f, pipeline, stage, next);
}

// The same for operands that are widened.
template <i32 k, class Pipe>
QUERN_DEVICE void widened_step(Sums& sums, Fragments<kTilesN>& f, Pipe& pipeline, const u8* stage, const u8* next) {
  WideColumn b[kTilesN];
  QUERN_UNROLL for (i32 j = 0; j < kTilesN; ++j) b[j] = multiplicand(f.b[j]);
  feed<k>(pipeline);
  const u8* from = k + 1 < kProducts ? stage : next;
  constexpr i32 kNext = (k + 1) % kProducts * kTileK<ElementA>;
  f.load_columns(from, kNext, 0);
  QUERN_UNROLL for (i32 i = 0; i < kTilesM; ++i) {
    const auto a = multiplicand(f.a[i]);
    f.load_rows(from, kNext, i);
    QUERN_UNROLL for (i32 j = 0; j < kTilesN; ++j) mma(sums.x[i][j], a, b[j]);
  }
  if constexpr (k + 1 < kProducts) widened_step<k + 1>(sums, f, pipeline, stage, next);
}

// The next `steps` steps of the pipeline, which has been filled. Where there is one stage only it is filled here.
template <class Pipe>
QUERN_DEVICE Sums product(Pipe& pipeline, i32 steps) {
  static_assert(kStages == 1 || kStages >= (kBlockScale ? 2 : 3));
  static_assert(kStages == 1 || kWidened || kProducts % 2 == 0, "the two sets of fragments change places");
  Sums sums{};
  if constexpr (kStages == 1) {
    QUERN_ROLLED for (i32 step = 0; step < steps; ++step) {
      pipeline.load();
      pipeline.wait();
      sync_block();
      if constexpr (kBlockScale) {
        scaled_step<0>(sums, pipeline.stage());
      } else {
        QUERN_UNROLL for (i32 k = 0; k < kProducts; ++k) {
          Fragments<kTilesN> f;
          f.load(pipeline.stage(), k * kTileK<ElementA>);
          multiply(sums, f);
        }
      }
      sync_block();
    }
  } else if constexpr (kBlockScale) {
    QUERN_ROLLED for (i32 step = 0; step < steps; ++step) {
      pipeline.wait();
      sync_block();
      pipeline.load();
      scaled_step<0>(sums, pipeline.stage());
      pipeline.take();
    }
  } else if constexpr (kWidened) {
    pipeline.wait();
    sync_block();
    Fragments<kTilesN> f;
    f.load(pipeline.stage(), 0);
    QUERN_ROLLED for (i32 step = 0; step < steps; ++step) {
      widened_step<0>(sums, f, pipeline, pipeline.stage(), pipeline.next_stage());
      pipeline.take();
    }
  } else {
    pipeline.wait();
    sync_block();
    Fragments<kTilesN> f[2];
    f[0].load(pipeline.stage(), 0);
    QUERN_ROLLED for (i32 step = 0; step < steps; ++step) {
      multiply_step<0>(sums, f, pipeline, pipeline.stage(), pipeline.next_stage());
      pipeline.take();
    }
  }
  return sums;
}

}  // namespace q
