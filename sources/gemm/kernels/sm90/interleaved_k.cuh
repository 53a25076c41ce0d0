// Common parts of the Hopper kernels for few rows and narrow tiles (small_m.cuh, split_k.cuh). A consumer warpgroup
// multiplies 64 rows of a. Several of them either take the k blocks of a tile in turn (interleaved k: small_m.cuh) or
// have different columns of the tile (split_k.cuh). One producer warp copies a and b by TMA, two load scales.
//
// The tensor cores keep about 14 bits of sums of 8-bit products, so after each 128 of k they are added to f32
// accumulators in registers.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/registers/warpgroup_sums.cuh"
#include "gemm/kernels/shared/epilogue.cuh"
#include "gemm/kernels/shared/pipeline.cuh"
#include "gemm/kernels/sm90/small_m_scales.cuh"

namespace q {

inline constexpr i32 kGroupThreads = 128;
inline constexpr i32 kScaleWarps = 2;
inline constexpr i32 kConsumers = kThreads / kGroupThreads, kConsumerThreads = kConsumers * kGroupThreads;
inline constexpr i32 kCopyWarp = 4 * kConsumers, kFirstScaleWarp = kCopyWarp + 1;
// Warpgroups that multiply a k block together, and how many such teams take the k blocks in turn.
inline constexpr i32 kRowGroups = kTileM / 64, kColumnGroups = COLUMN_GROUPS, kTogether = kRowGroups * kColumnGroups;
inline constexpr i32 kInterleaved = kConsumers / kTogether, kGroupN = kTileN / kColumnGroups;
static_assert(kThreads == kConsumerThreads + (1 + kScaleWarps) * kWarp && kTileM == kRowGroups * 64 &&
              kConsumers == kTogether * kInterleaved);
static_assert(kGrouping == kDense && kBlockK * sizeof(ElementB) == 128 && kOutTileN % 8 == 0 &&
              (!kBlockScale || 128 % kOutTileN == 0));
// A stage is always used by the same team of warpgroups, which therefore waits for each of its phases. If teams shared
// a stage, one could mistake the phase of another's k block for its own.
static_assert(kStages % kInterleaved == 0);
// Every stage has 128 bytes of k of each row of b. The a of a k block, 128 bytes of each row, lies in a ring of
// kStagesOfA places behind all stages. The ring may be shorter than the pipeline, so that more of b is in flight: b
// comes from global memory, a, which every block reads, from L2. The a and the block scales of a k block reuse the
// place of those kStagesOfA earlier, once these have been multiplied.
inline constexpr i32 kStagesOfA = STAGES_OF_A, kAhead = kStages - kStagesOfA;
static_assert(kAhead >= 0 && kStagesOfA % kInterleaved == 0);
inline constexpr i32 kBBytes = kTileN * 128, kABytes = kTileM * 128,
                     kTileBytes = kStages * kBBytes + kStagesOfA * kABytes;
using StageStateOfA = PipelineState<kStagesOfA>;
// A stage's scales are always loaded by the same warp, unless no k block can overtake another (see copy_scales).
static_assert(kStages % kScaleWarps == 0 || kInterleaved == 1);
inline constexpr i32 kSumCount = kGroupN / 2;  // accumulators of a thread
inline constexpr i32 kSumGroups = div_up(kSumCount, 32);
// The accumulators of a tile, and the products of two k blocks, which are in flight or about to be added to them.
using Sums = WarpgroupSums<0, kSumCount>;
using FirstProducts = WarpgroupSums<kSumGroups, kSumCount>;
using SecondProducts = WarpgroupSums<2 * kSumGroups, kSumCount>;
struct Registers {
  Sums& sums;
  FirstProducts& first;
  SecondProducts& second;
};
inline constexpr bool kPromoted = sizeof(ElementB) == 1;
// With at most so many accumulators a thread has registers left for the products of two k blocks. Blocks of four
// consumer warpgroups need no second set: the warpgroups fill each other's pauses.
inline constexpr i32 kMostPaired = kConsumers > 2 ? 0 : 32;

// How many k blocks' block scales are loaded at a time: as many as fit the registers.
inline constexpr i32 kScaleKBlocks = kRowGroups > 1 ? (kGate ? 2 : 3) : 4;

// The producer warp initialises the few mbarriers that its first copies need and issues these as early as possible;
// another warp initialises the remaining mbarriers meanwhile. Named barriers: kBegun says that the mbarriers of the
// first stages are initialised, kMade tells the producer that all are.
inline constexpr i32 kBegun = 1, kMade = 5, kMadeThreads = 2 * kWarp, kBeginWarp = 0, kMapWarp = 1;
inline constexpr i32 kFirstStages = kStages < 4 ? kStages : 4;

// Each is called by one thread, which then calls fence_mbarrier_init(). A full barrier expects one arrival of the
// producer and, with block scales, one of a scale warp.
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

// The TMA copies of a k block, issued by one thread. Where tiles are narrow the time to issue a copy sets the pace, so
// shared addresses are computed once.
struct Copies {
  const GemmParams& p;
  const TensorMap &map_a, &map_b;
  SharedArray<u8> tiles;
  SharedArray<Mbarrier> stages;  // the full barriers, then the empty ones
  i32 box;                       // rows of a copy of a
  CacheHint hint_of_b;

  QUERN_DEVICE Copies(const GemmParams& params, const TensorMap& a, const TensorMap& b, const u8* shared,
                      const Stages& of)
      : p(params),
        map_a(a),
        map_b(b),
        tiles(shared),
        stages(reinterpret_cast<const Mbarrier*>(&of)),
        box(box_rows(params.m, kTileM)),
        hint_of_b(params.tiles_m > 1 ? CacheHint::normal : CacheHint::evict_first) {}
  QUERN_DEVICE void await_empty(i32 stage, u32 phase) const { mbarrier_wait(stages, kStages + stage, phase); }
  // Copies b of a k block and expects the bytes of its a and b. With one row of tiles b is read once, and L2 need not
  // keep it; with several L2 must keep it until the other tiles of its columns have read it, a little later.
  QUERN_DEVICE void b(const Work& work, i32 k_block, i32 stage) const {
    mbarrier_arrive_expect(stages, stage,
                           static_cast<u32>(kBBytes + copied_rows(work.rows - work.row, box, kTileM) * 128));
    tma_load(tiles, stage * kBBytes, map_b, stages, stage, hint_of_b, k_block * kBlockK, work.column,
             group_of_b(p, work));
    if constexpr (kGate) {
      tma_load(tiles, stage * kBBytes + kBBytes / 2, map_b, stages, stage, hint_of_b, k_block * kBlockK,
               p.n / 2 + work.column, group_of_b(p, work));
    }
  }
  // Copies a of a k block. The boxes may have fewer rows than the tile; the others keep old data, and their results are
  // not stored.
  QUERN_DEVICE void a(const Work& work, i32 k_block, i32 stage, i32 place) const {
    const i32 rows = copied_rows(work.rows - work.row, box, kTileM);
    QUERN_ROLLED for (i32 row = 0; row < rows; row += box) {
      tma_load(tiles, kStages * kBBytes + place * kABytes + row * 128, map_a, stages, stage, CacheHint::normal,
               k_block * kBlockK, work.row + row, group_of_a(p, work));
    }
  }
};

// The scales of a tile's rows and columns, in the registers of a warp.
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

// The factors of a k block's products: for the two rows of a thread, and with a gate for each half.
struct KBlockScales {
  f32 x[kScaleSets][2];

  QUERN_DEVICE void take(const f32* scales, i32 line) {
    QUERN_UNROLL for (i32 s = 0; s < kScaleSets; ++s) {
      QUERN_UNROLL for (i32 h = 0; h < 2; ++h) x[s][h] = scales[s * kTileM + line + 8 * h];
    }
  }
  // The factor of accumulator i.
  QUERN_DEVICE f32 of(i32 i) const { return x[kGate && i >= kSumCount / 2 ? 1 : 0][i >> 1 & 1]; }
};

// A consumer warpgroup: it multiplies the 64 rows from row 64 * group on by the kGroupN columns from column kGroupN *
// side on, for the k blocks k_rank, k_rank + kInterleaved, k_rank + 2 kInterleaved ... of a tile.
struct Consumer {
  i32 group, side, k_rank;

  QUERN_DEVICE explicit Consumer(i32 number)
      : group(number % kRowGroups), side(number / kRowGroups % kColumnGroups), k_rank(number / kTogether) {}
  QUERN_DEVICE i32 number() const { return group + kRowGroups * side + kTogether * k_rank; }
  // The first of the thread's two rows, which are 8 apart, within the tile.
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

// Called by all lanes of a consumer warp that no longer reads a stage.
QUERN_DEVICE void release(Mbarrier& empty) {
  sync_warp();
  if (lane() == 0) mbarrier_arrive(empty);
}

// The pipeline state of a warpgroup that takes every kInterleaved-th k block.
struct OwnKBlocks {
  StageState state;
  StageStateOfA place;

  QUERN_DEVICE i32 stage() const { return state.stage; }
  // The place of a and of block scales.
  QUERN_DEVICE i32 at() const { return kAhead == 0 ? state.stage : place.stage; }
  QUERN_DEVICE void next() {
    state.template advance<kInterleaved>();
    place.template advance<kInterleaved>();
  }
};

// The products of a k block, in flight or about to be added to the accumulators.
template <class Products>
struct KBlockProducts {
  Products& x;
  KBlockScales scales;
  i32 stage;

  QUERN_DEVICE void begin(const Consumer& c, OwnKBlocks& k_blocks, const u8* shared, const f32* block_scales,
                          Stages& stages) {
    stage = k_blocks.stage();
    mbarrier_wait(stages.full[stage], k_blocks.state.phase);
    wgmma_fence();
    c.multiply(x, shared, stage, k_blocks.at(), false);
    if constexpr (kBlockScale) scales.take(block_scales + k_blocks.at() * kScaleCount, c.row());
    k_blocks.next();
  }
  // Waits until at most `under_way` younger products are in flight, frees the stage and adds the products to the
  // accumulators.
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

// Sums a consumer's k blocks of a tile. `state` is the pipeline state of the tile's first k block, `place` that of its
// a and its block scales.
QUERN_DEVICE void sum_k_blocks(const Registers& registers, const Consumer& c, const Work& work, StageState state,
                               StageStateOfA place, const u8* shared, const f32* block_scales, Stages& stages) {
  Sums& sums = registers.sums;
  sums.clear();
  state.skip(c.k_rank);
  place.skip(c.k_rank);
  OwnKBlocks own{state, place};
  i32 left = (work.end_k_block - work.first_k_block - c.k_rank + kInterleaved - 1) / kInterleaved;
  if constexpr (kPromoted && kSumCount <= kMostPaired) {
    // The products of one k block are added while those of the next are in flight. The next one must therefore not wait
    // for the place of the one that is added.
    static_assert(kStagesOfA >= 2 * kInterleaved);
    KBlockProducts<FirstProducts> first{registers.first, {}, 0};
    KBlockProducts<SecondProducts> second{registers.second, {}, 0};
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
    KBlockProducts<FirstProducts> k_block{registers.first, {}, 0};
    QUERN_ROLLED for (; left > 0; --left) {
      k_block.begin(c, own, shared, block_scales, stages);
      k_block.template add_to<0>(sums, stages);
    }
  } else {
    i32 before = -1;
    QUERN_ROLLED for (; left > 0; --left) {
      const i32 stage = own.stage();
      mbarrier_wait(stages.full[stage], own.state.phase);
      // The products of one k block stay in flight while those of the next begin; by then the stage before has been
      // read.
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
