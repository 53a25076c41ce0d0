// Shared memory of the kernel of 64 rows whose keys are gathered.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mla_decode/kernels/sm90/weights.cuh"

namespace q {

inline constexpr int kConsumers = 2 * kGroupThreads;
static_assert(THREADS == kRows64Threads);

// Named barriers: the weights of block 0 and of block 1 are there; one of each warpgroup; one of both; block 0's maxima
// are there; a warpgroup's own weights are there.
enum Named { kWeights0 = 1, kWeights1 = 2, kOwn = 3, kBoth = 5, kBase = 6, kStored = 7 };

struct Barriers {
  Mbarrier full[2];
  Mbarrier empty[2][2];  // each half of each block; all blocks of threads of a cluster arrive
};

struct Told {
  Barriers barriers;
  Mailbox mailbox;
  u64 there[2];  // a bit for each key of a block that its rows see; where keys are listed
};
static_assert(sizeof(Told) <= kRows64Told && kCountedChunks * 4 <= kRows64Numbers);

// Shared memory, by where it begins.
struct Memory {
  u8* at;
  QUERN_DEVICE u8* queries() const { return at; }
  QUERN_DEVICE u8* keys(int block) const { return at + (1 + block) * kBlockBytes; }
  QUERN_DEVICE f32* numbers(int i) const { return reinterpret_cast<f32*>(at + 3 * kBlockBytes) + i * kRows; }
  // The rows' maxima as block 0's and as block 1's logits left them; the sums of each warpgroup's weights.
  QUERN_DEVICE f32* base(int block) const { return numbers(block); }
  QUERN_DEVICE f32* sum(int group) const { return numbers(2 + group); }
  // Before there are any: the units of the sequences, for who schedules.
  QUERN_DEVICE i32* chunks() const { return reinterpret_cast<i32*>(numbers(0)); }
  QUERN_DEVICE Told& told() const { return *reinterpret_cast<Told*>(at + 3 * kBlockBytes + kRows64Numbers); }
  QUERN_DEVICE Barriers& barriers() const { return told().barriers; }
};

// The blocks of threads of a cluster, which take the same keys: two, or one where the launch has no cluster.
struct Peers {
  u32 count, rank;
  QUERN_DEVICE Peers() : count(kPaired ? cluster_size() : 1), rank(kPaired ? cluster_rank() : 0) {}
  // The other's rank; its own where there is none.
  QUERN_DEVICE u32 other() const { return count == 1 ? 0 : rank ^ 1; }
};
// Warps that release a half of a block of keys: this block's and the other's. Where there is no other, this one's
// twice.
inline constexpr u32 kReleases = (kPaired ? 2 : 1) * kGroupThreads / kWarp;

}  // namespace q
