// From a warpgroup's sums to results: a warp finishes its 16 rows, a slice of columns at a time, through memory of its own.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/registers/warpgroup_sums.cuh"
#include "gemm/kernels/shared/epilogue.cuh"

namespace q {

inline constexpr i32 kSumCount = kTileN / 2;  // of a thread
using Sums = WarpgroupSums<0, kSumCount>;     // of a tile

// How many columns are staged at a time. A scale of results is one for 128 columns of a row. Of a gate both halves are staged: so few at a
// time leave room for a fourth stage, without which turns of two steps (warpgroup_steps.cuh) starve; beside the list of experts there is
// less room, and block scales, whose turns are of one step, do as well with three.
inline constexpr i32 kSliceN = kOutScale ? 128 : !kGate ? 64 : kGrouping == kDense ? 32 : kScaled ? 16 : 64;
inline constexpr i32 kSlicePitch = kSliceN + 8;
inline constexpr i32 kSlicesN = div_up(kOutTileN, kSliceN);
inline constexpr i32 kStagedOfWarp = 8 * kSlicePitch * (kGate ? 2 : 1);  // f32
static_assert(!kOutScale || (kOutTileN % kSliceN == 0 && !kGate));

// Whether scales of rows and columns are read at a tile's beginning. Where results have scales of their own, what is staged leaves no room.
inline constexpr bool kTileScales = kScaled && !kOutScale;

// The scales of a tile's rows and columns, which a warpgroup reads while its first products are under way and keeps until its sums
// are there: those of the columns spread over its threads.
struct ResultScales {
  static constexpr i32 kOfThread = div_up(kTileN, 128);
  f32 row[2];
  f32 column[kOfThread];

  QUERN_DEVICE void load(const GemmParams& p, const Work& work, i32 line) {
    const i64 group_of_a = kGrouping == kContiguous ? 0 : work.group;
    QUERN_UNROLL for (i32 h = 0; h < 2; ++h) {
      const i32 source = source_row(p, work, line + 8 * h);
      row[h] = p.scale_a[group_of_a * p.scale_a_group + (source < 0 ? 0 : source) * p.scale_a_row];
    }
    const f32* from = p.scale_b + work.group * p.scale_b_group;
    QUERN_UNROLL for (i32 i = 0; i < kOfThread; ++i) {
      // Past the last column any scale will do: what is made with it is not stored.
      const i32 of_tile = i * 128 + thread_index() % 128, c = work.column + of_tile + (kGate && of_tile >= kOutTileN ? p.n / 2 - kOutTileN : 0);
      column[i] = from[(c < p.n ? c : p.n - 1) * p.scale_b_row];
    }
  }
  // Those of the columns to where all threads of the warpgroup read them; `id` is a named barrier of its own.
  QUERN_DEVICE void share(f32* columns, i32 id) const {
    sync_named(id, 128);  // the last tile's have been read
    put(columns);
    sync_named(id, 128);
  }
  // The same, where nobody reads any more, for who meets afterwards.
  QUERN_DEVICE void put(f32* columns) const {
    QUERN_UNROLL for (i32 i = 0; i < kOfThread; ++i) {
      if (i * 128 + thread_index() % 128 < kTileN) columns[i * 128 + thread_index() % 128] = column[i];
    }
  }
};

// Stages `count` columns of eight of a warp's rows, the thread's row h, from column `first` of the tile on.
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

// A part of a warp's results is a slice of the columns of eight of its rows: first of the upper eight, then of the lower. It goes to the
// warp's memory; registers have no index: one copy of the code for each part, but for this little only, found by halves.
inline constexpr i32 kParts = 2 * kSlicesN;
// `column_scales` are those of the tile from the thread's first column on.
template <i32 first, i32 count>
QUERN_DEVICE void stage_part(i32 part, const Sums& sums, const f32 (&row_scales)[2], const f32* column_scales, f32* to) {
  if constexpr (count > 1) {
    if (part < first + count / 2) {
      stage_part<first, count / 2>(part, sums, row_scales, column_scales, to);
    } else {
      stage_part<first + count / 2, count - count / 2>(part, sums, row_scales, column_scales, to);
    }
  } else {
    constexpr i32 h = first / kSlicesN, column = first % kSlicesN * kSliceN, left = kOutTileN - column, columns = left < kSliceN ? left : kSliceN;
    stage_columns<h, column, columns>(sums, row_scales[h], column_scales, to);
    if constexpr (kGate) stage_columns<h, kOutTileN + column, columns>(sums, row_scales[h], column_scales, to + 8 * kSlicePitch);
  }
}

// Eight rows at a time, so that every lane has eight neighbouring columns. Scales are applied on the way, where there is room for
// them: to read them from memory for every eight results takes up to a tenth of a product's time.
QUERN_DEVICE void store_rows(const GemmParams& p, const Work& work, i32 consumer, const Sums& sums, const f32 (&row_scales)[2],
                             const f32* column_scales, f32* staged) {
  const i32 l = lane(), warp_line = consumer * 64 + warp() % 4 * 16;
  constexpr i32 kGroups = kSliceN / kEight;
  QUERN_ROLLED for (i32 part = 0; part < kParts; ++part) {
    const i32 below = part < kSlicesN ? 0 : 8, first_column = (part < kSlicesN ? part : part - kSlicesN) * kSliceN;
    stage_part<0, kParts>(part, sums, row_scales, column_scales + (l & 3) * 2, staged + (l >> 2) * kSlicePitch + (l & 3) * 2);
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

// Results that need nothing beside their sums and scales are finished where they are, in registers, and turned round in shared memory.
// Where two boxes of a warp have room there, or all, they leave by bulk copies, which go on while the next tile is multiplied; to wait
// for the copies of one would take longer than ordinary stores.
inline constexpr bool kPlainResults = !kGate && !kOutScale && sizeof(Out) == 2 && USES_OPERANDS == 0;

// A warp's boxes of 16 rows of 64 columns, swizzled by 128 bytes.
inline constexpr i32 kBoxBytes = 16 * 128;
inline constexpr i32 kBoxes = kOverlappedEpilogue ? kTileN / 64 : kGrouping == kDense && !kBlockScale ? 2 : 1;
inline constexpr bool kTwoBoxes = kBoxes == 2;
static_assert(!kOverlappedEpilogue || (kPlainResults && kBoxes == 4));
inline constexpr i32 kStagedBytes = kPlainResults ? kBoxes * kBoxBytes : kStagedOfWarp * 4;

// One box by ordinary stores, of which `columns` columns and `rows` rows are there.
template <class Result>
QUERN_DEVICE void store_box(const GemmParams& p, const u8* box, Result* out, i32 rows, i32 columns) {
  constexpr i32 kRows = kWarp / 8;  // at a time
  const i32 l = lane(), column = l % 8 * kEight;
  const auto at = [&](i32 row) { return box + row * 128 + ((l % 8 ^ row % 8) << 4); };
  // Where results leave by bulk copies, the few boxes that do not are no reason for more code.
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

// A thread's sums of slice s become results, eight at a time: one copy of the formula, for which the eights take turns at one place.
template <i32 s>
QUERN_DEVICE void apply_formula_to(const GemmParams& p, Sums& sums) {
  constexpr i32 kLeft = kSumCount - s * 32, kEights = (kLeft < 32 ? kLeft : 32) / 8;
  QUERN_ROLLED for (i32 eight = 0; eight < kEights; ++eight) {
    f32 x[8];
    sums.template read<s * 32>(x);
    x[0] = formula(p, x[0]), x[1] = formula(p, x[1]), x[2] = formula(p, x[2]), x[3] = formula(p, x[3]);
    x[4] = formula(p, x[4]), x[5] = formula(p, x[5]), x[6] = formula(p, x[6]), x[7] = formula(p, x[7]);
    sums.template write<s * 32>(x);
    sums.template turn<s>();
  }
}

// Finishes slice s of a warp's results, 64 columns or as many as the tile has left, into a box, once they are scaled. Result is Out: a
// template, since it is none for outputs of 32 bits.
template <class Result, i32 s>
QUERN_DEVICE void stage_slice(const GemmParams& p, Sums& sums, u8* box) {
  if constexpr (!kPlainFormula) apply_formula_to<s>(p, sums);
  sums.template store<Result, s>(box);
}

// Finishes slices s and further on of a warp's results, and has each leave. `column_scales` are those of the tile, in shared memory.
// `meanwhile` is called while the first slice leaves.
template <class Result, i32 s = 0, class Meanwhile>
QUERN_DEVICE void store_plain_slices(const GemmParams& p, const TensorMap& map_out, const Work& work, i32 warp_line, Sums& sums, const f32 (&row_scales)[2],
                                     const f32* column_scales, u8* boxes, Meanwhile meanwhile) {
  constexpr i32 kSlices = div_up(kTileN, 64);
  const i32 rows = work.rows - work.row - warp_line, columns = p.n - work.column - s * 64;
  const i64 first_row = work.first_row + work.row + warp_line;
  // A slice that the tile ends within would be copied over the next tile's columns, and a box that is not whole may end where another
  // expert's rows begin.
  const bool copied = kTwoBoxes && (s + 1) * 64 <= kTileN && p.out_mapped != 0 && rows >= 16;
  u8* box = boxes + s % kBoxes * kBoxBytes;
  // By the one thread that commits: which it is the compiler knows of an elected one alone.
  if (kTwoBoxes && elect_one()) {
    // A tile with an odd number of slices begins with the box that the last one ended with.
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
      if (columns > 0) tma_store(map_out, box, CacheHint::normal, work.column + s * 64, static_cast<i32>(first_row), kGrouping == kContiguous ? 0 : work.group);
      tma_commit();
    }
  } else {
    sync_warp();
    Result* out = static_cast<Result*>(p.out) + work.group * p.out_group + first_row * p.out_row + work.column + s * 64;
    store_box(p, box, out, rows, columns < kTileN - s * 64 ? columns : kTileN - s * 64);
    if (kTwoBoxes && elect_one()) tma_commit();
  }
  if constexpr (s == 0) meanwhile();
  if constexpr (s + 1 < kSlices) store_plain_slices<Result, s + 1>(p, map_out, work, warp_line, sums, row_scales, column_scales, boxes, [] {});
}

// As stage_slice for the types.
template <class Result, class Meanwhile>
QUERN_DEVICE void store_plain_rows(const GemmParams& p, const TensorMap& map_out, const Work& work, i32 consumer, Sums& sums, const f32 (&row_scales)[2],
                                   const f32* column_scales, u8* boxes, Meanwhile meanwhile) {
  store_plain_slices<Result>(p, map_out, work, consumer * 64 + warp() % 4 * 16, sums, row_scales, column_scales, boxes, meanwhile);
}

}  // namespace q
