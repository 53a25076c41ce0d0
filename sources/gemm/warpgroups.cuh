// Matrix products on Hopper: one warpgroup copies tiles of a and b by tensor map, the others multiply them as they arrive. It
// replaces gemm.cuh where operands are aligned, k-major and not gathered.
//
// Block scales, and 8-bit products in general, are summed 128 k at a time and added to f32 sums in registers: a warpgroup's own
// sums keep about 14 bits.
// SPDX-License-Identifier: Apache-2.0
#include "common/hopper.cuh"
#include "gemm/epilogue.cuh"
#include "gemm/experts.cuh"
#include "gemm/pipeline.cuh"
#include "gemm/tiles.cuh"

namespace q {

inline constexpr i32 kGroupThreads = 128;
inline constexpr i32 kConsumers = kTileM / 64;  // warpgroups, 64 rows each
static_assert(kThreads == (kConsumers + 1) * kGroupThreads && kStepK * sizeof(ElementA) == 128 && kTileN % 16 == 0);
inline constexpr i32 kABytes = kTileM * 128, kBBytes = kTileN * 128;
inline constexpr i32 kSumCount = kTileN / 2;  // of a thread
inline constexpr bool kPromoted = sizeof(ElementA) == 1;

// A warp finishes 8 rows of so many columns at a time, in memory of its own.
inline constexpr i32 kSliceN = kTileN <= 128 ? kTileN : kTileN / 2;
inline constexpr i32 kSlicePitch = kSliceN + 8;
static_assert(!kGate || kTileN == kSliceN || kTileN == 2 * kSliceN, "gate and up columns are in one slice, or in one each");

template <class Tiles>
QUERN_DEVICE void copy_tiles(const GemmParams& p, const TensorMap& map_a, const TensorMap& map_b, Tiles tiles, u8* shared, Stages& stages) {
  Work work;
  Turn turn;
  QUERN_ROLLED while (tiles.next(work)) {
    QUERN_ROLLED for (i32 step = 0; step < work.last_step; ++step) {
      mbarrier_wait(stages.empty[turn.stage], turn.phase ^ 1);
      Mbarrier& full = stages.full[turn.stage];
      mbarrier_arrive_expect(full, kABytes + kBBytes);
      u8* to = shared + turn.stage * (kABytes + kBBytes);
      const i32 k = step * kStepK;
      const i32 group_of_a = kGrouping == kContiguous ? 0 : work.group;
      tma_load(to, map_a, full, CacheHint::normal, k, static_cast<i32>(kGrouping == kContiguous ? work.first_row : 0) + work.row, group_of_a);
      if constexpr (kGate) {
        tma_load(to + kABytes, map_b, full, CacheHint::normal, k, work.column, work.group);
        tma_load(to + kABytes + kBBytes / 2, map_b, full, CacheHint::normal, k, p.n / 2 + work.column, work.group);
      } else {
        tma_load(to + kABytes, map_b, full, CacheHint::normal, k, work.column, work.group);
      }
      turn.next();
    }
  }
}

// Scales of 128 k, read one step ahead: of a thread's two rows, and of the block of 128 columns that the tile lies in; with a gate
// of one for each half.
struct BlockScales {
  static constexpr i32 kHalves = kGate ? 2 : 1;
  const f32* of_row[2];
  const f32* of_column[kHalves];
  f32 row[2], column[kHalves];

  QUERN_DEVICE void begin(const GemmParams& p, const Work& work, i32 line) {
    const i64 group_of_a = kGrouping == kContiguous ? 0 : work.group;
    QUERN_UNROLL for (i32 h = 0; h < 2; ++h) {
      const i32 source = source_row(p, work, line + 8 * h);
      of_row[h] = p.scale_a + group_of_a * p.scale_a_group + (source < 0 ? 0 : source) * p.scale_a_row;
    }
    QUERN_UNROLL for (i32 half = 0; half < kHalves; ++half) {
      of_column[half] = p.scale_b + work.group * p.scale_b_group + (half * (p.n / 2) + work.column) / 128 * p.scale_b_row;
    }
    load();
  }
  QUERN_DEVICE void load() {
    QUERN_UNROLL for (i32 h = 0; h < 2; ++h) row[h] = *of_row[h];
    QUERN_UNROLL for (i32 half = 0; half < kHalves; ++half) column[half] = *of_column[half];
  }
  QUERN_DEVICE void advance(const GemmParams& p) {
    QUERN_UNROLL for (i32 h = 0; h < 2; ++h) of_row[h] += p.scale_a_k;
    QUERN_UNROLL for (i32 half = 0; half < kHalves; ++half) of_column[half] += p.scale_b_k;
    load();
  }
};
static_assert(!kBlockScale || kTileN == 128, "a tile's columns share their scales");

QUERN_DEVICE void multiply_step(f32 (&d)[kSumCount], const u8* stage, i32 consumer, bool accumulate) {
  constexpr u64 kLayout = k_major_layout(Swizzle::bytes128);
  const u64 a = matrix_descriptor(stage + consumer * 64 * 128, kLayout), b = matrix_descriptor(stage + kABytes, kLayout);
  QUERN_UNROLL for (i32 k = 0; k < 4; ++k) wgmma<ElementA, ElementB>(d, advanced(a, 32 * k), advanced(b, 32 * k), accumulate || k > 0);
}

// A warp's 16 rows, eight at a time: through memory of its own, to eight neighbouring columns for each lane.
QUERN_DEVICE void store_rows(const GemmParams& p, const Work& work, i32 consumer, const f32 (&sums)[kSumCount], f32* staged) {
  const i32 l = lane(), warp_line = consumer * 64 + warp() % 4 * 16;
  constexpr i32 kSlicesN = kTileN / kSliceN, kGroups = (kGate && kSlicesN == 2 ? kSliceN : kGate ? kOutTileN : kSliceN) / kEight;
  QUERN_UNROLL for (i32 h = 0; h < 2; ++h) {
    constexpr i32 kPasses = kGate ? 1 : kSlicesN;
    QUERN_UNROLL for (i32 s = 0; s < kPasses; ++s) {
      // With a gate both halves are staged, whether they are one slice or two.
      constexpr i32 kStagedSlices = kGate ? kSlicesN : 1;
      QUERN_UNROLL for (i32 half = 0; half < kStagedSlices; ++half) {
        QUERN_UNROLL for (i32 j = 0; j < kSliceN / 8; ++j) {
          const i32 from = ((s + half) * kSliceN / 8 + j) * 4 + 2 * h;
          f32* to = staged + half * 8 * kSlicePitch + (l >> 2) * kSlicePitch + j * 8 + (l & 3) * 2;
          to[0] = sums[from], to[1] = sums[from + 1];
        }
      }
      sync_warp();
      QUERN_ROLLED for (i32 first = 0; first < 8 * kGroups; first += kWarp) {
        const i32 i = first + l, row = i / kGroups % 8, column = i % kGroups * kEight;
        const f32* at = staged + row * kSlicePitch + column;
        const f32* others = kSlicesN == 2 ? at + 8 * kSlicePitch : at + kOutTileN;
        finish_eight(p, work, i < 8 * kGroups, warp_line + 8 * h + row, (kGate ? 0 : s * kSliceN) + column, at, others);
      }
      sync_warp();
    }
  }
}

// Results that need nothing beside their sums and scales are finished where they are, in registers, and go through shared memory as
// they are stored.
inline constexpr bool kPlainResults = !kGate && !kOutScale && sizeof(Out) == 2 && USES_OPERANDS == 0;

// Result is Out: a template, since it is none for outputs of 32 bits.
template <class Result>
QUERN_DEVICE void store_plain_rows(const GemmParams& p, const Work& work, i32 consumer, const f32 (&sums)[kSumCount], f32* staged) {
  constexpr i32 kPitch = kSlicePitch;  // of results: sixteen rows take as much as eight of f32
  const i32 l = lane(), warp_line = consumer * 64 + warp() % 4 * 16;
  const i64 group_of_a = kGrouping == kContiguous ? 0 : work.group;
  auto* rows = reinterpret_cast<Result*>(staged);
  f32 of_row[2] = {1.0f, 1.0f};
  if constexpr (kScaled) {
    QUERN_UNROLL for (i32 h = 0; h < 2; ++h) {
      const i32 source = source_row(p, work, warp_line + 8 * h + (l >> 2));
      of_row[h] = p.scale_a[group_of_a * p.scale_a_group + (source < 0 ? 0 : source) * p.scale_a_row];
    }
  }
  const f32* of_column = p.scale_b + work.group * p.scale_b_group;
  QUERN_UNROLL for (i32 s = 0; s < kTileN / kSliceN; ++s) {
    QUERN_UNROLL for (i32 j = 0; j < kSliceN / 8; ++j) {
      f32 by[2] = {1.0f, 1.0f};
      if constexpr (kScaled) {
        QUERN_UNROLL for (i32 c = 0; c < 2; ++c) {
          const i32 column = work.column + s * kSliceN + j * 8 + (l & 3) * 2 + c;
          by[c] = of_column[(column < p.n ? column : p.n - 1) * p.scale_b_row];
        }
      }
      QUERN_UNROLL for (i32 h = 0; h < 2; ++h) {
        const i32 from = (s * kSliceN / 8 + j) * 4 + 2 * h;
        f32 result[2];
        QUERN_UNROLL for (i32 c = 0; c < 2; ++c) result[c] = formula(p, kScaled ? sums[from + c] * (of_row[h] * by[c]) : sums[from + c]);
        *reinterpret_cast<u32*>(rows + ((l >> 2) + 8 * h) * kPitch + j * 8 + (l & 3) * 2) = pack<Result>(result[0], result[1]);
      }
    }
    sync_warp();
    constexpr i32 kGroups = kSliceN / kEight;
    QUERN_FOUR_AT_ONCE for (i32 i = l; i < 16 * kGroups; i += kWarp) {
      const i32 row = i / kGroups, column = i % kGroups * kEight;
      const Place at{work.group, work.first_row + work.row + warp_line + row, work.column + s * kSliceN + column, p.n};
      if (source_row(p, work, warp_line + row) >= 0 && at.column < at.columns) {
        const vec16 eight = load16(rows + row * kPitch + column);
        Result* to = static_cast<Result*>(p.out) + at.group * p.out_group + at.row * p.out_row + at.column;
        if (p.out_vectors != 0 && at.whole()) {
          store16(to, eight);
        } else {
          QUERN_UNROLL for (i32 c = 0; c < kEight; ++c) {
            if (at.column + c < at.columns) to[c] = Result{static_cast<u16>(eight.x[c / 2] >> 16 * (c % 2))};
          }
        }
      }
    }
    sync_warp();
  }
}

template <class Tiles>
QUERN_DEVICE void multiply_tiles(const GemmParams& p, Tiles tiles, i32 consumer, const u8* shared, Stages& stages, f32* staged) {
  Work work;
  Turn turn;
  const i32 line = consumer * 64 + wgmma_row(thread_index() % kGroupThreads, 0);
  QUERN_ROLLED while (tiles.next(work)) {
    f32 sums[kSumCount];
    if constexpr (kPromoted) {
      QUERN_UNROLL for (f32& sum : sums) sum = 0.0f;
      BlockScales scales;
      if constexpr (kBlockScale) scales.begin(p, work, line);
      QUERN_ROLLED for (i32 step = 0; step < work.last_step; ++step) {
        f32 part[kSumCount];
        f32 scale[2][2];  // of half, of row
        mbarrier_wait(stages.full[turn.stage], turn.phase);
        wgmma_fence();
        multiply_step(part, shared + turn.stage * (kABytes + kBBytes), consumer, false);
        wgmma_commit();
        if constexpr (kBlockScale) {
          QUERN_UNROLL for (i32 i = 0; i < 4; ++i) scale[i / 2][i % 2] = scales.column[kGate ? i / 2 : 0] * scales.row[i % 2];
          if (step + 1 < work.last_step) scales.advance(p);
        }
        wgmma_wait<0>(part);
        if (thread_index() % kWarp == 0) mbarrier_arrive(stages.empty[turn.stage]);
        if constexpr (kBlockScale) {
          QUERN_UNROLL for (i32 i = 0; i < kSumCount; ++i) sums[i] = fma(part[i], scale[i >= kSumCount / 2 ? 1 : 0][i >> 1 & 1], sums[i]);
        } else {
          QUERN_UNROLL for (i32 i = 0; i < kSumCount; ++i) sums[i] += part[i];
        }
        turn.next();
      }
    } else {
      // One step's products stay under way while the next one's begin; the stage before is free by then.
      Turn before = turn;
      QUERN_ROLLED for (i32 step = 0; step < work.last_step; ++step) {
        mbarrier_wait(stages.full[turn.stage], turn.phase);
        wgmma_fence();
        multiply_step(sums, shared + turn.stage * (kABytes + kBBytes), consumer, step > 0);
        wgmma_commit();
        wgmma_wait<1>();
        if (step > 0) {
          if (thread_index() % kWarp == 0) mbarrier_arrive(stages.empty[before.stage]);
        }
        before = turn;
        turn.next();
      }
      wgmma_wait<0>(sums);
      if (thread_index() % kWarp == 0) mbarrier_arrive(stages.empty[before.stage]);
    }
    if constexpr (kPlainResults) {
      store_plain_rows<Out>(p, work, consumer, sums, staged);
    } else {
      store_rows(p, work, consumer, sums, staged);
    }
  }
}

template <class Tiles>
QUERN_DEVICE void run_roles(const GemmParams& p, const TensorMap& map_a, const TensorMap& map_b, const Tiles& tiles, u8* shared, Stages& stages) {
  const i32 group = thread_index() / kGroupThreads;
  if (group == kConsumers) {
    registers_shrink<40>();
    if (thread_index() % kGroupThreads == 0) copy_tiles(p, map_a, map_b, tiles, shared, stages);
  } else {
    registers_grow<kConsumers == 2 ? 232 : 240>();
    auto* staged = reinterpret_cast<f32*>(shared + kStages * (kABytes + kBBytes)) + warp() * (8 * kSlicePitch * (kGate && kTileN != kSliceN ? 2 : 1));
    multiply_tiles(p, tiles, group, shared, stages, staged);
  }
}

}  // namespace q

QUERN_KERNEL(quern_gemm_warpgroups, THREADS, 1, QUERN_PARAM q::GemmParams p, QUERN_PARAM q::TensorMap map_a, QUERN_PARAM q::TensorMap map_b) {
  using namespace q;
  QUERN_SHARED(Stages, stages, 1);
  u8* shared = tile_shared();
  if (thread_index() == 0) {
    prefetch_tensor_map(map_a);
    prefetch_tensor_map(map_b);
    for (i32 i = 0; i < kStages; ++i) {
      mbarrier_init(stages[0].full[i], 1);
      mbarrier_init(stages[0].empty[i], kConsumers * 4);
    }
    fence_mbarrier_init();
  }
  sync_block();
  launch_next_grid();
  wait_for_previous_grid();
  if constexpr (kGrouping != kDense) {
    QUERN_SHARED(Experts, experts, 1);
    list_experts(p, experts[0]);
    run_roles(p, map_a, map_b, ExpertTiles(p, experts[0]), shared, stages[0]);
  } else {
    run_roles(p, map_a, map_b, DenseTiles(p), shared, stages[0]);
  }
}
