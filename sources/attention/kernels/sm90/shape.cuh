// The compile-time shape of the warp-specialised kernel: who is who in a block of threads, and what lies where in
// shared memory.
//
// The first CONSUMERS warpgroups multiply, 64 rows of a tile each. Of the last one a warp copies keys and values by
// tensor map, or, where pages are small, one copies keys and one values; further ones copy queries, and the last finds
// out what the block works on next and tells the others. Where products are of 8 bits a further warpgroup turns values:
// as the second operand they must lie with their keys side by side. Where products are of 16 bits and the cache of 8 a
// further one widens both.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "attention/kernels/sm90/tasks.cuh"

namespace q {

inline constexpr int kStages = STAGES;  // blocks of keys, and of values
static_assert(!kEights || kBlock == kTurnedKeys);
inline constexpr int kHelpers = kEights || kWidened ? 1 : 0;  // warpgroups that turn or widen
// Consumers that have two blocks of weights while others widen take more than is left beside others of 40.
inline constexpr bool kManyRegisters = kWidened && TWO_WEIGHTS != 0 && kDimV / 2 + kBlock > 160;
inline constexpr int kProducerRegisters = kConsumers == 3 || kManyRegisters ? 32 : 40;
inline constexpr int kHelperRegisters = kManyRegisters ? 32 : 40;
inline constexpr int kConsumerRegisters = kConsumers == 3 ? 160 : kManyRegisters ? 224 : kHelpers != 0 ? 216 : 232;
static_assert(THREADS == (kConsumers + 1 + kHelpers) * kGroupThreads && kRows == kConsumers * 64);
// More than the block began with would never come: the compiler gives each thread registers by eights.
static_assert(kConsumers * kConsumerRegisters + kProducerRegisters + kHelpers * kHelperRegisters <=
              (kConsumers + 1 + kHelpers) * (65536 / THREADS / 8 * 8));

// The warps of the last warpgroup.
inline constexpr int kCopyWarps = COPY_WARPS, kQueryWarp = kCopyWarps, kQueryWarps = 3 - kCopyWarps, kScheduleWarp = 3;

inline constexpr int kSpansV = spans_of(kDimV, kOperandBytes);
inline constexpr int kKeyBytes = kSpansK * kBlock * kSpanBytes, kValueBytes = kSpansV * kBlock * kSpanBytes;
inline constexpr int kTurnedBytes = kEights ? kDimV * kSpanBytes : 0;
// Blocks as they are copied: what is multiplied, or codes that are widened from there.
#ifndef CODE_STAGES
#define CODE_STAGES 0
#endif
inline constexpr int kCopyStages = kWidened ? CODE_STAGES : kStages;
inline constexpr int kCopySpansK = spans_of(kDimK, kCacheBytes), kCopySpansV = spans_of(kDimV, kCacheBytes);
inline constexpr int kCopySpanElements = kSpanBytes / kCacheBytes;
inline constexpr int kCodeBytesK = kWidened ? kCopySpansK * kBlock * kSpanBytes : 0;
inline constexpr int kCodeBytesV = kWidened ? kCopySpansV * kBlock * kSpanBytes : 0;
static_assert(kBoxes * kCopySpansK <= kWarp && kBoxes * kCopySpansV <= kWarp, "each lane copies one box");

// Where registers have room for two blocks of weights those of a block are made while those of the one before are
// multiplied, and scores stay what they are until then.
inline constexpr bool kTwoWeights = TWO_WEIGHTS != 0;
static_assert(!kTwoWeights || kQueryStages == 2);

// Each warp that is told of tasks arrives once when it has read one.
inline constexpr u32 kToldWarps = 4 * kConsumers + kCopyWarps + kQueryWarps + 4 * kHelpers;

// Of blocks of codes, and of the scales of tokens that lie beside a stage of keys: these are free when the logits of
// the keys have become weights.
template <bool widened>
struct CodeBarriers {
  QUERN_DEVICE void init_codes() {}
};
template <>
struct CodeBarriers<true> {
  PipelineBarriers<kCopyStages> key_codes, value_codes;
  Mbarrier scales_read[kStages];
  f32 largest_scales[kStages][4];  // of values, by each warp that widens

  QUERN_DEVICE void init_codes() {
    key_codes.init(1, 4);
    value_codes.init(1, 4);
    QUERN_UNROLL for (int i = 0; i < kStages; ++i) mbarrier_init(scales_read[i], 4 * kConsumers);
  }
};

struct Shared : CodeBarriers<kWidened> {
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
    keys.init(kWidened ? 4 : 1, 4 * kConsumers);
    values.init(kWidened ? 4 : 1, kEights ? 4 : 4 * kConsumers);
    if (kEights) turned.init(4, 4 * kConsumers);
    init_codes();
    mbarrier_init(nearly_copied, 1);
    fence_mbarrier_init();
  }
};
static_assert(sizeof(Shared) <= kStaticBytes);

// The barriers of what is copied.
template <class S>
QUERN_DEVICE auto& copied_keys(S* shared) {
  if constexpr (kWidened) {
    return shared->key_codes;
  } else {
    return shared->keys;
  }
}
template <class S>
QUERN_DEVICE auto& copied_values(S* shared) {
  if constexpr (kWidened) {
    return shared->value_codes;
  } else {
    return shared->values;
  }
}

// Dynamic shared memory: kQueryStages tiles of queries, kStages of keys and of values, and turned ones; or kCopyStages
// of codes of keys and of values, and the scales of tokens of each stage: of keys, then of values.
struct Tiles {
  u8* queries;
  u8* keys;
  u8* values;
  u8* turned;
  u8* key_codes;
  u8* value_codes;
  f32* scales;
  // Where copies go.
  QUERN_DEVICE u8* copied_keys() const { return kWidened ? key_codes : keys; }
  QUERN_DEVICE u8* copied_values() const { return kWidened ? value_codes : values; }
};
QUERN_DEVICE Tiles tiles_at(u8* base) {
  u8* const keys = base + kQueryStages * kQueryBytes;
  u8* const values = keys + kStages * kKeyBytes;
  u8* const rest = values + kStages * kValueBytes;
  u8* const value_codes = rest + kCopyStages * kCodeBytesK;
  return {base, keys, values, rest, rest, value_codes, reinterpret_cast<f32*>(value_codes + kCopyStages * kCodeBytesV)};
}

using Told = ToldOf<Shared>;

}  // namespace q
