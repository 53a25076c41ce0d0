// What a kernel for matrix products is made for: its constants, and the sizes that follow.
//
// A block of threads computes TILE_M x TILE_N results in steps of STEP_K, each warp a WARP_M x WARP_N part of them, from STAGES
// buffers in shared memory.
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
inline constexpr i32 kStepK = STEP_K;
inline constexpr i32 kStages = STAGES;
inline constexpr i32 kWarpsM = WARPS_M;
inline constexpr i32 kWarpsN = WARPS_N;
inline constexpr i32 kThreads = THREADS;
inline constexpr i32 kCopyBytes = COPY_BYTES;

inline constexpr bool kGate = GATE != 0;      // gate and up columns in the two halves of the tile's
inline constexpr bool kBlockScale = BLOCK_SCALE != 0;
inline constexpr bool kScaled = SCALED != 0;  // scales for rows and columns, applied to whole sums or, where results leave late, the rows' to parts
inline constexpr bool kOutScale = OUT_SCALE != 0;
inline constexpr bool kPlainFormula = PLAIN_FORMULA != 0;  // results are the sums, scaled
inline constexpr bool kTransposedA = TRANSPOSED_A != 0;  // a is stored [k][m]
inline constexpr bool kTransposedB = TRANSPOSED_B != 0;

// How rows belong to groups.
inline constexpr i32 kDense = 0, kContiguous = 1, kMasked = 2;
inline constexpr i32 kGrouping = GROUPING;

inline constexpr bool kShared = SHARED_TILES != 0;  // tiles may be shared by the steps of k

// Copies of a block's next tile are under way while the present one is finished: results are staged in memory of their own.
inline constexpr bool kContinuous = CONTINUOUS != 0;

// All results of a tile have room in shared memory, from where they leave while the next one is multiplied.
inline constexpr bool kOverlappedEpilogue = OVERLAPPED_EPILOGUE != 0;

// Few rows: memory sets the pace, and copies are spread over a step's products. Else they come at once, for products to hide.
inline constexpr bool kSpread = kTileM <= 16;

inline constexpr i32 kOutTileN = kGate ? kTileN / 2 : kTileN;

// A staged tile of `lines` rows of a or b. Lines are 16 bytes longer than they need be, so that eight of them start in
// different banks.
template <class T, bool transposed, i32 lines>
struct StagedTile {
  static constexpr i32 kRowBytes = (transposed ? lines : kStepK) * static_cast<i32>(sizeof(T));
  static constexpr i32 kRows = transposed ? kStepK : lines;
  static constexpr i32 kPitchBytes = kRowBytes + 16;
  static constexpr i32 kPitch = kPitchBytes / static_cast<i32>(sizeof(T));
  static constexpr i32 kBytes = kRows * kPitchBytes;
};
using StagedA = StagedTile<ElementA, kTransposedA, kTileM>;
using StagedB = StagedTile<ElementB, kTransposedB, kTileN>;
// With block scales: one for each row of a, and one for each 16 columns of b.
inline constexpr i32 kScaleBytes = kBlockScale ? round_up((kTileM + kTileN / 16) * 4, 16) : 0;
inline constexpr i32 kStageBytes = StagedA::kBytes + StagedB::kBytes + kScaleBytes;

// The part of the problem that a block of threads works on: a tile, and of it the steps first_step .. last_step-1.
struct Work {
  i32 group;
  i32 row, column;     // of the tile's first result within its group; with a gate, column counts out's columns
  i32 rows;            // of the group
  i64 first_row;       // of out, that row 0 of the group is
  i32 first_step, last_step;
  i32 tile;            // number of the tile
};

}  // namespace q
