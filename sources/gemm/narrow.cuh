// Matrix products of few rows on Hopper, for which reading b sets the pace: a tile has so few of its rows that every multiprocessor
// has one to read. Within the block warpgroups take the steps of k in turn, alternates, each for 64 rows of a, and add their sums up
// in a fixed order at the end: no block waits for another. One warp copies by tensor map, two bring scales.
//
// 8-bit products are summed 128 k at a time and added to f32 sums in registers: a warpgroup's own sums keep about 14 bits.
// SPDX-License-Identifier: Apache-2.0
#include "common/hopper.cuh"
#include "gemm/epilogue.cuh"
#include "gemm/few_rows.cuh"
#include "gemm/pipeline.cuh"
#include "gemm/tiles.cuh"

namespace q {

inline constexpr i32 kGroupThreads = 128;
inline constexpr i32 kScaleWarps = 2;
inline constexpr i32 kConsumers = kThreads / kGroupThreads, kConsumerThreads = kConsumers * kGroupThreads;
inline constexpr i32 kCopyWarp = 4 * kConsumers, kFirstScaleWarp = kCopyWarp + 1;
inline constexpr i32 kRowGroups = kTileM / 64, kAlternates = kConsumers / kRowGroups;
static_assert(kThreads == kConsumerThreads + (1 + kScaleWarps) * kWarp && kTileM == kRowGroups * 64 && kConsumers == kRowGroups * kAlternates);
static_assert(kGrouping == kDense && !kOutScale && kStepK * sizeof(ElementB) == 128 && kOutTileN % 8 == 0 && 128 % kOutTileN == 0);
// Within a tile the steps of a stage are all one alternate's, which therefore waits for one after the other: copies land in any order,
// and another's phase would pass for its own.
static_assert(kStages % kAlternates == 0);
// A stage: 128 bytes of k of each row of b, then of each row of a.
inline constexpr i32 kBBytes = kTileN * 128, kTileBytes = kBBytes + kTileM * 128;
inline constexpr i32 kSumCount = kTileN / 2;  // of a thread
inline constexpr bool kPromoted = sizeof(ElementB) == 1;

// Sums of the later half of the alternates go through shared memory to those of the first half, and these to where results are
// finished, which adds up what is left.
inline constexpr i32 kStagedSets = div_up(kAlternates, 2), kStagedPitch = kTileN + 8;
inline constexpr i32 kStagedSums = kTileM * kStagedPitch;  // of a set

// In shared memory behind the stages.
struct Beside {
  f32* block_scales;  // of the stages
  f32* staged;
  f32* row_scales;  // of the tile
  f32* column_scales;

  QUERN_DEVICE explicit Beside(u8* shared)
      : block_scales(reinterpret_cast<f32*>(shared + kStages * kTileBytes)),
        staged(block_scales + kStages * kScaleCount),
        row_scales(staged + kStagedSets * kStagedSums),
        column_scales(row_scales + kTileM) {}
};

// Barriers of the consumers, with scales of rows and columns also of the warp that brings these. Staged sums are there of the later
// alternates, then of all; then they have been read.
inline constexpr i32 kHalfStaged = 1, kStaged = 2, kRead = 3;
inline constexpr i32 kStagedThreads = kConsumerThreads + (kScaled ? kWarp : 0);

// Block scales are read so many steps at a time: as many as registers hold.
inline constexpr i32 kScaleSteps = kGate || kRowGroups > 1 ? 4 : 8;

// By one thread.
struct Copies {
  const GemmParams& p;
  const TensorMap &map_a, &map_b;
  u8* shared;
  Stages& stages;

  // b, as a stage's first bytes: counts them all. Rows of b are read once, or by neighbours at the same time.
  QUERN_DEVICE void b(const Work& work, i32 step, i32 stage) const {
    Mbarrier& full = stages.full[stage];
    u8* to = shared + stage * kTileBytes;
    mbarrier_arrive_expect(full, static_cast<u32>(kBBytes + narrow_rows(p.m, kTileM) * 128));
    tma_load(to, map_b, full, CacheHint::evict_first, step * kStepK, work.column, work.group);
    if constexpr (kGate) tma_load(to + kBBytes / 2, map_b, full, CacheHint::evict_first, step * kStepK, p.n / 2 + work.column, work.group);
  }
  // a, as its last bytes. What lies below keeps what it held: rows that are not stored.
  QUERN_DEVICE void a(const Work& work, i32 step, i32 stage) const {
    tma_load(shared + stage * kTileBytes + kBBytes, map_a, stages.full[stage], CacheHint::normal, step * kStepK, work.row, work.group);
  }
};

template <class Tiles>
QUERN_DEVICE void copy_tiles(const Copies& copies, const Tiles& all) {
  Work work;
  i32 begun = 0;
  if (copies.p.constant_b != 0) {
    Tiles tiles = all;
    QUERN_ROLLED while (begun < kStages && tiles.next(work)) {
      QUERN_ROLLED for (i32 step = 0; step < work.last_step && begun < kStages; ++step, ++begun) copies.b(work, step, begun);
    }
  }
  wait_for_previous_grid();
  Tiles tiles = all;
  Turn turn;
  QUERN_ROLLED while (tiles.next(work)) {
    QUERN_ROLLED for (i32 step = 0; step < work.last_step; ++step) {
      if (begun > 0) {
        --begun;
      } else {
        mbarrier_wait(copies.stages.empty[turn.stage], turn.phase ^ 1);
        copies.b(work, step, turn.stage);
      }
      copies.a(work, step, turn.stage);
      turn.next();
    }
  }
}

// Scales of a tile's rows and columns, read while its products are under way.
template <class Tiles>
QUERN_DEVICE void copy_vectors(const GemmParams& p, Tiles tiles, const Beside& beside) {
  constexpr i32 kRows = div_up(kTileM, kWarp), kColumns = div_up(kTileN, kWarp);
  const i32 l = lane();
  Work work;
  bool first = true;
  QUERN_ROLLED while (tiles.next(work)) {
    f32 rows[kRows], columns[kColumns];
    QUERN_UNROLL for (i32 i = 0; i < kRows; ++i) {
      const i32 source = source_row(p, work, l + i * kWarp);
      rows[i] = source < 0 ? 0.0f : scale_of_row(p, work, source);
    }
    QUERN_UNROLL for (i32 i = 0; i < kColumns; ++i) {
      const i32 source = l + i * kWarp < kTileN ? source_column(p, work, l + i * kWarp) : -1;
      columns[i] = source < 0 ? 0.0f : p.scale_b[work.group * p.scale_b_group + source * p.scale_b_row];
    }
    if (!first) sync_named(kRead, kStagedThreads);
    first = false;
    QUERN_UNROLL for (i32 i = 0; i < kRows; ++i) beside.row_scales[l + i * kWarp] = rows[i];
    QUERN_UNROLL for (i32 i = 0; i < kColumns; ++i) {
      if (l + i * kWarp < kTileN) beside.column_scales[l + i * kWarp] = columns[i];
    }
    arrive_named(kStaged, kStagedThreads);
  }
}

// What a step's products are multiplied by: the two rows of a thread, for each set.
struct StepScales {
  f32 x[kScaleSets][2];

  QUERN_DEVICE void take(const f32* scales, i32 line) {
    QUERN_UNROLL for (i32 s = 0; s < kScaleSets; ++s) {
      QUERN_UNROLL for (i32 h = 0; h < 2; ++h) x[s][h] = scales[s * kTileM + line + 8 * h];
    }
  }
  // Of sum i.
  QUERN_DEVICE f32 of(i32 i) const { return x[kGate && i >= kSumCount / 2 ? 1 : 0][i >> 1 & 1]; }
};

// One warpgroup: of the block's, those of rows 64 `group` on, of which it takes every so many steps.
struct Consumer {
  i32 group, alternate;

  // Of the tile.
  QUERN_DEVICE i32 row() const { return group * 64 + wgmma_row(thread_index() % kGroupThreads, 0); }
  QUERN_DEVICE void multiply(f32 (&d)[kSumCount], const u8* stage, bool accumulate) const {
    constexpr u64 kLayout = k_major_layout(Swizzle::bytes128);
    const u64 a = matrix_descriptor(stage + kBBytes + group * 64 * 128, kLayout), b = matrix_descriptor(stage, kLayout);
    QUERN_UNROLL for (i32 k = 0; k < 4; ++k) wgmma<ElementA, ElementB>(d, advanced(a, 32 * k), advanced(b, 32 * k), accumulate || k > 0);
    wgmma_commit();
  }
};

// This warp has done with a stage.
QUERN_DEVICE void release(Mbarrier& empty) {
  sync_warp();
  if (lane() == 0) mbarrier_arrive(empty);
}

// Its steps of a tile whose first stage is `turn`.
QUERN_DEVICE void sum_steps(f32 (&sums)[kSumCount], const Consumer& c, i32 steps, Turn turn, const u8* shared, const f32* block_scales, Stages& stages) {
  QUERN_UNROLL for (f32& sum : sums) sum = 0.0f;
  turn.skip(c.alternate);
  i32 before = -1;
  QUERN_ROLLED for (i32 step = c.alternate; step < steps; step += kAlternates) {
    const u8* stage = shared + turn.stage * kTileBytes;
    mbarrier_wait(stages.full[turn.stage], turn.phase);
    if constexpr (kPromoted) {
      f32 part[kSumCount];
      wgmma_fence();
      c.multiply(part, stage, false);
      StepScales scales;
      if constexpr (kBlockScale) scales.take(block_scales + turn.stage * kScaleCount, c.row());
      wgmma_wait<0>(part);
      release(stages.empty[turn.stage]);
      QUERN_UNROLL for (i32 i = 0; i < kSumCount; ++i) sums[i] = kBlockScale ? fma(part[i], scales.of(i), sums[i]) : sums[i] + part[i];
    } else {
      // One step's products stay under way while the next one's begin; the stage before is free by then.
      wgmma_fence();
      c.multiply(sums, stage, true);
      wgmma_wait<1>();
      if (before >= 0) release(stages.empty[before]);
      before = turn.stage;
    }
    turn.skip(kAlternates);
  }
  if constexpr (!kPromoted) {
    wgmma_wait<0>(sums);
    if (before >= 0) release(stages.empty[before]);
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

// Eight sums of all alternates, at this place in each set.
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
  f32* own = beside.staged + c.alternate % kStagedSets * kStagedSums + c.group * 64 * kStagedPitch;
  if constexpr (kAlternates == 1) {
    stage_sums<false>(sums, own);
  } else if (c.alternate >= kStagedSets) {
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
QUERN_DEVICE void multiply_tiles(const GemmParams& p, Tiles tiles, const Consumer& c, const u8* shared, Stages& stages, const Beside& beside) {
  Work work;
  Turn turn;
  bool first = true;
  QUERN_ROLLED while (tiles.next(work)) {
    f32 sums[kSumCount];
    sum_steps(sums, c, work.last_step, turn, shared, beside.block_scales, stages);
    turn.skip(work.last_step);
    if (!first) sync_named(kRead, kStagedThreads);
    first = false;
    finish_tile(p, work, sums, c, beside);
  }
}

}  // namespace q

QUERN_KERNEL(quern_gemm_narrow, THREADS, 1, QUERN_PARAM q::GemmParams p, QUERN_PARAM q::TensorMap map_a, QUERN_PARAM q::TensorMap map_b) {
  using namespace q;
  QUERN_SHARED(Stages, stages, 1);
  u8* shared = tile_shared();
  launch_next_grid();
  // By a shuffle, so that the compiler knows a warp's threads to go one way and keeps what they share in uniform registers.
  const i32 w = shuffle(warp(), 0);
  if (w == kCopyWarp && elect_one()) {
    prefetch_tensor_map(map_b);
    prefetch_tensor_map(map_a);
    QUERN_UNROLL for (i32 i = 0; i < kStages; ++i) {
      mbarrier_init(stages[0].full[i], kBlockScale ? 1 + kScaleWarps : 1);
      mbarrier_init(stages[0].empty[i], 4 * kRowGroups);
    }
    fence_mbarrier_init();
  }
  sync_block();
  const DenseTiles tiles(p);
  const Beside beside(shared);
  if (w == kCopyWarp) {
    if (elect_one()) copy_tiles(Copies{p, map_a, map_b, shared, stages[0]}, tiles);
    return;
  }
  wait_for_previous_grid();
  if (w >= kFirstScaleWarp) {
    const i32 number = w - kFirstScaleWarp;
    if constexpr (kBlockScale) copy_scales<kScaleSteps, kScaleWarps>(p, tiles, number, beside.block_scales, stages[0]);
    if (kScaled && number == 0) copy_vectors(p, tiles, beside);
  } else {
    const i32 consumer = w / 4;
    multiply_tiles(p, tiles, Consumer{consumer % kRowGroups, consumer / kRowGroups}, shared, stages[0], beside);
  }
}
