// How the warps of a block divide a tile, the accumulators of each warp, and how the epilogue reads them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/registers/numbered_sums.cuh"
#include "gemm/kernels/shared/teams.cuh"

namespace q {

inline constexpr i32 kWarpM = kTileM / kWarpsM, kWarpN = kTileN / kWarpsN;
inline constexpr i32 kTilesM = kWarpM / 16, kTilesN = kWarpN / 16;
static_assert(kTileM % (16 * kWarpsM) == 0 && kTileN % (16 * kWarpsN) == 0 &&
              kWarpsM * kWarpsN * kWarp == kTeamThreads);

// With block scales, products of so many columns of a warp are summed apart before they are scaled: as many as fit the
// registers.
inline constexpr i32 kScaledN = kTilesM * kTilesN > 8 && kTilesN % 2 == 0 ? kTilesN / 2 : kTilesN;

struct Sums {
  static constexpr i32 kTiles = kTilesM * kTilesN, kHeld = kTiles * 256 / kWarp;
  NumberedSums<0, kTiles> x;
  NumberedSums<kTiles, kBlockScale ? kTilesM * kScaledN : 1> part;  // products that are not scaled yet

  // To and from global memory in which element i of the thread lies at i * kThreads.
  QUERN_DEVICE void write(f32* to) const { x.write_apart<kThreads>(to); }
  // With few tiles the partial sums of several blocks are read at once, since each read takes about a microsecond.
  static constexpr i32 kAtOnce = kTiles < 4 ? 4 / kTiles : 1;
  QUERN_DEVICE void add(const f32* const (&from)[kAtOnce], i32 there) { x.template add_apart<kThreads>(from, there); }
  QUERN_DEVICE void clear() { x.clear(); }
};

QUERN_DEVICE i32 warp_row() { return warp_of_team() / kWarpsN * kWarpM; }
QUERN_DEVICE i32 warp_column() { return warp_of_team() % kWarpsN * kWarpN; }

// The epilogue takes the tile in slices of rows: a slice has 16 rows of every row of warps.
inline constexpr i32 kSlices = kTilesM, kSliceRows = 16 * kWarpsM;
QUERN_DEVICE i32 row_of_slice(i32 slice, i32 row) { return row / 16 * kWarpM + 16 * slice + row % 16; }
template <i32 slice, i32 pitch>
QUERN_DEVICE void stage_slice(const Sums& sums, f32* staged) {
  sums.x.store<slice * kTilesN, kTilesN, pitch>(staged + warp_of_team() / kWarpsN * 16 * pitch + warp_column());
}

}  // namespace q
