// The producer warps of product.cuh: one copies activations and packed weights by TMA, others load the scales and zero
// points of groups.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gemm/kernels/shared/dense_tiles.cuh"
#include "gemm/kernels/shared/pipeline.cuh"
#include "gemm/kernels/shared/source.cuh"
#include "quantized_gemm/kernels/sm90/fragments.cuh"
#include "quantized_gemm/params.cuh"

namespace q {

inline constexpr i32 kGroupThreads = 128;
inline constexpr i32 kConsumers = 2;  // warpgroups, of 64 lines of b each
static_assert(kTileM == 128 && kTileN == 64 * kConsumers && kBlockK == 128 &&
              kThreads == (kConsumers + 1) * kGroupThreads && sizeof(Multiplied) == 2);

// A stage: two boxes of 64 k of the tile's rows of a, then its lines of b, packed, in two boxes of lines.
inline constexpr i32 kSpan = 128;  // bytes of k of a row in a box
inline constexpr i32 kBoxABytes = kTileM * kSpan, kABytes = 2 * kBoxABytes;
inline constexpr i32 kLineBytes = kBlockK * kBitsOf<CodeB> / 8, kBoxLines = kTileN / 2;
inline constexpr i32 kStageSize = kABytes + kTileN * kLineBytes;
inline constexpr u64 kLayoutA = k_major_layout(Swizzle::bytes128);
// Within eight lines of b, which begin in different banks, pieces of 16 bytes change places.
inline constexpr Swizzle kSwizzleB = kLineBytes == 64 ? Swizzle::bytes64 : Swizzle::bytes128;

// Behind all stages there are words of each group of a k block and each line, of every stage: scales, then zero points.
inline constexpr i32 kGroupsOfBlock = kGroup == 0 || kGroup >= kBlockK ? 1 : kBlockK / kGroup;
inline constexpr i32 kScaleWords = kGroupsOfScaleB ? kGroupsOfBlock * kTileN : 0;
inline constexpr i32 kZeroWords = kZeros ? kGroupsOfBlock * kTileN : 0;
inline constexpr i32 kWordsOfStage = kScaleWords + kZeroWords;

// Warps of the producer warpgroup: what copies, what initialises the mbarriers, and two between them that load words.
inline constexpr i32 kWordWarps = kWordsOfStage > 0 ? 2 : 0, kBeginWarp = 4 * kConsumers + 3;

// Copies all tiles. Called by one thread.
QUERN_DEVICE void copy_tiles(const GemmParams& p, const TensorMap& map_a, const TensorMap& map_b, DenseTiles tiles,
                             u8* shared, Stages& stages) {
  Work work;
  StageState state;
  const i32 box_lines = box_rows(p.m, kTileM);
  QUERN_ROLLED while (tiles.next(work)) {
    const i32 lines = copied_rows(work.rows - work.row, box_lines, kTileM);
    const i32 second = work.column + (kGate ? p.n / 2 : kBoxLines);
    QUERN_ROLLED for (i32 k_block = 0; k_block < work.end_k_block; ++k_block) {
      mbarrier_wait(stages.empty[state.stage], state.phase ^ 1);
      Mbarrier& full = stages.full[state.stage];
      mbarrier_arrive_expect(full, static_cast<u32>(2 * lines * kSpan + kTileN * kLineBytes));
      u8* const to = shared + state.stage * kStageSize;
      const i32 k = k_block * kBlockK;
      QUERN_ROLLED for (i32 line = 0; line < lines; line += box_lines) {
        QUERN_UNROLL for (i32 half = 0; half < 2; ++half) {
          tma_load(to + half * kBoxABytes + line * kSpan, map_a, full, CacheHint::normal, k + half * (kBlockK / 2),
                   work.row + line);
        }
      }
      u8* const of_b = to + kABytes;
      tma_load(of_b, map_b, full, CacheHint::normal, k_block * kLineBytes, work.column);
      tma_load(of_b + kBoxLines * kLineBytes, map_b, full, CacheHint::normal, k_block * kLineBytes, second);
      state.next();
    }
  }
}

// What a lane loads of a k block: of two lines all groups.
struct LoadedWords {
  ScaleB scale[2][kGroupsOfBlock];
  u8 zero[2][kGroupsOfBlock];
};

// The loop of warp number `number` of those that load words. Scales are loaded some k blocks before they are stored,
// since a load may take longer than the products of a k block.
QUERN_DEVICE void copy_words(const QuantizedParams& p, DenseTiles tiles, i32 number, u32* words, Stages& stages) {
  constexpr i32 kAhead = kGroupsOfBlock > 4 ? 1 : kGroupsOfBlock > 1 ? 2 : 4;
  constexpr i32 kSize = kGroup > 0 ? kGroup : 1;
  const i32 line = number * 64 + lane(), groups = kGroup == 0 ? 1 : p.product.k / kSize;
  Work work;
  StageState state;
  QUERN_ROLLED while (tiles.next(work)) {
    const ScaleB* scales[2];
    const u8* zeros[2];
    QUERN_UNROLL for (i32 e = 0; e < 2; ++e) {
      // Lines that there are not may have any scale.
      const i32 source = source_column(p.product, work, line + e * kWarp), from = source < 0 ? 0 : source;
      scales[e] = static_cast<const ScaleB*>(p.scale_b.data) + from * p.scale_b.line;
      zeros[e] = static_cast<const u8*>(p.zero_b.data) + from * p.zero_b.line;
    }
    const auto load = [&](LoadedWords& to, i32 k_block) {
      QUERN_UNROLL for (i32 e = 0; e < 2; ++e) {
        QUERN_UNROLL for (i32 g = 0; g < kGroupsOfBlock; ++g) {
          const i32 group = kGroup == 0 ? 0 : k_block * kGroupsOfBlock + g;
          // Beyond the last k sums are 0, which only a finite scale leaves as they are.
          if constexpr (kGroupsOfScaleB) {
            to.scale[e][g] = ScaleB{};
            if (group < groups) to.scale[e][g] = scales[e][group * p.scale_b.group];
          }
          if constexpr (kZeros) {
            to.zero[e][g] = 0;
            if (group < groups) to.zero[e][g] = zeros[e][group * p.zero_b.group];
          }
        }
      }
    };
    LoadedWords ahead[kAhead];
    const i32 k_blocks = work.end_k_block;
    // The round with first < 0 only loads; each later one stores what it has and loads the next by the same code.
    QUERN_ROLLED for (i32 first = -kAhead; first < k_blocks; first += kAhead) {
      QUERN_UNROLL for (i32 i = 0; i < kAhead; ++i) {
        if (first >= 0 && first + i < k_blocks) {
          mbarrier_wait(stages.empty[state.stage], state.phase ^ 1);
          u32* const to = words + state.stage * kWordsOfStage + line;
          QUERN_UNROLL for (i32 e = 0; e < 2; ++e) {
            QUERN_UNROLL for (i32 g = 0; g < kGroupsOfBlock; ++g) {
              const i32 at = g * kTileN + e * kWarp;
              if constexpr (kGroupsOfScaleB) to[at] = scale_word(to_f32(ahead[i].scale[e][g]));
              if constexpr (kZeros) to[kScaleWords + at] = WeightsOfB::zero_word(ahead[i].zero[e][g]);
            }
          }
          sync_warp();
          if (lane() == 0) mbarrier_arrive(stages.full[state.stage]);
          state.next();
        }
        if (first + i + kAhead < k_blocks) load(ahead[i], first + i + kAhead);
      }
    }
  }
}

}  // namespace q
