// Matrix products of few rows on Hopper, bound by reading b: tiles have so few columns that every multiprocessor has
// one. The consumer warpgroups of a block take a tile's k blocks in turn and add up their accumulators in a fixed order
// at the end. No block waits for another.
// SPDX-License-Identifier: Apache-2.0
#include "gemm/kernels/shared/dense_tiles.cuh"
#include "gemm/kernels/sm90/interleaved_k.cuh"
#include "gemm/kernels/sm90/tile_runs.cuh"

namespace q {

// At the end of a tile the warpgroups with k_rank in the upper half write their accumulators to shared memory, those of
// the lower half add theirs, and the threads that finish results add up the kStagedSets sets that remain.
inline constexpr i32 kStagedSets = div_up(kInterleaved, 2), kStagedPitch = kTileN + 8;
inline constexpr i32 kStagedSums = kTileM * kStagedPitch;  // floats of a set

// The tiles of a block, and what its threads hold of results from tile to tile.
struct Nothing {};
template <bool runs>
struct TilesOf {
  using Type = DenseTiles;
  using Held = Nothing;
};
template <>
struct TilesOf<true> {
  using Type = TileRuns;
  using Held = HeldRun<Out>;
};
using BlockTiles = TilesOf<kOutScale>::Type;
using Held = TilesOf<kOutScale>::Held;
static_assert(!kOutScale || (128 % kOutTileN == 0 && kTileM * HeldRun<Out>::kGroups <= kConsumerThreads),
              "a thread has eight of a tile at most");

// What lies in shared memory behind the stages.
struct Beside {
  f32* block_scales;  // of kStagesOfA k blocks
  f32* staged;
  f32* row_scales;     // of the tile's rows
  f32* column_scales;  // of the tile's columns

  QUERN_DEVICE explicit Beside(u8* shared)
      : block_scales(reinterpret_cast<f32*>(shared + kTileBytes)),
        staged(block_scales + kStagesOfA * kScaleCount),
        row_scales(staged + kStagedSets * kStagedSums),
        column_scales(row_scales + kTileM) {}
};

// Named barriers of the consumers, which with row and column scales include the warp that loads these. kHalfStaged: the
// upper half's accumulators are written. kStaged: all are. kRead: they have been read.
inline constexpr i32 kHalfStaged = 2, kStaged = 3, kRead = 4;
inline constexpr i32 kStagedThreads = kConsumerThreads + (kScaled ? kWarp : 0);

// Here a and b of a k block are copied together, and a warpgroup has all columns of the tile.
static_assert(kAhead == 0 && kColumnGroups == 1);

// Issues the copies of b, of a or of both for the first `k_blocks` k blocks, into stages that are still unused. Called
// by one thread, as is copy_rest().
template <class Tiles>
QUERN_DEVICE void begin_copies(const Copies& copies, Tiles tiles, i32 k_blocks, bool of_b, bool of_a) {
  Work work;
  i32 begun = 0;
  QUERN_ROLLED while (begun < k_blocks && tiles.next(work)) {
    QUERN_ROLLED for (i32 k_block = 0; k_block < work.end_k_block && begun < k_blocks; ++k_block, ++begun) {
      if (of_b) copies.b(work, k_block, begun);
      if (of_a) copies.a(work, k_block, begun, begun);
    }
  }
}
// Issues the copies of both operands for the remaining k blocks.
template <class Tiles>
QUERN_DEVICE void copy_rest(const Copies& copies, Tiles tiles, i32 begun) {
  Work work;
  StageState state;
  state.skip(begun);
  QUERN_ROLLED while (tiles.next(work)) {
    i32 k_block = begun < work.end_k_block ? begun : work.end_k_block;
    begun -= k_block;
    QUERN_ROLLED for (; k_block < work.end_k_block; ++k_block) {
      copies.await_empty(state.stage, state.phase ^ 1);
      copies.b(work, k_block, state.stage);
      copies.a(work, k_block, state.stage, state.stage);
      state.next();
    }
  }
}

// The loop of the warp that loads a tile's row and column scales while its products are in flight. issued() is called
// once the first loads have been issued.
template <class Tiles, class Issued>
QUERN_DEVICE void copy_vectors(const GemmParams& p, Tiles tiles, const Beside& beside, Issued issued) {
  Work work;
  bool first = true;
  QUERN_ROLLED while (tiles.next(work)) {
    const VectorScales scales(p, work);
    if (first) issued();
    if (!first) meet_named(kRead, kStagedThreads);
    first = false;
    scales.store(beside.row_scales, beside.column_scales);
    arrive_named(kStaged, kStagedThreads);
  }
}

template <bool add>
QUERN_DEVICE void stage_sums(const f32 (&sums)[kSumCount], f32* staged) {
  const i32 t = thread_index() % kGroupThreads;
  QUERN_UNROLL for (i32 i = 0; i < kSumCount; i += 2) {
    auto* to = reinterpret_cast<u64*>(staged + wgmma_row(t, i) * kStagedPitch + wgmma_column(t, i));
    f32x2 both = {sums[i], sums[i + 1]};
    if constexpr (add) both.x += f32_of(static_cast<u32>(*to)), both.y += f32_of(static_cast<u32>(*to >> 32));
    *to = static_cast<u64>(bits_of(both.y)) << 32 | bits_of(both.x);
  }
}

// Adds up eight sums over all sets; `place` is theirs in the first set.
QUERN_DEVICE Eight total(const f32* place) {
  Eight v = read_eight(place);
  QUERN_UNROLL for (i32 set = 1; set < kStagedSets; ++set) {
    const Eight other = read_eight(place + set * kStagedSums);
    QUERN_UNROLL for (i32 i = 0; i < kEight; ++i) v.x[i] += other.x[i];
  }
  return v;
}

QUERN_DEVICE Eight total_scaled(const f32* place, f32 of_row, const f32* of_columns) {
  Eight v = total(place);
  if constexpr (kScaled) {
    const Eight of_column = read_eight(of_columns);
    QUERN_UNROLL for (i32 i = 0; i < kEight; ++i) v.x[i] *= of_row * of_column.x[i];
  }
  return v;
}

template <class Kept>
QUERN_DEVICE void finish_tile(const GemmParams& p, const Work& work, const f32 (&sums)[kSumCount], const Consumer& c,
                              const Beside& beside, Kept& held) {
  f32* own = beside.staged + c.k_rank % kStagedSets * kStagedSums + c.group * 64 * kStagedPitch;
  if constexpr (kInterleaved == 1) {
    stage_sums<false>(sums, own);
  } else if (c.k_rank >= kStagedSets) {
    stage_sums<false>(sums, own);
    arrive_named(kHalfStaged, kConsumerThreads);
  } else {
    sync_named(kHalfStaged, kConsumerThreads);
    stage_sums<true>(sums, own);
  }
  sync_named(kStaged, kStagedThreads);
  constexpr i32 kGroups = kOutTileN / kEight;
  const i32 left = work.rows - work.row, all = (left < kTileM ? left : kTileM) * kGroups;
  QUERN_ROLLED for (i32 first = 0; first < all; first += kConsumerThreads) {
    const i32 i = first + thread_index();
    const bool there = i < all;
    const i32 row = there ? i / kGroups : 0, column = i % kGroups * kEight;
    const f32* at = beside.staged + row * kStagedPitch + column;
    const f32 of_row = kScaled ? beside.row_scales[row] : 1.0f;
    const f32* of_columns = beside.column_scales + column;
    if constexpr (kOutScale) {
      held.take(p, work, there, row, column, total_scaled(at, of_row, of_columns),
                kGate ? total_scaled(at + kOutTileN, of_row, of_columns + kOutTileN) : Eight{});
    } else {
      finish_eight(p, work, there, row, column, total_scaled(at, of_row, of_columns),
                   kGate ? total_scaled(at + kOutTileN, of_row, of_columns + kOutTileN) : Eight{});
    }
  }
}

template <class Tiles>
QUERN_DEVICE void multiply_tiles(const GemmParams& p, Tiles tiles, const Consumer& c, const Registers& registers,
                                 const u8* shared, Stages& stages, const Beside& beside) {
  Work work;
  StageState state;
  bool first = true;
  Held held;
  QUERN_ROLLED while (tiles.next(work)) {
    sum_k_blocks(registers, c, work, state, state, shared, beside.block_scales, stages);
    state.skip(work.end_k_block);
    if (!first) meet_named(kRead, kStagedThreads);
    first = false;
    f32 sums[kSumCount];
    registers.sums.read_all(sums);
    finish_tile(p, work, sums, c, beside, held);
  }
}

}  // namespace q

QUERN_KERNEL(quern_gemm_small_m, THREADS, 1, QUERN_PARAM q::GemmParams p, QUERN_PARAM q::TensorMap map_a,
             QUERN_PARAM q::TensorMap map_b) {
  using namespace q;
  Sums sums;
  FirstProducts first;
  SecondProducts second;
  QUERN_SHARED(Stages, stages, 1);
  u8* shared = tile_shared();
  launch_next_grid();
  // The shuffle tells the compiler that the value is equal in all threads of a warp, so that it uses uniform registers.
  const i32 w = shuffle(warp(), 0);
  if (laid_first(w == kCopyWarp)) {
    const bool one = elect_one();
    if (one) {
      begin_full<0, kFirstStages>(stages[0]);
      fence_mbarrier_init();
    }
    sync_warp();
    arrive_named(kBegun, kThreads);
    const Copies copies(p, map_a, map_b, shared, stages[0]);
    const BlockTiles tiles(p);
    // Either both operands of the first k blocks, or, if b is constant, b of all stages before the previous grid has
    // finished and then a.
    const bool early = (p.flags & kConstantB) != 0;
    if (one && !early) {
      wait_for_previous_grid();
      begin_copies(copies, tiles, kFirstStages, true, true);
    }
    sync_warp();
    sync_named(kMade, kMadeThreads);
    if (one) {
      if (early) {
        QUERN_ROLLED for (i32 pass = 0; pass < 2; ++pass) {
          begin_copies(copies, tiles, kStages, pass == 0, pass == 1);
          if (pass == 0) wait_for_previous_grid();
        }
      }
      copy_rest(copies, tiles, early ? kStages : kFirstStages);
    }
    return;
  }
  if (w == kBeginWarp) {
    if (elect_one()) {
      begin_full<kFirstStages, kStages>(stages[0]);
      begin_empty(stages[0]);
      fence_mbarrier_init();
    }
    sync_warp();
    arrive_named(kMade, kMadeThreads);
  }
  if (w == kMapWarp) fetch_maps(map_a, map_b);
  const BlockTiles tiles(p);
  const Beside beside(shared);
  fetch_parameters(p);
  if (kBlockScale && w == kFirstScaleWarp) fetch_scales_of_b(p, tiles);
  wait_for_previous_grid();
  bool met = false;
  const auto meet = [&] {
    if (!met) meet_named(kBegun, kThreads);
    met = true;
  };
  if (w > kCopyWarp) {
    const i32 number = w - kFirstScaleWarp;
    if constexpr (kBlockScale)
      copy_scales<kScaleKBlocks, kScaleWarps, kStagesOfA>(p, tiles, number, beside.block_scales, stages[0], meet);
    if (kScaled && number == 0) copy_vectors(p, tiles, beside, meet);
    meet();
    return;
  }
  meet();
  multiply_tiles(p, tiles, Consumer(w / 4), {sums, first, second}, shared, stages[0], beside);
}
