// Shared memory of the kernel of 64 rows whose keys tensor maps copy: two blocks of 64 keys that are filled
// in turn.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/sm90/pipeline.cuh"
#include "mla_decode/kernels/sm90/weights.cuh"

namespace q {

inline constexpr int kStages = kRows64Slots;
inline constexpr int kParts = 5, kRopePart = 4;  // of a block: two tiles each, but for the rope part
inline constexpr int kConsumers = 2 * kGroupThreads, kAll = 3 * kGroupThreads;
static_assert(THREADS == kRows64Threads);

inline constexpr int kHeldTiles = 6;  // of the queries, that are held in registers

// Named barriers: of all that multiply; of those that sum; of the warpgroup that has logits.
enum Named { kEverybody = 1, kBoth = 2, kOwn = 3 };

struct Barriers {
  Mbarrier full[kStages][kParts];
  Mbarrier empty[kStages][2];               // left; right and rope
  Mbarrier weights[kStages];                // of the block's keys are where its rope part was
  Mbarrier finished[2];                     // a task's rows, of every other task
  Mbarrier queries_full, queries_empty[2];  // what goes to registers is there no more; what stays in shared memory
};
struct Told {
  Barriers barriers;
  Mailbox mailbox;
  u32 word;                 // of pairs.cuh
  u32 changed[kStages][4];  // of a warp's rows: whether some have a factor
};
static_assert(sizeof(Told) <= kRows64Told && kCountedChunks * 4 <= kRows64Numbers);

// By where it begins: blocks of keys, queries, numbers, barriers.
struct Memory {
  u8* at;
  QUERN_DEVICE u8* keys(i32 slot) const { return at + slot * kBlockBytes; }
  QUERN_DEVICE u8* queries() const { return at + kStages * kBlockBytes; }
  QUERN_DEVICE f32* numbers(int i) const {
    return reinterpret_cast<f32*>(at + (kStages + 1) * kBlockBytes) + i * kRows;
  }
  // What sums are multiplied with before a slot's block is added.
  QUERN_DEVICE f32* factors(i32 slot) const { return numbers(slot); }
  // A task's maxima and sums of weights, of every other task.
  QUERN_DEVICE f32* bases(i32 turn) const { return numbers(kStages + turn); }
  QUERN_DEVICE f32* totals(i32 turn) const { return numbers(kStages + 2 + turn); }
  // Before there are any: the units of the sequences, for who schedules.
  QUERN_DEVICE i32* chunks() const { return reinterpret_cast<i32*>(numbers(0)); }
  QUERN_DEVICE Told& told() const {
    return *reinterpret_cast<Told*>(at + (kStages + 1) * kBlockBytes + kRows64Numbers);
  }
  QUERN_DEVICE Barriers& barriers() const { return told().barriers; }
};

// Blocks of keys of a task of which some row sees any.
QUERN_DEVICE i32 blocks_of(const Task& t) {
  const i32 end = t.any.last < t.end_key ? t.any.last : t.end_key;
  return shuffle(end > t.key ? quotient(end - t.key + kKeys - 1, kKeys) : 0, 0);
}

}  // namespace q
