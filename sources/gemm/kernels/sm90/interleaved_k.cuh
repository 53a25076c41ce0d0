// What Hopper's kernels of few rows and few columns are made of: warpgroups for 64 rows of a each, which take the steps of k in turn, as
// interleaved (narrow.cuh), or have some of the columns each, side by side (shared_k.cuh). One warp copies by tensor map, two bring scales.
//
// 8-bit products are summed 128 k at a time and added to f32 sums in registers: a warpgroup's own sums keep about 14 bits.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/registers/warpgroup_sums.cuh"
#include "gemm/kernels/shared/epilogue.cuh"
#include "gemm/kernels/sm90/small_m_scales.cuh"
#include "gemm/kernels/shared/pipeline.cuh"

namespace q {

inline constexpr i32 kGroupThreads = 128;
inline constexpr i32 kScaleWarps = 2;
inline constexpr i32 kConsumers = kThreads / kGroupThreads, kConsumerThreads = kConsumers * kGroupThreads;
inline constexpr i32 kCopyWarp = 4 * kConsumers, kFirstScaleWarp = kCopyWarp + 1;
// Warpgroups that multiply a step together.
inline constexpr i32 kRowGroups = kTileM / 64, kColumnGroups = COLUMN_GROUPS, kTogether = kRowGroups * kColumnGroups;
inline constexpr i32 kInterleaved = kConsumers / kTogether, kGroupN = kTileN / kColumnGroups;
static_assert(kThreads == kConsumerThreads + (1 + kScaleWarps) * kWarp && kTileM == kRowGroups * 64 && kConsumers == kTogether * kInterleaved);
static_assert(kGrouping == kDense && !kOutScale && kStepK * sizeof(ElementB) == 128 && kOutTileN % 8 == 0 && (!kBlockScale || 128 % kOutTileN == 0));
// Within a tile the steps of a stage are all one interleaved's, which therefore waits for one after the other: copies land in any order,
// and another's phase would pass for its own.
static_assert(kStages % kInterleaved == 0);
// A stage has 128 bytes of k of each row of b; behind all stages lie as many of each row of a, for so many steps. Where these are fewer
// than there are stages, more of b is under way, which comes from further off: a, which every block reads, comes from L2. A step's a
// and block scales take the place of those so many steps before, where those were multiplied.
inline constexpr i32 kStepsOfA = STEPS_OF_A, kAhead = kStages - kStepsOfA;
static_assert(kAhead >= 0 && kStepsOfA % kInterleaved == 0);
inline constexpr i32 kBBytes = kTileN * 128, kABytes = kTileM * 128, kTileBytes = kStages * kBBytes + kStepsOfA * kABytes;
using StageStateOfA = PipelineState<kStepsOfA>;
// A stage's scales are always the same warp's, or no step overtakes another (copy_scales).
static_assert(kStages % kScaleWarps == 0 || kInterleaved == 1);
inline constexpr i32 kSumCount = kGroupN / 2;  // of a thread
inline constexpr i32 kSumGroups = div_up(kSumCount, 32);
// A tile's sums, and the products of two steps, which are under way or to be added to these.
using Sums = WarpgroupSums<0, kSumCount>;
using FirstProducts = WarpgroupSums<kSumGroups, kSumCount>;
using SecondProducts = WarpgroupSums<2 * kSumGroups, kSumCount>;
struct Registers {
  Sums& sums;
  FirstProducts& first;
  SecondProducts& second;
};
inline constexpr bool kPromoted = sizeof(ElementB) == 1;
// So many sums, of few warpgroups, leave registers for the products of two steps. Four have each other to fill pauses.
inline constexpr i32 kMostPaired = kConsumers > 2 ? 0 : 32;

// Block scales are read so many steps at a time: as many as registers hold.
inline constexpr i32 kScaleSteps = kRowGroups > 1 ? (kGate ? 2 : 3) : 4;

// The first operands are asked for as soon as can be, by a warp that makes the few barriers it needs for these itself; another one makes the
// rest meanwhile. Barriers by number: those of the first stages are there; all are, for who copies.
inline constexpr i32 kBegun = 1, kMade = 5, kMadeThreads = 2 * kWarp, kBeginWarp = 0, kMapWarp = 1;
inline constexpr i32 kFirstStages = kStages < 4 ? kStages : 4;

// Each by one thread, who then fences. A stage is full when one warp's copies have come, and another's scales.
template <i32 from, i32 to>
QUERN_DEVICE void begin_full(Stages& stages) {
  QUERN_UNROLL for (i32 i = from; i < to; ++i) mbarrier_init(stages.full[i], kBlockScale ? 2 : 1);
}
QUERN_DEVICE void begin_empty(Stages& stages) {
  QUERN_UNROLL for (i32 i = 0; i < kStages; ++i) mbarrier_init(stages.empty[i], 4 * kTogether);
}
QUERN_DEVICE void fetch_maps(const TensorMap& map_a, const TensorMap& map_b) {
  if (elect_one()) {
    prefetch_tensor_map(map_b);
    prefetch_tensor_map(map_a);
  }
  sync_warp();
}

static_assert(sizeof(Stages) == 2 * kStages * sizeof(Mbarrier));

// By one thread. A step's copies are short ones where tiles are narrow, so that who makes them can set the pace: places are found once.
struct Copies {
  const GemmParams& p;
  const TensorMap &map_a, &map_b;
  SharedArray<u8> tiles;
  SharedArray<Mbarrier> stages;  // full ones, then as many empty ones
  u32 bytes;                     // of a step

  QUERN_DEVICE Copies(const GemmParams& params, const TensorMap& a, const TensorMap& b, const u8* shared, const Stages& of)
      : p(params), map_a(a), map_b(b), tiles(shared), stages(reinterpret_cast<const Mbarrier*>(&of)), bytes(static_cast<u32>(kBBytes + small_m_rows(params.m, kTileM) * 128)) {}
  QUERN_DEVICE void await_empty(i32 stage, u32 phase) const { mbarrier_wait(stages, kStages + stage, phase); }
  // b of a step, and how many bytes of a will follow. Rows of b are read once, or by neighbours at the same time.
  QUERN_DEVICE void b(const Work& work, i32 step, i32 stage) const {
    mbarrier_arrive_expect(stages, stage, bytes);
    tma_load(tiles, stage * kBBytes, map_b, stages, stage, CacheHint::evict_first, step * kStepK, work.column, group_of_b(p, work));
    if constexpr (kGate) {
      tma_load(tiles, stage * kBBytes + kBBytes / 2, map_b, stages, stage, CacheHint::evict_first, step * kStepK, p.n / 2 + work.column, group_of_b(p, work));
    }
  }
  // a of it. What lies below keeps what it held: rows that are not stored.
  QUERN_DEVICE void a(const Work& work, i32 step, i32 stage, i32 place) const {
    tma_load(tiles, kStages * kBBytes + place * kABytes, map_a, stages, stage, CacheHint::normal, step * kStepK, work.row, group_of_a(p, work));
  }
};

// Scales of a tile's rows and columns, in the registers of a warp.
struct VectorScales {
  static constexpr i32 kRows = div_up(kTileM, kWarp), kColumns = div_up(kTileN, kWarp);
  f32 rows[kRows], columns[kColumns];

  QUERN_DEVICE VectorScales(const GemmParams& p, const Work& work) {
    const i32 l = lane();
    QUERN_UNROLL for (i32 i = 0; i < kRows; ++i) {
      const i32 source = source_row(p, work, l + i * kWarp);
      rows[i] = source < 0 ? 0.0f : scale_of_row(p, work, source);
    }
    QUERN_UNROLL for (i32 i = 0; i < kColumns; ++i) {
      const i32 source = l + i * kWarp < kTileN ? source_column(p, work, l + i * kWarp) : -1;
      columns[i] = source < 0 ? 0.0f : p.scale_b[work.group * p.scale_b_group + source * p.scale_b_row];
    }
  }
  QUERN_DEVICE void store(f32* to_rows, f32* to_columns) const {
    const i32 l = lane();
    QUERN_UNROLL for (i32 i = 0; i < kRows; ++i) to_rows[l + i * kWarp] = rows[i];
    QUERN_UNROLL for (i32 i = 0; i < kColumns; ++i) {
      if (l + i * kWarp < kTileN) to_columns[l + i * kWarp] = columns[i];
    }
  }
};

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

// One warpgroup: of the block's, those of rows 64 `group` and columns kGroupN `side` on, of which it takes every so many steps.
struct Consumer {
  i32 group, side, interleaved;

  QUERN_DEVICE explicit Consumer(i32 number) : group(number % kRowGroups), side(number / kRowGroups % kColumnGroups), interleaved(number / kTogether) {}
  QUERN_DEVICE i32 number() const { return group + kRowGroups * side + kTogether * interleaved; }
  // Of the tile.
  QUERN_DEVICE i32 row() const { return group * 64 + wgmma_row(thread_index() % kGroupThreads, 0); }
  template <class D>
  QUERN_DEVICE void multiply(D& d, const u8* shared, i32 stage, i32 place, bool accumulate) const {
    constexpr u64 kLayout = k_major_layout(Swizzle::bytes128);
    const u64 a = matrix_descriptor(shared + kStages * kBBytes + place * kABytes + group * 64 * 128, kLayout);
    const u64 b = matrix_descriptor(shared + stage * kBBytes + side * kGroupN * 128, kLayout);
    d.template multiply<ElementA, ElementB, Major::k, Major::k>(a, b, accumulate);
    d.template multiply<ElementA, ElementB, Major::k, Major::k>(advanced(a, 32), advanced(b, 32), true);
    d.template multiply<ElementA, ElementB, Major::k, Major::k>(advanced(a, 64), advanced(b, 64), true);
    d.template multiply<ElementA, ElementB, Major::k, Major::k>(advanced(a, 96), advanced(b, 96), true);
    wgmma_commit();
  }
};

// This warp has done with a stage.
QUERN_DEVICE void release(Mbarrier& empty) {
  sync_warp();
  if (lane() == 0) mbarrier_arrive(empty);
}

// A warpgroup's own steps of a tile, in turn.
struct OwnSteps {
  StageState state;
  StageStateOfA place;

  QUERN_DEVICE i32 stage() const { return state.stage; }
  // Of a, and of block scales.
  QUERN_DEVICE i32 at() const { return kAhead == 0 ? state.stage : place.stage; }
  QUERN_DEVICE void next() {
    state.template advance<kInterleaved>();
    place.template advance<kInterleaved>();
  }
};

// A step's products, under way or to be added to the sums.
template <class Products>
struct StepProducts {
  Products& x;
  StepScales scales;
  i32 stage;

  QUERN_DEVICE void begin(const Consumer& c, OwnSteps& steps, const u8* shared, const f32* block_scales, Stages& stages) {
    stage = steps.stage();
    mbarrier_wait(stages.full[stage], steps.state.phase);
    wgmma_fence();
    c.multiply(x, shared, stage, steps.at(), false);
    if constexpr (kBlockScale) scales.take(block_scales + steps.at() * kScaleCount, c.row());
    steps.next();
  }
  // Once no more than so many of those begun are under way.
  template <i32 under_way>
  QUERN_DEVICE void add_to(Sums& sums, Stages& stages) {
    wgmma_wait<under_way>();
    release(stages.empty[stage]);
    if constexpr (kBlockScale) {
      sums.template add_scaled<0>(x, [&](i32 i, i32 h) { return scales.of(i + 2 * h); });
    } else {
      sums.template add<0>(x);
    }
  }
};

// Its steps of a tile whose first stage is `turn`, and whose first a and block scales are at `place`.
QUERN_DEVICE void sum_steps(const Registers& registers, const Consumer& c, const Work& work, StageState state, StageStateOfA place, const u8* shared,
                            const f32* block_scales, Stages& stages) {
  Sums& sums = registers.sums;
  sums.clear();
  state.skip(c.interleaved);
  place.skip(c.interleaved);
  OwnSteps own{state, place};
  i32 left = (work.last_step - work.first_step - c.interleaved + kInterleaved - 1) / kInterleaved;
  if constexpr (kPromoted && kSumCount <= kMostPaired) {
    // While one step's products are added the next one's are under way, which therefore must not wait for its stage.
    static_assert(kStepsOfA >= 2 * kInterleaved);
    StepProducts<FirstProducts> first{registers.first, {}, 0};
    StepProducts<SecondProducts> second{registers.second, {}, 0};
    if (left == 0) return;
    first.begin(c, own, shared, block_scales, stages);
    QUERN_ROLLED for (;; left -= 2) {
      if (left == 1) {
        first.template add_to<0>(sums, stages);
        return;
      }
      second.begin(c, own, shared, block_scales, stages);
      first.template add_to<1>(sums, stages);
      if (left == 2) {
        second.template add_to<0>(sums, stages);
        return;
      }
      first.begin(c, own, shared, block_scales, stages);
      second.template add_to<1>(sums, stages);
    }
  } else if constexpr (kPromoted) {
    StepProducts<FirstProducts> step{registers.first, {}, 0};
    QUERN_ROLLED for (; left > 0; --left) {
      step.begin(c, own, shared, block_scales, stages);
      step.template add_to<0>(sums, stages);
    }
  } else {
    i32 before = -1;
    QUERN_ROLLED for (; left > 0; --left) {
      const i32 stage = own.stage();
      mbarrier_wait(stages.full[stage], own.state.phase);
      // One step's products stay under way while the next one's begin; the stage before is free by then.
      wgmma_fence();
      c.multiply(sums, shared, stage, own.at(), true);
      wgmma_wait<1>();
      if (before >= 0) release(stages.empty[before]);
      before = stage;
      own.next();
    }
    wgmma_wait<0>();
    if (before >= 0) release(stages.empty[before]);
  }
}

}  // namespace q
