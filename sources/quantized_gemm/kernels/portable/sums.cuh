// The sums of a tile: how the warps of a block divide it, what each lane holds, and how the epilogue and stream-K read
// it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gemm/kernels/shared/tile.cuh"
#include "quantized_gemm/kernels/portable/staged.cuh"

namespace q {

inline constexpr i32 kWarpM = kTileM / kWarpsM, kWarpN = kTileN / kWarpsN;
inline constexpr i32 kTilesM = kWarpM / 16, kTilesN = kWarpN / 16;
static_assert(kTilesM * 16 * kWarpsM == kTileM && kTilesN * 16 * kWarpsN == kTileN &&
              kWarpsM * kWarpsN * kWarp == kThreads);
QUERN_DEVICE i32 warp_row() { return warp() / kWarpsN * kWarpM; }
QUERN_DEVICE i32 warp_column() { return warp() % kWarpsN * kWarpN; }

struct Sums {
  static constexpr i32 kTiles = kTilesM * kTilesN, kEach = 256 / kWarp, kHeld = kTiles * kEach;
  // Sums of products are integers to the end, scaled and added to others, or the sums themselves.
  static constexpr bool kWholeIntegers = kIntegers && !kScaledSums;

  using Products = Either<kIntegers, IntegerAccumulator, Accumulator>::type;
  Products products[kTilesM][kTilesN];
  Accumulator scaled[kScaledSums ? kTilesM : 1][kScaledSums ? kTilesN : 1];
  Accumulator whole[kWholeIntegers ? kTilesM : 1][kWholeIntegers ? kTilesN : 1];

  // visit(i, j, e): of each sum.
  template <class Visit>
  static QUERN_DEVICE void each(Visit visit) {
    QUERN_UNROLL for (i32 i = 0; i < kTilesM; ++i) {
      QUERN_UNROLL for (i32 j = 0; j < kTilesN; ++j) { QUERN_UNROLL for (i32 e = 0; e < kEach; ++e) visit(i, j, e); }
    }
  }
  template <class Own>
  static QUERN_DEVICE auto& sum_of(Own& own, i32 i, i32 j, i32 e) {
    if constexpr (kScaledSums) {
      return own.scaled[i][j].x[e];
    } else if constexpr (kWholeIntegers) {
      return own.whole[i][j].x[e];
    } else {
      return own.products[i][j].x[e];
    }
  }
  QUERN_DEVICE f32& sum(i32 i, i32 j, i32 e) { return sum_of(*this, i, j, e); }
  QUERN_DEVICE f32 sum(i32 i, i32 j, i32 e) const { return sum_of(*this, i, j, e); }

  QUERN_DEVICE void clear() {
    each([&](i32 i, i32 j, i32 e) { products[i][j].x[e] = 0; });
    each([&](i32 i, i32 j, i32 e) { sum(i, j, e) = 0.0f; });
  }
  // What is added to `products` between these two is multiplied by the scales of its rows and columns, which lie from
  // `of_a` and `of_b` on for the tile's first.
  QUERN_DEVICE void begin_group() {
    each([&](i32 i, i32 j, i32 e) { products[i][j].x[e] = 0; });
  }
  QUERN_DEVICE void end_group(const f32* of_a, const f32* of_b) {
    f32 columns[kTilesN][kEach];
    QUERN_UNROLL for (i32 j = 0; j < kTilesN; ++j) {
      QUERN_UNROLL for (i32 e = 0; e < kEach; e += 2) {
        columns[j][e] = columns[j][e + 1] = 1.0f;
        if constexpr (kGroupsOfScaleB) {
          // Two neighbouring columns.
          const u64 two = *reinterpret_cast<const u64*>(of_b + warp_column() + 16 * j + column_of(lane(), e));
          columns[j][e] = f32_of(static_cast<u32>(two)), columns[j][e + 1] = f32_of(static_cast<u32>(two >> 32));
        }
      }
    }
    QUERN_UNROLL for (i32 i = 0; i < kTilesM; ++i) {
      f32 rows[kRowsHeld];
      QUERN_UNROLL for (i32 h = 0; h < kRowsHeld; ++h) {
        rows[h] = 1.0f;
        if constexpr (kGroupsOfScaleA) rows[h] = of_a[warp_row() + 16 * i + row_of(lane(), h)];
      }
      QUERN_UNROLL for (i32 j = 0; j < kTilesN; ++j) {
        QUERN_UNROLL for (i32 e = 0; e < kEach; ++e) {
          f32 scale = columns[j][e];
          if constexpr (kGroupsOfScaleA) scale *= rows[held_row(e)];
          f32& sum = scaled[i][j].x[e];
          sum = fma(static_cast<f32>(products[i][j].x[e]), scale, sum);
        }
      }
    }
  }
  // After the last product of all blocks.
  QUERN_DEVICE void finish() {
    if constexpr (kWholeIntegers)
      each([&](i32 i, i32 j, i32 e) { whole[i][j].x[e] = static_cast<f32>(products[i][j].x[e]); });
  }
  // Multiplies by `all` and what of_row(line) and of_column(line) say of the tile's lines.
  template <class OfRow, class OfColumn>
  QUERN_DEVICE void scale(f32 all, OfRow of_row, OfColumn of_column) {
    f32 columns[kTilesN][kEach];
    QUERN_UNROLL for (i32 j = 0; j < kTilesN; ++j) {
      QUERN_UNROLL for (i32 e = 0; e < kEach; ++e) {
        // Elements of another row of the same column have its scale as well.
        columns[j][e] = held_row(e) == 0 ? of_column(warp_column() + 16 * j + column_of(lane(), e)) : columns[j][e - 2];
      }
    }
    QUERN_UNROLL for (i32 i = 0; i < kTilesM; ++i) {
      f32 rows[kRowsHeld];
      QUERN_UNROLL for (i32 h = 0; h < kRowsHeld; ++h) rows[h] = all * of_row(warp_row() + 16 * i + row_of(lane(), h));
      QUERN_UNROLL for (i32 j = 0; j < kTilesN; ++j) {
        QUERN_UNROLL for (i32 e = 0; e < kEach; ++e) sum(i, j, e) *= rows[held_row(e)] * columns[j][e];
      }
    }
  }

  // To and from the workspace, for stream-K: element number n of the thread lies at n * kThreads. Sums of integers stay
  // integers. With few tiles the sums of several blocks are read at once, since each read takes about a microsecond.
  static constexpr i32 kAtOnce = kTiles < 8 ? 8 / kTiles : 1;
  QUERN_DEVICE void write(f32* to) const {
    each([&](i32 i, i32 j, i32 e) {
      f32& place = to[((i * kTilesN + j) * kEach + e) * kThreads];
      if constexpr (kWholeIntegers) {
        place = f32_of(static_cast<u32>(products[i][j].x[e]));
      } else {
        place = sum(i, j, e);
      }
    });
  }
  QUERN_DEVICE void add(const f32* const (&from)[kAtOnce], i32 there) {
    f32 read[kAtOnce][kHeld];
    QUERN_UNROLL for (i32 n = 0; n < kAtOnce; ++n) {
      QUERN_UNROLL for (i32 e = 0; e < kHeld; ++e) read[n][e] = from[n][e * kThreads];
    }
    QUERN_UNROLL for (i32 n = 0; n < kAtOnce; ++n) {
      if (n >= there) continue;
      each([&](i32 i, i32 j, i32 e) {
        const f32 other = read[n][(i * kTilesN + j) * kEach + e];
        if constexpr (kWholeIntegers) {
          products[i][j].x[e] += static_cast<i32>(bits_of(other));
        } else {
          sum(i, j, e) += other;
        }
      });
    }
  }
};

// The epilogue takes the tile in slices of rows: a slice has 16 rows of every row of warps.
inline constexpr i32 kSlices = kTilesM, kSliceRows = 16 * kWarpsM;
QUERN_DEVICE i32 row_of_slice(i32 slice, i32 row) { return row / 16 * kWarpM + 16 * slice + row % 16; }
template <i32 slice, i32 pitch>
QUERN_DEVICE void stage_slice(const Sums& sums, f32* staged) {
  f32* const to = staged + warp() / kWarpsN * 16 * pitch + warp_column();
  QUERN_UNROLL for (i32 j = 0; j < kTilesN; ++j) {
    QUERN_UNROLL for (i32 e = 0; e < Sums::kEach; ++e)
        to[row_of(lane(), held_row(e)) * pitch + 16 * j + column_of(lane(), e)] = sums.sum(slice, j, e);
  }
}

}  // namespace q
