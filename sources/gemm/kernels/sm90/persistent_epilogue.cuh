// The epilogue of persistent.cuh: each warp finishes its 16 rows, a slice of columns at a time, through staging memory
// of its own.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/registers/warpgroup_sums.cuh"
#include "gemm/kernels/shared/epilogue.cuh"

namespace q {

inline constexpr i32 kSumCount = kTileN / 2;  // accumulators of a thread
using Sums = WarpgroupSums<0, kSumCount>;     // the accumulators of a tile

// Columns that are staged at a time. A scale of results belongs to 128 columns of a row. With a gate both halves are
// staged; 32 columns then leave room for the fourth stage, without which a turn of two k blocks (promote_together in
// persistent_k_loop.cuh) starves. Beside the list of experts there is less room. Block scales take one k block at a
// time and run as fast with three stages.
inline constexpr i32 kSliceN = kOutScale ? 128 : !kGate ? 64 : kGrouping == kDense ? 32 : kScaled ? 16 : 64;
inline constexpr i32 kSlicePitch = kSliceN + 8;
inline constexpr i32 kSlicesN = div_up(kOutTileN, kSliceN);
inline constexpr i32 kStagedOfWarp = 8 * kSlicePitch * (kGate ? 2 : 1);  // f32
static_assert(!kOutScale || (kOutTileN % kSliceN == 0 && !kGate));

// Whether row and column scales are loaded at the beginning of a tile. With scales of results the staging memory leaves
// no room for them.
inline constexpr bool kTileScales = kScaled && !kOutScale;

// The scales of a tile's lines, as GemmParams has them. Another op that shares this kernel has a class of its own with
// these two functions; lines that there are not may have any scale.
class LineScales {
 public:
  QUERN_DEVICE explicit LineScales(const GemmParams& p) : p_(p) {}
  QUERN_DEVICE f32 of_row(const Work& work, i32 line) const {
    const i32 source = source_row(p_, work, line);
    return scale_of_row(p_, work, source < 0 ? 0 : source);
  }
  QUERN_DEVICE f32 of_column(const Work& work, i32 line) const {
    const i32 c = work.column + line + (kGate && line >= kOutTileN ? p_.n / 2 - kOutTileN : 0);
    return p_.scale_b[work.group * p_.scale_b_group + (c < p_.n ? c : p_.n - 1) * p_.scale_b_row];
  }

 private:
  const GemmParams& p_;
};

// The scales of a tile's rows and columns. A warpgroup loads them while its first products are in flight and keeps them
// until its sums are complete, those of the columns spread over its threads.
struct ResultScales {
  static constexpr i32 kOfThread = div_up(kTileN, 128);
  f32 row[2];
  f32 column[kOfThread];

  template <class Scales>
  QUERN_DEVICE void load(const Scales& scales, const Work& work, i32 line) {
    QUERN_UNROLL for (i32 h = 0; h < 2; ++h) row[h] = scales.of_row(work, line + 8 * h);
    QUERN_UNROLL for (i32 i = 0; i < kOfThread; ++i) column[i] = scales.of_column(work, i * 128 + thread_index() % 128);
  }
  // Writes the column scales to shared memory, for all threads of the warpgroup; `id` is the warpgroup's named barrier
  // for this.
  QUERN_DEVICE void share(f32* columns, i32 id) const {
    sync_named(id, 128);  // the previous tile's have been read
    put(columns);
    sync_named(id, 128);
  }
  // Writes them without a barrier: no thread may still read the place, and readers meet at a barrier afterwards.
  QUERN_DEVICE void put(f32* columns) const {
    QUERN_UNROLL for (i32 i = 0; i < kOfThread; ++i) {
      if (i * 128 + thread_index() % 128 < kTileN) columns[i * 128 + thread_index() % 128] = column[i];
    }
  }
};

// Stages `count` columns, from column `first` of the tile on, of eight of a warp's rows: those of the thread's row h.
template <i32 h, i32 first, i32 count>
QUERN_DEVICE void stage_columns(const Sums& sums, f32 row_scale, const f32* column_scales, f32* to) {
  f32 pair[2];
  sums.template read<first / 2 + 2 * h>(pair);
  if constexpr (kTileScales) {
    const auto by = *reinterpret_cast<const f32x2*>(column_scales + first);
    pair[0] *= by.x * row_scale, pair[1] *= by.y * row_scale;
  }
  to[0] = pair[0], to[1] = pair[1];
  if constexpr (count > 8) stage_columns<h, first + 8, count - 8>(sums, row_scale, column_scales, to + 8);
}

// A piece of a warp's results is a slice of columns of eight of its rows: all pieces of the upper eight rows come
// first, then those of the lower. Registers cannot be indexed at run time, so the code that stages a piece, and no more
// than this, exists once for each piece; the piece is found by bisection.
inline constexpr i32 kPieces = 2 * kSlicesN;
// `column_scales` begins at the scale of the thread's first column.
template <i32 first, i32 count>
QUERN_DEVICE void stage_piece(i32 piece, const Sums& sums, const f32 (&row_scales)[2], const f32* column_scales,
                              f32* to) {
  if constexpr (count > 1) {
    if (piece < first + count / 2) {
      stage_piece<first, count / 2>(piece, sums, row_scales, column_scales, to);
    } else {
      stage_piece<first + count / 2, count - count / 2>(piece, sums, row_scales, column_scales, to);
    }
  } else {
    constexpr i32 h = first / kSlicesN, column = first % kSlicesN * kSliceN, left = kOutTileN - column,
                  columns = left < kSliceN ? left : kSliceN;
    stage_columns<h, column, columns>(sums, row_scales[h], column_scales, to);
    if constexpr (kGate)
      stage_columns<h, kOutTileN + column, columns>(sums, row_scales[h], column_scales, to + 8 * kSlicePitch);
  }
}

// Stores a warp's results, eight rows at a time, so that every lane has eight neighbouring columns. Scales are applied
// when sums are staged, where there is room for the scales: loading them for every eight results took up to a tenth of
// a product's time.
QUERN_DEVICE void store_rows(const GemmParams& p, const Work& work, i32 consumer, const Sums& sums,
                             const f32 (&row_scales)[2], const f32* column_scales, f32* staged) {
  const i32 l = lane(), warp_line = consumer * 64 + warp() % 4 * 16;
  constexpr i32 kGroups = kSliceN / kEight;
  QUERN_ROLLED for (i32 piece = 0; piece < kPieces; ++piece) {
    const i32 below = piece < kSlicesN ? 0 : 8, first_column = (piece < kSlicesN ? piece : piece - kSlicesN) * kSliceN;
    stage_piece<0, kPieces>(piece, sums, row_scales, column_scales + (l & 3) * 2,
                            staged + (l >> 2) * kSlicePitch + (l & 3) * 2);
    sync_warp();
    QUERN_ROLLED for (i32 i = l; i < 8 * kGroups; i += kWarp) {
      const i32 row = i / kGroups, column = i % kGroups * kEight;
      const f32* at = staged + row * kSlicePitch + column;
      const bool there = first_column + column < kOutTileN;
      if constexpr (kScaled && !kTileScales) {
        finish_eight(p, work, there, warp_line + below + row, first_column + column, at, at);
      } else {
        const Eight others = kGate ? read_eight(at + 8 * kSlicePitch) : Eight{};
        finish_eight(p, work, there, warp_line + below + row, first_column + column, read_eight(at), others);
      }
    }
    sync_warp();
  }
}

// Plain results need only their sums and scales. They are finished in registers and transposed through shared memory.
// Where a warp has staging memory for two boxes, or for all, TMA stores write them while the next tile is multiplied;
// waiting for the store of a single box would take longer than ordinary stores.
inline constexpr bool kPlainResults = !kGate && !kOutScale && sizeof(Out) == 2 && USES_OPERANDS == 0;

// A warp's boxes of 16 rows and 64 columns, swizzled by 128 bytes.
inline constexpr i32 kBoxBytes = 16 * 128;
inline constexpr i32 kBoxes = kOverlappedEpilogue ? kTileN / 64 : kGrouping == kDense && !kBlockScale ? 2 : 1;
inline constexpr bool kTwoBoxes = kBoxes == 2;
static_assert(!kOverlappedEpilogue || (kPlainResults && kBoxes == 4));
inline constexpr i32 kStagedBytes = kPlainResults ? kBoxes * kBoxBytes : kStagedOfWarp * 4;

// Stores a box by ordinary stores. Its first `rows` rows and `columns` columns exist.
template <class Result>
QUERN_DEVICE void store_box(const GemmParams& p, const u8* box, Result* out, i32 rows, i32 columns) {
  constexpr i32 kRows = kWarp / 8;  // that a warp stores at a time
  const i32 l = lane(), column = l % 8 * kEight;
  const auto at = [&](i32 row) { return box + row * 128 + ((l % 8 ^ row % 8) << 4); };
  // Where TMA stores are used, the few boxes that cannot take them do not justify a second code path.
  if (!kTwoBoxes && rows >= 16 && columns >= 64 && p.out_vectors != 0) {
    vec16 eights[16 / kRows];
    QUERN_UNROLL for (i32 i = 0; i < 16 / kRows; ++i) eights[i] = load16(at(l / 8 + i * kRows));
    Result* to = out + l / 8 * p.out_row + column;
    QUERN_UNROLL for (i32 i = 0; i < 16 / kRows; ++i) store16_global(to + i * kRows * p.out_row, eights[i]);
    return;
  }
  QUERN_ROLLED for (i32 row = l / 8; row < 16; row += kRows) {
    const auto* eight = reinterpret_cast<const Result*>(at(row));
    if (row >= rows || column >= columns) continue;
    Result* to = out + row * p.out_row + column;
    if (p.out_vectors != 0 && column + kEight <= columns) {
      store16_global(to, load16(eight));
    } else {
      QUERN_ROLLED for (i32 c = 0; c < kEight && column + c < columns; ++c) to[c] = eight[c];
    }
  }
}

// Applies the formula to a thread's accumulators of slice s, eight at a time. The code of the formula exists once: the
// eights rotate through the same registers.
template <i32 s, class AnySums>
QUERN_DEVICE void apply_formula_to(const GemmParams& p, AnySums& sums) {
  constexpr i32 kLeft = kSumCount - s * 32, kEights = (kLeft < 32 ? kLeft : 32) / 8;
  QUERN_ROLLED for (i32 eight = 0; eight < kEights; ++eight) {
    f32 x[8];
    sums.template read<s * 32>(x);
    x[0] = formula(p, x[0]), x[1] = formula(p, x[1]), x[2] = formula(p, x[2]), x[3] = formula(p, x[3]);
    x[4] = formula(p, x[4]), x[5] = formula(p, x[5]), x[6] = formula(p, x[6]), x[7] = formula(p, x[7]);
    sums.template write<s * 32>(x);
    sums.template rotate<s>();
  }
}

// Finishes slice s of a warp's results, which are scaled already, into a box: 64 columns or what the tile has left.
// Result is Out; as a template parameter it keeps this from being instantiated for 32-bit outputs.
template <class Result, i32 s, class AnySums>
QUERN_DEVICE void stage_slice(const GemmParams& p, AnySums& sums, u8* box) {
  if constexpr (!kPlainFormula) apply_formula_to<s>(p, sums);
  sums.template store<Result, s>(box);
}

// Finishes and stores slices s, s + 1 ... of a warp's results. `column_scales` are those of the tile, in shared memory.
// meanwhile() is called while the first slice is being stored.
template <class Result, i32 s = 0, class AnySums, class Meanwhile>
QUERN_DEVICE void store_plain_slices(const GemmParams& p, const TensorMap& map_out, const Work& work, i32 warp_line,
                                     AnySums& sums, const f32 (&row_scales)[2], const f32* column_scales, u8* boxes,
                                     Meanwhile meanwhile) {
  constexpr i32 kSlices = div_up(kTileN, 64);
  const i32 rows = work.rows - work.row - warp_line, columns = p.n - work.column - s * 64;
  const i64 first_row = work.first_row + work.row + warp_line;
  // A TMA store of a slice that reaches beyond the tile would overwrite the next tile's columns, and one of fewer than
  // 16 rows could overwrite another expert's rows.
  const bool copied = kTwoBoxes && (s + 1) * 64 <= kTileN && p.out_mapped != 0 && rows >= 16;
  u8* box = boxes + s % kBoxes * kBoxBytes;
  // Called by the thread that committed the stores. The compiler knows it to be one thread only from elect_one().
  if (kTwoBoxes && elect_one()) {
    // After an odd number of slices the next tile begins with the box that was stored last.
    if constexpr (s == 0 && kSlices % kBoxes != 0) {
      tma_wait_read<0>();
    } else {
      tma_wait_read<kBoxes - 1>();
    }
  }
  sync_warp();
  if constexpr (kScaled) sums.template scale<s>(column_scales + s * 64, row_scales);
  stage_slice<Result, s>(p, sums, box);
  if (copied) {
    fence_async();
    sync_warp();
    if (elect_one()) {
      if (columns > 0)
        tma_store(map_out, box, CacheHint::normal, work.column + s * 64, static_cast<i32>(first_row),
                  group_of_out(p, work));
      tma_commit();
    }
  } else {
    sync_warp();
    Result* out = static_cast<Result*>(p.out) + work.group * p.out_group + first_row * p.out_row + work.column + s * 64;
    store_box(p, box, out, rows, columns < kTileN - s * 64 ? columns : kTileN - s * 64);
    if (kTwoBoxes && elect_one()) tma_commit();
  }
  if constexpr (s == 0) meanwhile();
  if constexpr (s + 1 < kSlices)
    store_plain_slices<Result, s + 1>(p, map_out, work, warp_line, sums, row_scales, column_scales, boxes, [] {});
}

// All results of a warp. A template for the same reason as stage_slice.
template <class Result, class AnySums, class Meanwhile>
QUERN_DEVICE void store_plain_rows(const GemmParams& p, const TensorMap& map_out, const Work& work, i32 consumer,
                                   AnySums& sums, const f32 (&row_scales)[2], const f32* column_scales, u8* boxes,
                                   Meanwhile meanwhile) {
  store_plain_slices<Result>(p, map_out, work, consumer * 64 + warp() % 4 * 16, sums, row_scales, column_scales, boxes,
                             meanwhile);
}

}  // namespace q
