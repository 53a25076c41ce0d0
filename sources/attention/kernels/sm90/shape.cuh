// The compile-time shape of the warp-specialised kernel: who is who in a block of threads, and what lies where in
// shared memory.
//
// The first CONSUMERS warpgroups multiply, 64 rows of a tile each. Of the last one a warp copies keys and values by
// tensor map, or, where pages are small, one copies keys and one values; further ones copy queries, and the last finds
// out what the block works on next and tells the others. Where products are of 8 bits a further warpgroup turns values:
// as the second operand they must lie with their keys side by side.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "attention/kernels/sm90/tasks.cuh"

namespace q {

inline constexpr int kStages = STAGES;  // blocks of keys, and of values
static_assert(!kEights || (!kTokenScales && kBlock == kTurnedKeys));
inline constexpr int kTurners = kEights ? 1 : 0;  // warpgroups
inline constexpr int kProducerRegisters = kConsumers == 3 ? 32 : 40, kTurnerRegisters = 40;
inline constexpr int kConsumerRegisters = kConsumers == 3 ? 160 : kEights ? 216 : 232;
static_assert(THREADS == (kConsumers + 1 + kTurners) * kGroupThreads && kRows == kConsumers * 64);
// More than the block began with would never come: the compiler gives each thread registers by eights.
static_assert(kConsumers * kConsumerRegisters + kProducerRegisters + kTurners * kTurnerRegisters <=
              (kConsumers + 1 + kTurners) * (65536 / THREADS / 8 * 8));

// The warps of the last warpgroup.
inline constexpr int kCopyWarps = COPY_WARPS, kQueryWarp = kCopyWarps, kQueryWarps = 3 - kCopyWarps, kScheduleWarp = 3;

inline constexpr int kSpansV = spans_of(kDimV, kOperandBytes);
inline constexpr int kKeyBytes = kSpansK * kBlock * kSpanBytes, kValueBytes = kSpansV * kBlock * kSpanBytes;
inline constexpr int kTurnedBytes = kEights ? kDimV * kSpanBytes : 0;
static_assert(kBoxes * kSpansK <= kWarp && kBoxes * kSpansV <= kWarp, "each lane copies one box");

// Where registers have room for two blocks of weights those of a block are made while those of the one before are
// multiplied, and scores stay what they are until then.
inline constexpr bool kTwoWeights = TWO_WEIGHTS != 0;
static_assert(!kTwoWeights || (!kEights && kQueryStages == 2));
// Three consumers take turns at issuing products.
inline constexpr bool kTurns = kConsumers == 3;

// Each warp that is told of tasks arrives once when it has read one.
inline constexpr u32 kToldWarps = 4 * kConsumers + kCopyWarps + kQueryWarps + 4 * kTurners;

struct Shared {
  static constexpr bool kPaired = false;
  PipelineBarriers<kTasks> task;
  PipelineBarriers<kQueryStages> queries;
  PipelineBarriers<kStages> keys, values;
  PipelineBarriers<kTurnedStages> turned;
  Mbarrier nearly_copied;  // completes once for each task
  Task tasks[kTasks];
  ScheduleScratchOf<SchedulingWarp<kPaired>> schedule;
  i32 flag;

  // By one thread.
  QUERN_DEVICE void init() {
    task.init(1, kToldWarps);
    queries.init(kQueryWarps * kWarp, 4 * kConsumers);
    keys.init(1, 4 * kConsumers);
    values.init(1, kEights ? 4 : 4 * kConsumers);
    if (kEights) turned.init(4, 4 * kConsumers);
    mbarrier_init(nearly_copied, 1);
    fence_mbarrier_init();
  }
};
static_assert(sizeof(Shared) <= kStaticBytes);

// Dynamic shared memory: kQueryStages tiles of queries, kStages of keys and of values, and turned ones.
struct Tiles {
  u8* queries;
  u8* keys;
  u8* values;
  u8* turned;
};
QUERN_DEVICE Tiles tiles_at(u8* base) {
  u8* const keys = base + kQueryStages * kQueryBytes;
  u8* const values = keys + kStages * kKeyBytes;
  return {base, keys, values, values + kStages * kValueBytes};
}

using Told = ToldOf<Shared>;

}  // namespace q
