// What warpgroups multiply, as it comes into the stages: tiles of a and b by tensor map, block scales by warps of their own.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/sm90/warpgroup.cuh"
#include "gemm/kernels/shared/grouped_tiles.cuh"
#include "gemm/kernels/shared/tma_tiles.cuh"
#include "gemm/kernels/shared/pipeline.cuh"

namespace q {

inline constexpr i32 kGroupThreads = 128;
inline constexpr i32 kConsumers = kTileM / 64;  // warpgroups, 64 rows each
static_assert(kThreads == (kConsumers + 1) * kGroupThreads && kStepK * sizeof(ElementA) == 128 && kTileN % 16 == 0);
inline constexpr i32 kABytes = kTileM * 128, kBBytes = kTileN * 128;

// The first operands are asked for as soon as can be: of the warps that copy one makes the barriers of the stages, while another finds the
// first tile and those that bring scales ask for these. Barriers by number: those of the stages are there for who copies, for the others
// (3 to 6 are those of each consumer's scales of columns and turns).
inline constexpr i32 kCopyWarp = 4 * kConsumers, kBeginWarp = kCopyWarp + 3;
inline constexpr i32 kMade = 1, kBegun = 2, kMadeThreads = 2 * kWarp, kBegunThreads = kThreads - kWarp;
inline constexpr i32 kScaleBarrier = 3, kTurnBarrier = kScaleBarrier + kConsumers;

// Of the cluster.
struct Peers {
  i32 count, rank;
};

// In how many boxes tiles are copied, of so many lines each. b's come in two halves: a gate's, or those that each peer copies.
inline constexpr i32 kBoxesA = kTransposedA ? MappedA::kSpans : 1, kBoxLinesA = kTileM / kBoxesA;
inline constexpr i32 kBoxesB = kTransposedB ? MappedB::kSpans : 2, kBoxLinesB = kTileN / kBoxesB;

// Tiles from `work` on, if there is one: `more`.
template <class Tiles>
QUERN_DEVICE void copy_tiles(const GemmParams& p, const TensorMap& map_a, const TensorMap& map_b, Tiles& tiles, Work& work, bool more, Peers peers, u8* shared,
                             Stages& stages) {
  StageState state;
  QUERN_ROLLED for (; more; more = tiles.next(work)) {
    const i32 row = static_cast<i32>(kGrouping == kContiguous ? work.first_row : 0) + work.row;
    const i32 of_a = group_of_a(p, work), of_b = group_of_b(p, work);
    QUERN_ROLLED for (i32 step = 0; step < work.last_step; ++step) {
      mbarrier_wait(stages.empty[state.stage], state.phase ^ 1);
      Mbarrier& full = stages.full[state.stage];
      mbarrier_arrive_expect(full, kABytes + kBBytes);
      u8* to = shared + state.stage * (kABytes + kBBytes);
      const i32 k = step * kStepK;
      QUERN_UNROLL for (i32 box = 0; box < kBoxesA; ++box) {
        MappedA::load(to + box * (kBoxLinesA * 128), map_a, full, CacheHint::normal, k, row + box * kBoxLinesA, of_a);
      }
      to += kABytes;
      QUERN_UNROLL for (i32 box = 0; box < kBoxesB; ++box, to += kBoxLinesB * 128) {
        const i32 half = box * 2 / kBoxesB, column = work.column + box * kBoxLinesB + (kGate && half == 1 ? p.n / 2 - kOutTileN : 0);
        if (peers.count == 1) {
          MappedB::load(to, map_b, full, CacheHint::normal, k, column, of_b);
        } else if (peers.rank == half) {
          MappedB::load_multicast(to, map_b, full, 3u, CacheHint::normal, k, column, of_b);
        }
      }
      state.next();
    }
  }
  // Consumers wait for the stage behind each step's, and may multiply what lies there: after the last step nothing is copied to it.
  if constexpr (kBlockScale || kOverlappedEpilogue) {
    mbarrier_wait(stages.empty[state.stage], state.phase ^ 1);
    mbarrier_arrive(stages.full[state.stage]);
  }
}

// Scales of a step: for each row of the tile its own times those of the one or two blocks of 128 columns that the tile is in, or of
// its two halves where there is a gate.
inline constexpr i32 kColumnScales = kGate || kTileN > 128 ? 2 : 1;
inline constexpr i32 kStageScales = kTileM * kColumnScales;

// Warps that bring the scales of each step into shared memory, each those of some rows. They read some steps ahead of the stage that
// is free, since reading takes longer than a step.
inline constexpr i32 kScaleWarps = kBlockScale ? 2 : 0;

// What a thread reads of a step.
struct StepOfScales {
  f32 row[2];
  f32 column[kColumnScales];
};

// `asked` is called once the first of them are on their way.
template <class Tiles, class Asked>
QUERN_DEVICE void copy_scales(const GemmParams& p, Tiles tiles, i32 number, f32* shared_scales, Stages& stages, Asked asked) {
  constexpr i32 kReadAhead = kGrouping == kDense ? 4 : 3, kRows = 2;
  static_assert(kRows * kWarp * kScaleWarps == kTileM || kScaleWarps == 0);
  const i32 l = lane(), line = number * (kRows * kWarp) + l;
  Work work;
  StageState state;
  const auto hand_over = [&] {
    sync_warp();
    if (l == 0) mbarrier_arrive(stages.full[state.stage]);
    state.next();
  };
  QUERN_ROLLED while (tiles.next(work)) {
    const f32* of_row[kRows];
    QUERN_UNROLL for (i32 r = 0; r < kRows; ++r) {
      const i32 source = source_row(p, work, line + r * kWarp);
      of_row[r] = p.scale_a + (kGrouping == kContiguous ? 0 : work.group) * p.scale_a_group + (source < 0 ? 0 : source) * p.scale_a_row;
    }
    const f32* of_column[kColumnScales];
    const i32 last = (p.n - 1) / 128;
    QUERN_UNROLL for (i32 c = 0; c < kColumnScales; ++c) {
      const i32 block = kGate ? (c * (p.n / 2) + work.column) / 128 : work.column / 128 + c;
      of_column[c] = p.scale_b + work.group * p.scale_b_group + (block < last ? block : last) * p.scale_b_row;
    }
    // First the scales of so many steps are read; the code that does so is the one that reads further ones behind those handed over.
    StepOfScales ahead[kReadAhead];
    QUERN_ROLLED for (i32 first = -kReadAhead; first < work.last_step; first += kReadAhead) {
      QUERN_UNROLL for (i32 i = 0; i < kReadAhead; ++i) {
        StepOfScales& step = ahead[i];
        if (first >= 0 && first + i < work.last_step) {
          mbarrier_wait(stages.empty[state.stage], state.phase ^ 1);
          f32* to = shared_scales + state.stage * kStageScales + line * kColumnScales;
          if constexpr (kColumnScales == 2) {
            *reinterpret_cast<f32x2*>(to) = {step.row[0] * step.column[0], step.row[0] * step.column[1]};
            *reinterpret_cast<f32x2*>(to + 2 * kWarp) = {step.row[1] * step.column[0], step.row[1] * step.column[1]};
          } else {
            to[0] = step.row[0] * step.column[0], to[kWarp] = step.row[1] * step.column[0];
          }
          hand_over();
        }
        if (first + i + kReadAhead < work.last_step) {
          step.row[0] = *of_row[0], of_row[0] += p.scale_a_k;
          step.row[1] = *of_row[1], of_row[1] += p.scale_a_k;
          step.column[0] = *of_column[0], of_column[0] += p.scale_b_k;
          if constexpr (kColumnScales == 2) step.column[1] = *of_column[1], of_column[1] += p.scale_b_k;
        }
      }
      if (first < 0) asked();
    }
  }
  asked();
  // As in copy_tiles.
  mbarrier_wait(stages.empty[state.stage], state.phase ^ 1);
  hand_over();
}
static_assert(!kBlockScale || (kGate ? kTileN == 128 || kTileN == 256 : kTileN == 128 || kTileN == 192 || kTileN == 256));

}  // namespace q
