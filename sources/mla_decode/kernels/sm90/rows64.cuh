// Shared memory of the kernels of 64 rows.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/sm90/warpgroup.cuh"
#include "mla_decode/kernels/sm90/tasks.cuh"

namespace q {

inline constexpr int kTiles = 9, kRopeTile = 8, kHalf = 4;  // of 64 columns; those of a half of the values
inline constexpr int kParts = 5, kRopePart = 4;             // two tiles each, but for the rope part
inline constexpr int kTileBytes = kRows64Tile, kBlockBytes = kRows64Matrix;
inline constexpr int kGroupThreads = 128, kConsumers = 2 * kGroupThreads;
inline constexpr int kKeys = 64;  // of a block; the schedule counts pairs
// Latent parts of a block that are released, and filled again, together: where one copy fills a part, each by itself.
inline constexpr int kPartsTogether = GATHERED ? 2 : 1;
inline constexpr f32 kSlack = 8.0f;  // by how much a maximum may be left behind, in powers of two: see raise()
static_assert(kRows == 64 && kBlock == 2 * kKeys && kLatent == 512 && kRope == 64);
static_assert(THREADS == kRows64Threads || THREADS == kGather64Threads);

// Part i of a block in the order in which parts are released, copied and multiplied by the queries. Block 0's left half
// comes first: warpgroup 0 adds it as soon as it has made the weights. Block 1's halves are released at the same time,
// so that where parts are released one by one the first of each come first.
QUERN_DEVICE constexpr int part_at(int block, int i) {
  if (i == kRopePart || block == 0) return i;
  return kPartsTogether == 1 ? ((i & 1) ^ 1) * 2 + (i >> 1) : i ^ 2;
}

// Named barriers: the weights of block 0 and of block 1 are there; one of each warpgroup; one of both; block 0's maxima
// are there; a warpgroup's own weights are there.
enum Named { kWeights0 = 1, kWeights1 = 2, kOwn = 3, kBoth = 5, kBase = 6, kStored = 7 };

struct Barriers {
  Mbarrier full[2][kParts];
  Mbarrier queries_full, queries_empty;
  // Of each block its latent parts from left to right. All blocks of a cluster arrive.
  Mbarrier empty[2][kRopePart / kPartsTogether];
};

struct Told {
  Barriers barriers;
  Mailbox mailbox;
  u32 word;      // of pairs.cuh
  u64 there[2];  // a bit for each key of a block that its rows see; where keys are listed
};
static_assert(sizeof(Told) <= kRows64Told && kCountedChunks * 4 <= kRows64Numbers);

// Piece `piece` (of 16 bytes) of row `row` of a swizzled tile.
QUERN_DEVICE u32 place_in_tile(i32 row, i32 piece) { return static_cast<u32>(row * 128 + ((piece ^ (row & 7)) << 4)); }

// Shared memory, by where it begins.
struct Memory {
  u8* at;
  QUERN_DEVICE u8* queries() const { return at; }
  QUERN_DEVICE u8* keys(int block) const { return at + (1 + block) * kBlockBytes; }
  QUERN_DEVICE f32* numbers(int i) const { return reinterpret_cast<f32*>(at + 3 * kBlockBytes) + i * kRows; }
  // The rows' maxima as block 0's and as block 1's logits left them; the sums of each warpgroup's weights.
  QUERN_DEVICE f32* base(int block) const { return numbers(block); }
  QUERN_DEVICE f32* sum(int group) const { return numbers(2 + group); }
  // Before there are any: what the sequences have, for who schedules (count_together).
  QUERN_DEVICE i32* chunks() const { return reinterpret_cast<i32*>(numbers(0)); }
  QUERN_DEVICE Told& told() const { return *reinterpret_cast<Told*>(at + 3 * kBlockBytes + kRows64Numbers); }
  QUERN_DEVICE Barriers& barriers() const { return told().barriers; }
  // Where keys are gathered: four numbers of a thread that looks them up.
  QUERN_DEVICE i32* lookups(i32 thread) const {
    return reinterpret_cast<i32*>(at + 3 * kBlockBytes + kRows64Numbers + kRows64Told) + 4 * thread;
  }
};

// The part of a matrix descriptor that changes is its low word.
template <Major major>
struct Operand {
  static constexpr u64 kLayout =
      major == Major::k ? k_major_layout(Swizzle::bytes128) : mn_major_layout(Swizzle::bytes128, kKeys);
  u32 low;
  QUERN_DEVICE explicit Operand(const u8* tile) : low(static_cast<u32>(matrix_descriptor(tile, kLayout))) {}
  QUERN_DEVICE u64 at(u32 bytes) const { return (kLayout >> 32 << 32) | (low + (bytes >> 4)); }
};

// The blocks of threads of a cluster, which take the same keys: two, or one where the launch has no cluster.
struct Peers {
  u32 count, rank;
  QUERN_DEVICE Peers() : count(kPaired ? cluster_size() : 1), rank(kPaired ? cluster_rank() : 0) {}
  // The other's rank; its own where there is none.
  QUERN_DEVICE u32 other() const { return count == 1 ? 0 : rank ^ 1; }
};
// All threads: barriers are made, the cluster's other block's, too.
QUERN_DEVICE void all_ready() {
  if (kPaired) {
    sync_cluster();
  } else {
    sync_block();
  }
}
// Warps that release a part of a block of keys: this block's and the other's. Where there is no other, this one's
// twice.
inline constexpr u32 kReleases = (kPaired ? 2 : 1) * kGroupThreads / kWarp;

}  // namespace q
