// The epilogue of fitted.cuh. A warpgroup has the sums of 64 columns of out, transposed: in an accumulator tile rows
// are rows of b. They are turned on their way through shared memory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gemm/kernels/shared/epilogue.cuh"
#include "gemm/kernels/sm90/fitted_k_loop.cuh"

namespace q {

// Results that need only their sums and scales are rounded in registers and staged 32 rows of out at a time, each with
// 128 bytes of a warpgroup's columns. Others go through f32, 16 rows and 16 columns of a warp at a time.
inline constexpr bool kPlainResults = sizeof(Out) == 2 && kPlainFormula && USES_OPERANDS == 0;
inline constexpr i32 kSliceRows = 32, kSliceBytes = kSliceRows * 128;
inline constexpr i32 kStagedBytes = 2 * kSliceBytes;  // of a warpgroup
inline constexpr i32 kPieceRows = 16, kPieces = div_up(kTileN, kPieceRows);
inline constexpr i32 kStoreBarrier = 3;

// Places for a tile's scales of rows of a: threads read up to those of the last 16 rows that a warpgroup begins.
inline constexpr i32 kSecondScales = kTileN + kPieceRows;

// A consumer's shared memory beside the stages, and which of the two slices is next.
struct FittedStaging {
  u8* results;
  f32* second_scales;  // of the tile's rows of a
  i32 next = 0;
};

// The scales of a tile: a thread's two rows of b, and its share of the rows of a. They are loaded before the products
// and shared when the sums are complete.
struct FittedScales {
  static constexpr i32 kOfThread = div_up(kTileN, kGroupThreads);
  f32 first[2];
  f32 second[kOfThread];

  QUERN_DEVICE void load(const GemmParams& p, const FittedWork& work, i32 column) {
    const i32 t = thread_index() % kGroupThreads;
    QUERN_UNROLL for (i32 h = 0; h < 2; ++h) {
      const i32 row = work.first + column + wgmma_row(t, 2 * h);
      first[h] = p.scale_b[work.group * p.scale_b_group + (row < p.n ? row : p.n - 1) * p.scale_b_row];
    }
    QUERN_UNROLL for (i32 i = 0; i < kOfThread; ++i) {
      const i32 row = work.second + i * kGroupThreads + t;
      second[i] = p.scale_a[work.group * p.scale_a_group + (row < p.m ? row : p.m - 1) * p.scale_a_row];
    }
  }
  QUERN_DEVICE void share(f32* to, i32 id) const {
    sync_named(id, kGroupThreads);  // those of the tile before have been read
    QUERN_UNROLL for (i32 i = 0; i < kOfThread; ++i) {
      const i32 at = i * kGroupThreads + thread_index() % kGroupThreads;
      if (at < kTileN) to[at] = second[i];
    }
    sync_named(id, kGroupThreads);
  }
};

// Stages 16 rows of a warp's results. `second_scales` begins at the scale of the thread's first row of them.
template <i32 piece>
QUERN_DEVICE void stage_turned(const Sums& sums, const f32 (&first)[2], const f32* second_scales, u8* slice) {
  f32 x[8];
  sums.template read<piece * 8>(x);
  if constexpr (kScaled) {
    const auto low = *reinterpret_cast<const f32x2*>(second_scales + piece * kPieceRows),
               high = *reinterpret_cast<const f32x2*>(second_scales + piece * kPieceRows + 8);
    x[0] *= first[0] * low.x, x[1] *= first[0] * low.y, x[2] *= first[1] * low.x, x[3] *= first[1] * low.y;
    x[4] *= first[0] * high.x, x[5] *= first[0] * high.y, x[6] *= first[1] * high.x, x[7] *= first[1] * high.y;
  }
  const u32 packed[4] = {pack<Out>(x[0], x[1]), pack<Out>(x[2], x[3]), pack<Out>(x[4], x[5]), pack<Out>(x[6], x[7])};
  const i32 l = lane(), row = piece % 2 * kPieceRows + l / 16 * 8 + l % 8, chunk = warp() % 4 * 2 + l / 8 % 2;
  store_matrix<true>(slice + row * 128 + ((chunk ^ l % 8) << 4), packed);
}

// Stores a slice of a warpgroup's results from its staging memory.
QUERN_DEVICE void store_slice(const GemmParams& p, const FittedWork& work, const FittedConsumer& c, i32 first_row,
                              const u8* slice) {
  constexpr i32 kAtOnce = kGroupThreads / 8;  // rows that a warpgroup stores at once
  const i32 t = thread_index() % kGroupThreads, column = work.first + c.column + t % 8 * kEight;
  if (column < work.own_first || column >= p.n) return;
  const bool whole = p.out_vectors != 0 && column + kEight <= p.n;
  const i32 line = first_row + t / 8, row = work.second + line;
  const u8* from = slice + t / 8 * 128 + ((t % 8 ^ t / 8 % 8) << 4);
  Out* to = static_cast<Out*>(p.out) + work.group * p.out_group + row * p.out_row + column;
  vec16 x[kSliceRows / kAtOnce];
  QUERN_UNROLL for (i32 i = 0; i < kSliceRows / kAtOnce; ++i) x[i] = load16(from + i * kAtOnce * 128);
  QUERN_UNROLL for (i32 i = 0; i < kSliceRows / kAtOnce; ++i, to += kAtOnce * p.out_row) {
    const i32 later = i * kAtOnce;
    if (line + later >= c.fit.rows || row + later < work.own_second || row + later >= p.m) continue;
    if (whole) {
      store16_global(to, x[i]);
    } else {
      const Out* one = reinterpret_cast<const Out*>(from + later * 128);
      QUERN_ROLLED for (i32 e = 0; e < kEight && column + e < p.n; ++e) to[e] = one[e];
    }
  }
}

// Stages and stores the results of a tile, slice by slice.
template <i32 slice = 0>
QUERN_DEVICE void store_slices(const GemmParams& p, const FittedWork& work, const FittedConsumer& c,
                               const f32 (&first)[2], const f32* second_scales, FittedStaging& staging) {
  if (slice * kSliceRows >= c.fit.rows) return;
  u8* to = staging.results + staging.next * kSliceBytes;
  staging.next ^= 1;
  stage_turned<slice * 2>(c.sums, first, second_scales, to);
  if constexpr (slice * 2 + 1 < kPieces) stage_turned<slice * 2 + 1>(c.sums, first, second_scales, to);
  // A slice is written again two slices later, behind the barrier of the one in between, and so after it was read.
  sync_named(kStoreBarrier + c.number, kGroupThreads);
  store_slice(p, work, c, slice * kSliceRows, to);
  if constexpr ((slice + 1) * kSliceRows < kTileN) store_slices<slice + 1>(p, work, c, first, second_scales, staging);
}

// The scales of the eight columns of out that a lane finishes.
struct ColumnScales {
  f32 x[kEight];

  QUERN_DEVICE ColumnScales(const GemmParams& p, const FittedWork& work, i32 column) {
    QUERN_UNROLL for (i32 i = 0; i < kEight; ++i) {
      // Columns beyond the last are not stored, so they may take any scale.
      const i32 c = work.first + column + i < p.n ? work.first + column + i : p.n - 1;
      x[i] = kScaled ? p.scale_b[work.group * p.scale_b_group + c * p.scale_b_row] : 1.0f;
    }
  }
};

// Finishes eight columns of row `line` of the tile: of out, counted from the tile's first.
QUERN_DEVICE void finish_turned(const GemmParams& p, const FittedWork& work, bool there, i32 line, i32 column,
                                const ColumnScales& scales, const f32* from) {
  Work out{};
  out.group = work.group, out.row = work.second, out.column = work.first, out.rows = p.m;
  Eight v = read_eight(from);
  const i32 row = work.second + line;
  if constexpr (kScaled) {
    const f32 of_row = scale_of_row(p, out, row < p.m ? row : p.m - 1);
    QUERN_UNROLL for (i32 i = 0; i < kEight; ++i) v.x[i] *= of_row * scales.x[i];
  }
  const bool own = there && row >= work.own_second && work.first + column >= work.own_first;
  finish_eight(p, out, own, line, column, v, Eight{});
}

// The sums of piece `piece`. Registers cannot be indexed at run time, so this code exists once for each piece.
template <i32 first = 0, i32 count = kPieces>
QUERN_DEVICE void read_piece(i32 piece, const Sums& sums, f32 (&x)[8]) {
  if constexpr (count > 1) {
    if (piece < first + count / 2) {
      read_piece<first, count / 2>(piece, sums, x);
    } else {
      read_piece<first + count / 2, count - count / 2>(piece, sums, x);
    }
  } else {
    sums.template read<first * 8>(x);
  }
}

// Element i of a thread's eight sums of a piece lies there in [row of a][16 rows of b].
QUERN_DEVICE i32 turned_place(i32 i) {
  const i32 l = lane();
  return (i / 4 * 8 + (l & 3) * 2 + (i & 1)) * 16 + l / 4 + (i >> 1 & 1) * 8;
}

QUERN_DEVICE void store_pieces(const GemmParams& p, const FittedWork& work, const FittedConsumer& c, u8* staged) {
  const i32 l = lane(), w = warp() % 4, column = c.column + w * 16 + l % 2 * kEight;
  auto* own = reinterpret_cast<f32*>(staged + w * (kStagedBytes / 4));
  const ColumnScales scales(p, work, column);
  QUERN_ROLLED for (i32 piece = 0; piece * kPieceRows < c.fit.rows; ++piece) {
    f32 x[8];
    read_piece(piece, c.sums, x);
    QUERN_UNROLL for (i32 i = 0; i < 8; ++i) own[turned_place(i)] = x[i];
    sync_warp();
    const i32 line = piece * kPieceRows + l / 2;
    finish_turned(p, work, line < c.fit.rows, line, column, scales, own + l / 2 * 16 + l % 2 * kEight);
    sync_warp();
  }
}

}  // namespace q
