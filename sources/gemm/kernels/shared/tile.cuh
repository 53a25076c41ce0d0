// The compile-time constants of a matrix product kernel, and the sizes that follow from them.
//
// A block of threads computes a tile of TILE_M x TILE_N sums over k blocks of BLOCK_K elements, which it copies into
// STAGES buffers in shared memory; each warp has WARP_M x WARP_N of the tile.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/kernel.cuh"
#include "gemm/params.cuh"

namespace q {

using ElementA = ELEMENT_A;
using ElementB = ELEMENT_B;
using Out = OUT;

inline constexpr i32 kTileM = TILE_M;
inline constexpr i32 kTileN = TILE_N;
inline constexpr i32 kBlockK = BLOCK_K;
inline constexpr i32 kStages = STAGES;
inline constexpr i32 kWarpsM = WARPS_M;
inline constexpr i32 kWarpsN = WARPS_N;
inline constexpr i32 kThreads = THREADS;
inline constexpr i32 kCopyBytes = COPY_BYTES;

inline constexpr bool kGate = GATE != 0;  // the tile's columns are half gate, half up
inline constexpr bool kBlockScale = BLOCK_SCALE != 0;
inline constexpr bool kScaled =
    SCALED !=
    0;  // rows and columns have scales, applied to whole sums; with the overlapped epilogue a row's at each promotion
inline constexpr bool kOutScale = OUT_SCALE != 0;
inline constexpr bool kPlainFormula = PLAIN_FORMULA != 0;  // results are the scaled sums
inline constexpr bool kTransposedA = TRANSPOSED_A != 0;    // a is stored [k][m]
inline constexpr bool kTransposedB = TRANSPOSED_B != 0;

// How rows belong to groups.
inline constexpr i32 kDense = 0, kContiguous = 1, kMasked = 2;
inline constexpr i32 kGrouping = GROUPING;

inline constexpr bool kStreamK = STREAM_K != 0;  // several blocks of threads may contribute to a tile

// The pipeline runs on from tile to tile: a block's next tile is being copied while the present one is finished, so
// results are staged outside of the stages.
inline constexpr bool kContinuous = CONTINUOUS != 0;

// The overlapped epilogue: the results of a whole tile are staged in shared memory and stored while the next tile is
// multiplied.
inline constexpr bool kOverlappedEpilogue = OVERLAPPED_EPILOGUE != 0;

// Few rows are bound by memory: copies are spread over the products of a k block. Otherwise they are issued at once and
// products hide them.
inline constexpr bool kSpread = kTileM <= 16;

inline constexpr i32 kOutTileN = kGate ? kTileN / 2 : kTileN;

// A tile of `lines` rows of a or b in shared memory. Each row is padded by 16 bytes, so that eight consecutive rows
// begin in different banks.
template <class T, bool transposed, i32 lines>
struct StagedTile {
  static constexpr i32 kRowBytes = (transposed ? lines : kBlockK) * static_cast<i32>(sizeof(T));
  static constexpr i32 kRows = transposed ? kBlockK : lines;
  static constexpr i32 kPitchBytes = kRowBytes + 16;
  static constexpr i32 kPitch = kPitchBytes / static_cast<i32>(sizeof(T));
  static constexpr i32 kBytes = kRows * kPitchBytes;
};
using StagedA = StagedTile<ElementA, kTransposedA, kTileM>;
using StagedB = StagedTile<ElementB, kTransposedB, kTileN>;
// Block scales of a stage: one for each row of a and one for each 16 columns of b.
inline constexpr i32 kScaleBytes = kBlockScale ? round_up((kTileM + kTileN / 16) * 4, 16) : 0;
inline constexpr i32 kStageBytes = StagedA::kBytes + StagedB::kBytes + kScaleBytes;

// What a block of threads works on: a tile and its k blocks first_k_block .. end_k_block - 1.
struct Work {
  i32 group;
  i32 row, column;  // of the tile's first result in its group; with a gate `column` counts columns of out
  i32 rows;         // rows of the group
  i64 first_row;    // the row of out that is row 0 of the group
  i32 first_k_block, end_k_block;
  i32 tile;  // the tile's number
};

}  // namespace q
