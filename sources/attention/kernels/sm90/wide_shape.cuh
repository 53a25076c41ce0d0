// The compile-time shape of the kernel for wide heads: who is who in a pair of blocks of threads, and what lies where
// in shared memory.
//
// A cluster of two blocks has a tile of rows. Its consumers, two warpgroups in each block, are sources of weights and
// owners of columns of the result:
//
//   tall   128 rows: warpgroup g of both blocks has rows 64 g and on. Block b makes the weights of every second block
//          of keys, and owns half of the columns.
//   else   64 rows: each of the four warpgroups makes the weights of every fourth block of keys, and owns a quarter of
//          the columns.
//
// So scores are computed once, nobody holds the sums of more than 256 columns, and what the blocks exchange are weights
// of 16 bits. Keys and values come by spans of 64 columns, so that beside the queries shared memory does not grow with
// the dims. Of the last warpgroup a warp, or one for each ring, copies keys and values, others copy queries, and one of
// the first block tells what to work on.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "attention/kernels/sm90/tasks.cuh"

namespace q {

static_assert(!kEights && kConsumers == 2 && kBlock == 64 && THREADS == 384);
inline constexpr bool kTall = kRows == kConsumers * 64;
static_assert(kTall || kRows == 64);
inline constexpr int kSources = kTall ? 2 : 4;
inline constexpr int kColumns = div_up(div_up(kDimV, kSources), 8) * 8;  // of an owner
inline constexpr int kColumnSpans = div_up(kColumns, 64);
static_assert(kColumns <= 256, "an owner's sums have room in its registers");

// Stages of so many spans of a block of keys or values. Tall tiles have one ring, which both consumers read; else each
// consumer has its own, of smaller stages.
inline constexpr int kRings = kTall ? 1 : 2, kStageSpans = kTall ? 2 : 1, kStages = STAGES / kStageSpans;
inline constexpr int kSpanTile = kBlock * kSpanBytes, kStageBytes = kStageSpans * kSpanTile;
inline constexpr int kProducerRegisters = 40, kConsumerRegisters = 232;
static_assert(kConsumers * kConsumerRegisters + kProducerRegisters <= 3 * (65536 / THREADS / 8 * 8));

// The warps of the last warpgroup.
inline constexpr int kCopyWarps = kRings, kQueryWarps = 3 - kRings, kQueryWarp = kCopyWarps, kScheduleWarp = 3;

// Weights as consumers hand them over: 64 rows of a block of keys, and for each row the maximum that they are relative
// to. Those of a tall tile come from the other block, for each consumer its own; else each source's have a place.
inline constexpr int kHandovers = kTall ? kConsumers : kSources;
inline constexpr int kWeightBytes = 64 * kSpanBytes;
static_assert(kBlock * 2 == kSpanBytes);
inline constexpr u32 kRowBytes = 64 * sizeof(f32);

struct Shared {
  static constexpr bool kPaired = true;
  PipelineBarriers<kTasks> task;
  PipelineBarriers<1> queries;
  PipelineBarriers<kRings * kStages> stages;  // ring after ring
  Mbarrier weights[kHandovers];               // they have come
  Mbarrier taken[kConsumers];                 // all who need them have read what this block's consumers gave last
  Mbarrier nearly_copied;
  Task tasks[kTasks];
  ScheduleScratchOf<SchedulingWarp<kPaired>> schedule;
  i32 flag;
  f32 rows[kHandovers][64];

  // By one thread. Whoever is told of tasks in either block answers to the first one.
  QUERN_DEVICE void init() {
    constexpr u32 kToldWarps = 4 * kConsumers + kCopyWarps + kQueryWarps, kGroupWarps = 4;
    task.init(1, 2 * kToldWarps);
    queries.init(kQueryWarps * kWarp, kGroupWarps * kConsumers);
    stages.init(1, kGroupWarps * kConsumers / kRings);
    QUERN_ROLLED for (int i = 0; i < kHandovers; ++i) {
      const bool here = !kTall && static_cast<u32>(i) / kConsumers == cluster_rank();
      mbarrier_init(weights[i], here ? kGroupWarps : 1);
    }
    QUERN_ROLLED for (int i = 0; i < kConsumers; ++i) mbarrier_init(taken[i], kGroupWarps * (kSources - 1));
    mbarrier_init(nearly_copied, 1);
    fence_mbarrier_init();
  }
};
static_assert(sizeof(Shared) <= kWideStaticBytes);
using Told = ToldOf<Shared>;

// Dynamic shared memory: a tile of queries, the rings, and weights that are handed over.
struct Tiles {
  u8* queries;
  u8* stages;
  u8* weights;
};
QUERN_DEVICE Tiles tiles_at(u8* base) {
  u8* const stages = base + kQueryBytes;
  return {base, stages, stages + kRings * kStages * kStageBytes};
}

// The blocks of keys of a task are taken from the last to the first, kSources at a time: of those from `top` down
// source s takes top - s, where there is one.
QUERN_DEVICE i32 block_of(i32 top, i32 source) { return top - source; }

}  // namespace q
