// Matrix products of few rows on Hopper, for which reading b sets the pace: a tile has so few of its rows that every multiprocessor
// has one to read. The block's interleaved add their sums up in a fixed order at the end: no block waits for another.
// SPDX-License-Identifier: Apache-2.0
#include "gemm/kernels/sm90/interleaved_k.cuh"
#include "gemm/kernels/shared/dense_tiles.cuh"

namespace q {

// Sums of the later half of the interleaved go through shared memory to those of the first half, and these to where results are
// finished, which adds up what is left.
inline constexpr i32 kStagedSets = div_up(kInterleaved, 2), kStagedPitch = kTileN + 8;
inline constexpr i32 kStagedSums = kTileM * kStagedPitch;  // of a set

// In shared memory behind the stages.
struct Beside {
  f32* block_scales;  // of so many steps
  f32* staged;
  f32* row_scales;  // of the tile
  f32* column_scales;

  QUERN_DEVICE explicit Beside(u8* shared)
      : block_scales(reinterpret_cast<f32*>(shared + kTileBytes)),
        staged(block_scales + kStepsOfA * kScaleCount),
        row_scales(staged + kStagedSets * kStagedSums),
        column_scales(row_scales + kTileM) {}
};

// Barriers of the consumers, with scales of rows and columns also of the warp that brings these. Staged sums are there of the later
// interleaved, then of all; then they have been read.
inline constexpr i32 kHalfStaged = 2, kStaged = 3, kRead = 4;
inline constexpr i32 kStagedThreads = kConsumerThreads + (kScaled ? kWarp : 0);

// b and a of a step go together here, and a warpgroup has all columns.
static_assert(kAhead == 0 && kColumnGroups == 1);

// Of the first so many steps b, a or both: into stages which nothing was in. By one thread, as what follows.
template <class Tiles>
QUERN_DEVICE void begin_copies(const Copies& copies, Tiles tiles, i32 steps, bool of_b, bool of_a) {
  Work work;
  i32 begun = 0;
  QUERN_ROLLED while (begun < steps && tiles.next(work)) {
    QUERN_ROLLED for (i32 step = 0; step < work.last_step && begun < steps; ++step, ++begun) {
      if (of_b) copies.b(work, step, begun);
      if (of_a) copies.a(work, step, begun, begun);
    }
  }
}
// Of the steps behind these both.
template <class Tiles>
QUERN_DEVICE void copy_rest(const Copies& copies, Tiles tiles, i32 begun) {
  Work work;
  StageState state;
  state.skip(begun);
  QUERN_ROLLED while (tiles.next(work)) {
    i32 step = begun < work.last_step ? begun : work.last_step;
    begun -= step;
    QUERN_ROLLED for (; step < work.last_step; ++step) {
      copies.await_empty(state.stage, state.phase ^ 1);
      copies.b(work, step, state.stage);
      copies.a(work, step, state.stage, state.stage);
      state.next();
    }
  }
}

// Scales of a tile's rows and columns, read while its products are under way.
template <class Tiles, class Asked>
QUERN_DEVICE void copy_vectors(const GemmParams& p, Tiles tiles, const Beside& beside, Asked asked) {
  Work work;
  bool first = true;
  QUERN_ROLLED while (tiles.next(work)) {
    const VectorScales scales(p, work);
    if (first) asked();
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

// Eight sums of all interleaved, at this place in each set.
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

QUERN_DEVICE void finish_tile(const GemmParams& p, const Work& work, const f32 (&sums)[kSumCount], const Consumer& c, const Beside& beside) {
  f32* own = beside.staged + c.interleaved % kStagedSets * kStagedSums + c.group * 64 * kStagedPitch;
  if constexpr (kInterleaved == 1) {
    stage_sums<false>(sums, own);
  } else if (c.interleaved >= kStagedSets) {
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
    finish_eight(p, work, there, row, column, total_scaled(at, of_row, of_columns),
                 kGate ? total_scaled(at + kOutTileN, of_row, of_columns + kOutTileN) : Eight{});
  }
}

template <class Tiles>
QUERN_DEVICE void multiply_tiles(const GemmParams& p, Tiles tiles, const Consumer& c, const Registers& registers, const u8* shared, Stages& stages,
                                 const Beside& beside) {
  Work work;
  StageState state;
  bool first = true;
  QUERN_ROLLED while (tiles.next(work)) {
    sum_steps(registers, c, work, state, state, shared, beside.block_scales, stages);
    state.skip(work.last_step);
    if (!first) meet_named(kRead, kStagedThreads);
    first = false;
    f32 sums[kSumCount];
    registers.sums.read_all(sums);
    finish_tile(p, work, sums, c, beside);
  }
}

}  // namespace q

QUERN_KERNEL(quern_gemm_small_m, THREADS, 1, QUERN_PARAM q::GemmParams p, QUERN_PARAM q::TensorMap map_a, QUERN_PARAM q::TensorMap map_b) {
  using namespace q;
  Sums sums;
  FirstProducts first;
  SecondProducts second;
  QUERN_SHARED(Stages, stages, 1);
  u8* shared = tile_shared();
  launch_next_grid();
  // By a shuffle, so that the compiler knows a warp's threads to go one way and keeps what they share in uniform registers.
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
    const DenseTiles tiles(p);
    // Both operands of the first steps at once; or b alone, of all stages, before the grid before has finished.
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
  const DenseTiles tiles(p);
  const Beside beside(shared);
  wait_for_previous_grid();
  bool met = false;
  const auto meet = [&] {
    if (!met) meet_named(kBegun, kThreads);
    met = true;
  };
  if (w > kCopyWarp) {
    const i32 number = w - kFirstScaleWarp;
    if constexpr (kBlockScale) copy_scales<kScaleSteps, kScaleWarps, kStepsOfA>(p, tiles, number, beside.block_scales, stages[0], meet);
    if (kScaled && number == 0) copy_vectors(p, tiles, beside, meet);
    meet();
    return;
  }
  meet();
  multiply_tiles(p, tiles, Consumer(w / 4), {sums, first, second}, shared, stages[0], beside);
}
