// The epilogue of product.cuh. Each consumer warpgroup finishes its lines' columns of out, some rows at a time, through
// staging memory of its own: sums are those of out's transpose.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/registers/warpgroup_sums.cuh"
#include "gemm/kernels/shared/epilogue.cuh"
#include "quantized_gemm/kernels/sm90/copies.cuh"

namespace q {

inline constexpr i32 kSumCount = kTileM / 2;  // accumulators of a thread
using Sums = WarpgroupSums<0, kSumCount>;

// A thread's two lines of the tile are so many apart, the first of them own_line(). With a gate they are those of one
// column, so that a warpgroup has both halves of its columns.
inline constexpr i32 kLinesApart = kGate ? kOutTileN : 8;
QUERN_DEVICE i32 own_line(i32 consumer) {
  const i32 own = thread_index() % kGroupThreads / kWarp, line = lane() >> 2;
  return kGate ? consumer * (kOutTileN / 2) + own * 8 + line : consumer * 64 + own * 16 + line;
}

// Results of 16 bits that are sums and nothing more are staged all at once, as a box of 64 columns that one TMA store
// brings to out while the next tile is multiplied.
inline constexpr bool kPlainResults = kPlainFormula && !kGate && sizeof(Out) == 2;
// Of others some rows are staged at a time. The padding has a warp's words in different banks.
inline constexpr i32 kSliceRows = 32, kSlices = kTileM / kSliceRows, kStagedPitch = 64 + 4;
inline constexpr i32 kStagedBytes = kPlainResults ? kTileM * 128 : kSliceRows * kStagedPitch * 4;  // of a warpgroup
inline constexpr i32 kColumnsOfConsumer = kOutTileN / kConsumers;

template <i32 slice, i32 eight = 0>
QUERN_DEVICE void stage_rows(const Sums& sums, f32* to) {
  constexpr i32 kFirst = slice * (kSliceRows / 2) + 4 * eight;
  QUERN_UNROLL for (i32 h = 0; h < 2; ++h) {
    f32 two[2];
    if (h == 0) {
      sums.template read<kFirst>(two);
    } else {
      sums.template read<kFirst + 2>(two);
    }
    f32* const at = to + 8 * eight * kStagedPitch + h * (kGate ? kColumnsOfConsumer : 8);
    at[0] = two[0], at[kStagedPitch] = two[1];
  }
  if constexpr (eight + 1 < kSliceRows / 8) stage_rows<slice, eight + 1>(sums, to);
}
// Registers cannot be indexed at run time, so the code that stages a slice, and no more than this, exists once for
// each.
template <i32 slice = 0>
QUERN_DEVICE void stage_slice(i32 wanted, const Sums& sums, f32* to) {
  if (wanted == slice) stage_rows<slice>(sums, to);
  if constexpr (slice + 1 < kSlices) stage_slice<slice + 1>(wanted, sums, to);
}

// Stores a warpgroup's results, a slice of rows after the other.
QUERN_DEVICE void store_slices(const GemmParams& p, const Work& work, i32 consumer, const Sums& sums, f32* staged,
                               i32 barrier) {
  constexpr i32 kEights = kColumnsOfConsumer / kEight;
  const i32 thread = thread_index() % kGroupThreads, own = thread / kWarp;
  f32* const to = staged + (lane() & 3) * 2 * kStagedPitch + own * (kGate ? 8 : 16) + (lane() >> 2);
  QUERN_ROLLED for (i32 slice = 0; slice < kSlices; ++slice) {
    const i32 row = slice * kSliceRows;
    if (work.row + row >= work.rows) break;
    sync_named(barrier, kGroupThreads);  // what was staged before has been read
    stage_slice(slice, sums, to);
    sync_named(barrier, kGroupThreads);
    QUERN_ROLLED for (i32 i = thread; i < kSliceRows * kEights; i += kGroupThreads) {
      const i32 line = i / kEights, column = i % kEights * kEight;
      const f32* at = staged + line * kStagedPitch + column;
      finish_eight(p, work, true, row + line, consumer * kColumnsOfConsumer + column, at, at + kColumnsOfConsumer);
    }
  }
}

// Stream-K. Each consumer warpgroup counts and adds up the sums of its lines by itself. A thread's elements 4 i to 4 i
// + 3 lie at 4 i kConsumers kGroupThreads of a slot, side by side.
inline constexpr i32 kSumsApart = 4 * kConsumers * kGroupThreads;
template <i32 eight = 0>
QUERN_DEVICE void write_sums(const Sums& sums, f32* to) {
  f32 x[8];
  sums.template read<8 * eight>(x);
  QUERN_UNROLL for (i32 i = 0; i < 2; ++i) {
    store16(to + (2 * eight + i) * kSumsApart,
            {{bits_of(x[4 * i]), bits_of(x[4 * i + 1]), bits_of(x[4 * i + 2]), bits_of(x[4 * i + 3])}});
  }
  if constexpr (8 * eight + 8 < kSumCount) write_sums<eight + 1>(sums, to);
}
template <i32 eight = 0>
QUERN_DEVICE void add_sums(Sums& sums, const vec16 (&from)[kSumCount / 4]) {
  f32 x[8];
  sums.template read<8 * eight>(x);
  QUERN_UNROLL for (i32 i = 0; i < 8; ++i) x[i] += f32_of(from[2 * eight + i / 4].x[i % 4]);
  sums.template write<8 * eight>(x);
  if constexpr (8 * eight + 8 < kSumCount) add_sums<eight + 1>(sums, from);
}
// Writes a warpgroup's sums to the workspace where other blocks contribute to the tile as well. Returns true in the
// block that is to finish them, with the sums of all. `flag` and `barrier` are the warpgroup's own.
QUERN_DEVICE bool reduce_sums(const GemmParams& p, const StreamKSchedule& schedule, const Work& work, i32 consumer,
                              Sums& sums, i32* flag, i32 barrier) {
  const Contributors contributors(schedule, work.tile);
  if (contributors.first == contributors.last) return true;
  const auto slot_of = [&](i32 block) {
    return p.partials + contributors.slot_of(block) * (kTileM * kTileN) + 4 * thread_index();
  };
  write_sums(sums, slot_of(block_index(0)));
  const bool last = arrived_last(
      thread_index() % kGroupThreads == 0, flag, [&] { sync_named(barrier, kGroupThreads); },
      [&] { return p.arrived + kConsumers * work.tile + consumer; },
      [&] { return static_cast<u32>(contributors.last - contributors.first + 1); });
  if (!last) return false;
  sums.clear();
  QUERN_ROLLED for (i32 block = contributors.first; block <= contributors.last; ++block) {
    const f32* const from = slot_of(block);
    vec16 v[kSumCount / 4];
    QUERN_UNROLL for (i32 i = 0; i < kSumCount / 4; ++i) v[i] = load16(from + i * kSumsApart);
    add_sums(sums, v);
  }
  return true;
}

// Stages a warp's 16 columns of a box, 16 rows after 16 rows. Matrices of 8 x 8 sums are transposed on the way.
template <class Result, i32 step = 0>
QUERN_DEVICE void stage_box(const Sums& sums, u8* box) {
  f32 x[8];
  sums.template read<8 * step>(x);
  const u32 v[4] = {pack<Result>(x[0], x[1]), pack<Result>(x[2], x[3]), pack<Result>(x[4], x[5]),
                    pack<Result>(x[6], x[7])};
  const i32 matrix = lane() >> 3, row = 16 * step + (matrix >> 1) * 8 + (lane() & 7),
            piece = warp() % 4 * 2 + (matrix & 1);
  store_matrix<true>(box + row * 128 + ((piece ^ (row & 7)) << 4), v);
  if constexpr (16 * (step + 1) < kTileM) stage_box<Result, step + 1>(sums, box);
}

// Stores a warpgroup's plain results. Result is Out; as a template parameter it keeps this from being instantiated for
// others.
template <class Result>
QUERN_DEVICE void store_plain_results(const GemmParams& p, const TensorMap& map_out, const Work& work, i32 consumer,
                                      const Sums& sums, u8* box, i32 barrier) {
  const bool stores = warp() % 4 == 0;
  const i32 first = work.column + consumer * 64;
  // The thread that issued the last tile's store; the compiler knows it to be one only from elect_one().
  if (stores && elect_one()) tma_wait_read<0>();
  sync_named(barrier, kGroupThreads);
  stage_box<Result>(sums, box);
  if (p.out_mapped != 0) {
    fence_async();
    sync_named(barrier, kGroupThreads);
    if (stores && elect_one()) {
      if (first < p.n) tma_store(map_out, box, CacheHint::normal, first, work.row);
      tma_commit();
    }
    return;
  }
  sync_named(barrier, kGroupThreads);
  const i32 thread = thread_index() % kGroupThreads, rows = work.rows - work.row, columns = p.n - first;
  QUERN_ROLLED for (i32 i = thread; i < kTileM * 8; i += kGroupThreads) {
    const i32 row = i / 8, piece = i % 8;
    const auto* const eight = reinterpret_cast<const Result*>(box + row * 128 + ((piece ^ (row & 7)) << 4));
    if (row >= rows) break;
    Result* const to = static_cast<Result*>(p.out) + (work.row + row) * p.out_row + first + piece * kEight;
    QUERN_ROLLED for (i32 c = 0; c < kEight && piece * kEight + c < columns; ++c) to[c] = eight[c];
  }
}

// Stores a warpgroup's results; `staged` and `barrier` are its own.
QUERN_DEVICE void store_results(const GemmParams& p, const TensorMap& map_out, const Work& work, i32 consumer,
                                const Sums& sums, u8* staged, i32 barrier) {
  if constexpr (kPlainResults) {
    store_plain_results<Out>(p, map_out, work, consumer, sums, staged, barrier);
  } else {
    store_slices(p, work, consumer, sums, reinterpret_cast<f32*>(staged), barrier);
  }
}

}  // namespace q
