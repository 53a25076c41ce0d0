// The producer warps of persistent.cuh: one copies tiles of a and b by TMA, others load block scales.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/sm90/warpgroup.cuh"
#include "gemm/kernels/shared/grouped_tiles.cuh"
#include "gemm/kernels/shared/pipeline.cuh"
#include "gemm/kernels/shared/source.cuh"
#include "gemm/kernels/shared/tma_tiles.cuh"

namespace q {

inline constexpr i32 kGroupThreads = 128;
inline constexpr i32 kConsumers = kTileM / 64;  // consumer warpgroups, of 64 rows each
static_assert(kThreads == (kConsumers + 1) * kGroupThreads && kBlockK * sizeof(ElementA) == 128 && kTileN % 16 == 0);
inline constexpr i32 kABytes = kTileM * 128, kBBytes = kTileN * 128;

// The first copies and the first loads of scales are issued as early as possible: one producer warp initialises the
// mbarriers while the copying warp computes the first tile and the scale warps load the first scales. Named barriers:
// kMade tells the copying warp that the mbarriers are initialised, kBegun tells all others. Numbers 3 to 6 are each
// consumer's barriers for column scales and for its turn.
inline constexpr i32 kCopyWarp = 4 * kConsumers, kBeginWarp = kCopyWarp + 3;
inline constexpr i32 kMade = 1, kBegun = 2, kMadeThreads = 2 * kWarp, kBegunThreads = kThreads - kWarp;
inline constexpr i32 kScaleBarrier = 3, kOrderBarrier = kScaleBarrier + kConsumers;

// The blocks that share copies of b, and this block's number among them.
struct Peers {
  i32 count, rank;
};

// How many boxes a tile is copied in, and the lines of each. b's come in two halves: those of a gate, or those that
// each block of a cluster copies. Rows of a come in lower boxes where there are few.
inline constexpr i32 kBoxesA = kTransposedA ? TmaTileA::kSpans : 1, kBoxLinesA = kTileM / kBoxesA;
inline constexpr bool kLowBoxesA = !kTransposedA && kGrouping == kDense;
inline constexpr i32 kBoxesB = kTransposedB ? TmaTileB::kSpans : 2, kBoxLinesB = kTileN / kBoxesB;

// Copies all tiles, `work` first if there is one (`more`). Called by one thread.
template <class Tiles>
QUERN_DEVICE void copy_tiles(const GemmParams& p, const TensorMap& map_a, const TensorMap& map_b, Tiles& tiles,
                             Work& work, bool more, Peers peers, u8* shared, Stages& stages) {
  StageState state;
  const i32 box_lines = kLowBoxesA ? box_rows(p.m, kTileM) : kBoxLinesA;
  QUERN_ROLLED for (; more; more = tiles.next(work)) {
    // Lines of a that are copied.
    const i32 lines = kLowBoxesA ? copied_rows(work.rows - work.row, box_lines, kTileM) : kTileM;
    const i32 row = static_cast<i32>(kGrouping == kContiguous ? work.first_row : 0) + work.row;
    const i32 of_a = group_of_a(p, work), of_b = group_of_b(p, work);
    QUERN_ROLLED for (i32 k_block = 0; k_block < work.end_k_block; ++k_block) {
      mbarrier_wait(stages.empty[state.stage], state.phase ^ 1);
      Mbarrier& full = stages.full[state.stage];
      mbarrier_arrive_expect(full, static_cast<u32>(lines * 128 + kBBytes));
      u8* to = shared + state.stage * (kABytes + kBBytes);
      const i32 k = k_block * kBlockK;
      if constexpr (kLowBoxesA) {
        QUERN_ROLLED for (i32 line = 0; line < lines; line += box_lines)
            TmaTileA::load(to + line * 128, map_a, full, CacheHint::normal, k, row + line, of_a);
      } else {
        QUERN_UNROLL for (i32 box = 0; box < kBoxesA; ++box) {
          TmaTileA::load(to + box * (kBoxLinesA * 128), map_a, full, CacheHint::normal, k, row + box * kBoxLinesA,
                         of_a);
        }
      }
      to += kABytes;
      QUERN_UNROLL for (i32 box = 0; box < kBoxesB; ++box, to += kBoxLinesB * 128) {
        const i32 half = box * 2 / kBoxesB,
                  column = work.column + box * kBoxLinesB + (kGate && half == 1 ? p.n / 2 - kOutTileN : 0);
        if (peers.count == 1) {
          TmaTileB::load(to, map_b, full, CacheHint::normal, k, column, of_b);
        } else if (peers.rank == half) {
          TmaTileB::load_multicast(to, map_b, full, 3u, CacheHint::normal, k, column, of_b);
        }
      }
      state.next();
    }
  }
  // Consumers wait for the stage after each k block and may multiply what lies there. After the last k block nothing is
  // copied into that stage, so its full barrier is completed here.
  if constexpr (kBlockScale || kOverlappedEpilogue) {
    mbarrier_wait(stages.empty[state.stage], state.phase ^ 1);
    mbarrier_arrive(stages.full[state.stage]);
  }
}

// Factors of a k block: for each row of the tile its scale times that of each block of 128 columns that the tile is in
// (one or two), or with a gate times that of each half.
inline constexpr i32 kColumnScales = kGate || kTileN > 128 ? 2 : 1;
inline constexpr i32 kStageScales = kTileM * kColumnScales;

// Warps that write the factors of each k block to shared memory, each for some of the rows. They load several k blocks
// ahead of the stage that is free, since a load takes longer than a k block.
inline constexpr i32 kScaleWarps = kBlockScale ? 2 : 0;

// The scales of a k block that a thread loads.
struct ScalesOfKBlock {
  f32 row[2];
  f32 column[kColumnScales];
};

// The loop of scale warp number `number`. issued() is called once the first loads have been issued.
template <class Tiles, class Issued>
QUERN_DEVICE void copy_scales(const GemmParams& p, Tiles tiles, i32 number, f32* shared_scales, Stages& stages,
                              Issued issued) {
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
      of_row[r] = p.scale_a + work.group * p.scale_a_group + (source < 0 ? 0 : source) * p.scale_a_row;
    }
    const f32* of_column[kColumnScales];
    const i32 last = (p.n - 1) / 128;
    QUERN_UNROLL for (i32 c = 0; c < kColumnScales; ++c) {
      const i32 block = kGate ? (c * (p.n / 2) + work.column) / 128 : work.column / 128 + c;
      of_column[c] = p.scale_b + work.group * p.scale_b_group + (block < last ? block : last) * p.scale_b_row;
    }
    // The round with first < 0 only loads; each later round hands over the factors that it has and loads the next ones,
    // by the same code.
    ScalesOfKBlock ahead[kReadAhead];
    const i32 k_blocks = work.end_k_block;
    QUERN_ROLLED for (i32 first = -kReadAhead; first < k_blocks; first += kReadAhead) {
      QUERN_UNROLL for (i32 i = 0; i < kReadAhead; ++i) {
        ScalesOfKBlock& k_block = ahead[i];
        if (first >= 0 && first + i < k_blocks) {
          mbarrier_wait(stages.empty[state.stage], state.phase ^ 1);
          f32* to = shared_scales + state.stage * kStageScales + line * kColumnScales;
          if constexpr (kColumnScales == 2) {
            *reinterpret_cast<f32x2*>(to) = {k_block.row[0] * k_block.column[0], k_block.row[0] * k_block.column[1]};
            *reinterpret_cast<f32x2*>(to + 2 * kWarp) = {k_block.row[1] * k_block.column[0],
                                                         k_block.row[1] * k_block.column[1]};
          } else {
            to[0] = k_block.row[0] * k_block.column[0], to[kWarp] = k_block.row[1] * k_block.column[0];
          }
          hand_over();
        }
        if (first + i + kReadAhead < k_blocks) {
          k_block.row[0] = *of_row[0], of_row[0] += p.scale_a_k;
          k_block.row[1] = *of_row[1], of_row[1] += p.scale_a_k;
          k_block.column[0] = *of_column[0], of_column[0] += p.scale_b_k;
          if constexpr (kColumnScales == 2) k_block.column[1] = *of_column[1], of_column[1] += p.scale_b_k;
        }
      }
      if (first < 0) issued();
    }
  }
  issued();
  // Completes the stage after the last k block, as copy_tiles does.
  mbarrier_wait(stages.empty[state.stage], state.phase ^ 1);
  hand_over();
}
static_assert(!kBlockScale || (kGate ? kTileN == 128 || kTileN == 256
                                     : kTileN == 64 || kTileN == 128 || kTileN == 192 || kTileN == 256));

}  // namespace q
