// The compile-time shape of the warp-specialised kernel: who is who in a block of threads, and what lies where in
// shared memory.
//
// The first CONSUMERS warpgroups multiply, 64 rows of a tile each. Of the last one a warp copies keys and values by
// tensor map, two warps copy queries, and one finds out what the block works on next and tells the others. Where
// products are of 8 bits a further warpgroup turns values: as the second operand they must lie with their keys side by
// side.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "attention/kernels/shared/combine.cuh"
#include "attention/kernels/sm90/room.cuh"
#include "common/sm90/accumulator.cuh"
#include "common/sm90/pipeline.cuh"
#include "common/sm90/wgmma.cuh"

namespace q {

inline constexpr int kGroupThreads = 128;
inline constexpr int kConsumers = CONSUMERS;
inline constexpr int kStages = STAGES;             // blocks of keys, and of values
inline constexpr int kQueryStages = QUERY_STAGES;  // tiles of queries
// What is multiplied: all of 8 bits, or all of 16.
inline constexpr bool kEights = sizeof(QueryElement) == 1;
static_assert(sizeof(CacheElement) == sizeof(QueryElement) && (!kEights || (!kTokenScales && kBlock == kTurnedKeys)));
inline constexpr int kOperandBytes = static_cast<int>(sizeof(QueryElement));
inline constexpr int kTurners = kEights ? 1 : 0;  // warpgroups
inline constexpr int kProducerRegisters = kConsumers == 3 ? 32 : 40, kTurnerRegisters = 40;
inline constexpr int kConsumerRegisters = kConsumers == 3 ? 160 : kEights ? 216 : 232;
static_assert(THREADS == (kConsumers + 1 + kTurners) * kGroupThreads && kRows == kConsumers * 64);
// More than the block began with would never come: the compiler gives each thread registers by eights.
static_assert(kConsumers * kConsumerRegisters + kProducerRegisters + kTurners * kTurnerRegisters <=
              (kConsumers + 1 + kTurners) * (65536 / THREADS / 8 * 8));
static_assert(kQueryStages == 1 || kQueryStages == 2);
static_assert(kBlock % 16 == 0, "a product takes 16 keys at once");

// The warps of the last warpgroup.
inline constexpr int kCopyWarp = 0, kQueryWarp = 1, kQueryWarps = 2, kScheduleWarp = 3;

// Tiles lie as spans of 128 bytes, of all their rows, swizzled by 128 bytes.
inline constexpr int kSpansK = spans_of(kDimK, kOperandBytes), kSpansV = spans_of(kDimV, kOperandBytes);
inline constexpr int kSpanElements = kSpanBytes / kOperandBytes, kChunkElements = 16 / kOperandBytes;
// Steps of the product of queries and keys, 32 bytes each, and of the product of weights and values.
inline constexpr int kProductsK = div_up(kDimK * kOperandBytes, 32), kProductsV = kBlock * kOperandBytes / 32;
// Weights are of the result's type, or e4m3.
template <bool eights>
struct WeightOf {
  using Type = Element;
};
template <>
struct WeightOf<true> {
  using Type = e4m3;
};
using Weight = WeightOf<kEights>::Type;
inline constexpr int kQueryBytes = kSpansK * kRows * kSpanBytes;
inline constexpr int kKeyBytes = kSpansK * kBlock * kSpanBytes, kValueBytes = kSpansV * kBlock * kSpanBytes;
inline constexpr int kTurnedBytes = kEights ? kDimV * kSpanBytes : 0;
// One box of a copy by tensor map: the keys of a block that share a page.
inline constexpr int kBoxKeys = PAGED ? box_keys(PAGE_SIZE, kBlock) : kBlock, kBoxes = kBlock / kBoxKeys;
static_assert(kBlock % kBoxKeys == 0 && kBoxKeys % 8 == 0, "a box begins where a swizzle's pattern does");
static_assert(kBoxes * kSpansK <= kWarp && kBoxes * kSpansV <= kWarp, "each lane copies one box");

// Barriers by number; 0 is the block's. A consumer's turn to issue products, its own 128 threads, all consumers, those
// who turn.
inline constexpr int kTurnBarrier = 1, kGroupBarrier = kTurnBarrier + kConsumers,
                     kConsumersBarrier = kGroupBarrier + kConsumers;
// Where registers have room for two blocks of weights those of a block are made while those of the one before are
// multiplied, and scores stay what they are until then.
inline constexpr bool kTwoWeights = TWO_WEIGHTS != 0;
static_assert(!kTwoWeights || (!kEights && kQueryStages == 2));
// Three consumers take turns at issuing products.
inline constexpr bool kTurns = kConsumers == 3;

// The consumers as a team.
struct Consumers {
  static constexpr int kThreads = kConsumers * kGroupThreads;
  QUERN_DEVICE static int index() { return thread_index(); }
  QUERN_DEVICE static void sync() { sync_named(kConsumersBarrier, kThreads); }
};

// What the block works on: a piece of an item, and those of its blocks of keys that any of the tile's rows sees.
struct Task {
  Sequence sequence;
  Piece piece;  // count 0: there is no further task
  i32 begin, end;
};
inline constexpr int kTasks = 2;
// A block draws its next task when it has so many blocks of keys of the present one yet to copy: late, so that those
// that are done first take more, but soon enough for the next queries to be there in time.
inline constexpr i32 kDrawAhead = 4;
// Each warp that is told of tasks arrives once when it has read one.
inline constexpr u32 kToldWarps = 4 * kConsumers + 1 + kQueryWarps + 4 * kTurners;

struct Shared {
  PipelineBarriers<kTasks> task;
  PipelineBarriers<kQueryStages> queries;
  PipelineBarriers<kStages> keys, values;
  PipelineBarriers<kTurnedStages> turned;
  Mbarrier nearly_copied;  // completes once for each task
  Task tasks[kTasks];
  ScheduleScratchOf<OneWarp> schedule;
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

// The tasks as one warp is told of them.
struct Told {
  Shared* shared;
  SharedArray<Mbarrier> full, empty;
  PipelineState<kTasks> state;

  QUERN_DEVICE explicit Told(Shared* s) : shared(s), full(s->task.full), empty(s->task.empty) {}

  // Waits for the next task, and leaves it in place until done() is called.
  QUERN_DEVICE const Task& next() {
    await(full, state);
    return shared->tasks[state.stage];
  }
  // The one after it.
  QUERN_DEVICE const Task& peek() {
    PipelineState<kTasks> after = state;
    after.next();
    await(full, after);
    return shared->tasks[after.stage];
  }
  QUERN_DEVICE void done() {
    sync_warp();
    if (elect_one()) mbarrier_arrive(empty, state.stage);
    state.next();
  }
};

}  // namespace q
