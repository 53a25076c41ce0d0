// Shared memory of the kernel for few rows and caches of 8 bits.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mla_decode/kernels/sm90/lookup.cuh"

namespace q {

// A number of 8 bits holds four digits of a number of 8 or 11.
template <class T>
inline constexpr int kFewParts = 2;
template <>
inline constexpr int kFewParts<f16> = 3;

inline constexpr int kGroups = few_groups(kPlain), kGroupThreads = 128, kConsumers = kGroups * kGroupThreads;
inline constexpr int kColumns = kLatent + kRope;
// Numbers of 8 bits that make one of a query, each kPartUnit times smaller than the one before, and the largest of
// which lie below twice kQueryUnit: the largest that is less than a half of e4m3's largest.
inline constexpr int kParts = kFewParts<Element>;
inline constexpr f32 kPartUnit = 16.0f, kQueryUnit = 128.0f;
inline constexpr int kQueryTile = kParts * kRows * 128;
static_assert(kRows == 16 && kBlock == kFewKeys && kLatent == 512 && kRope == 64 && THREADS == few_threads(kPlain) &&
              kWarp == 32 && kKind != CacheKind::rows656);
inline constexpr int kBytes = kPlain ? 2 : 1;  // of a number of the cache
// A slot's keys are tiles of 128 bytes of each, one behind the other, swizzled; the rope part's of 8 bits are a tile of
// 64.
inline constexpr int kFewTile = kPartKeys * 128;
static_assert(kPartKeys * kColumns * kBytes == kFewSlotBytes);

// Named barriers: of all who multiply; of the first two warpgroups; of a warpgroup.
enum Named { kBoth = 1, kTwo = 2, kGroup = 3 };  // kGroup: of the first; the others' follow
// Rows of the tile that a thread has in a product with queries, as columns 0 to 3; `column` is lane % 4.
QUERN_DEVICE int few_row(int column, int i) { return (i >> 1) * 8 + column * 2 + (i & 1); }
// The element of a product of 16 x 16 in the thread's column c, of its row h of two.
QUERN_DEVICE constexpr int element_of(int h, int c) { return (c >> 1) * 4 + h * 2 + (c & 1); }

struct FewTold {
  Mailbox mailbox;
  Mbarrier full[kFewSlots], empty[kFewSlots];
  u64 there[kFewSlots];  // a bit for each key of a slot that is seen; where keys are listed
};
static_assert(sizeof(FewTold) <= kFewToldBytes);

struct Memory {
  u8* at;
  // Part of a block.
  QUERN_DEVICE u8* keys(i32 slot) const { return at + slot * kFewSlotBytes; }
  // Queries of 8 bits, in tiles likewise. Column `column` of row n: the lowest address of a piece of 16 bytes at most.
  QUERN_DEVICE u8* queries(int n, int column) const {
    return at + kFewExchange + column / 128 * kQueryTile + n * 128 + ((column / 16 % 8 ^ (n & 7)) << 4) + column % 16;
  }
  QUERN_DEVICE u8* rope_queries(int n, int column) const {
    return at + kFewExchange + kLatent / 128 * kQueryTile + n * 64 + ((column / 16 ^ (n >> 1 & 3)) << 4) + column % 16;
  }
  // What two warps exchange, where queries are in registers.
  QUERN_DEVICE vec16* exchange(int group, int w) const {
    return reinterpret_cast<vec16*>(at + kFewExchange + (group * 4 + w) * 512);
  }
  // Before there are any, what the sequences have, for who schedules (count_together).
  QUERN_DEVICE i32* chunks() const { return reinterpret_cast<i32*>(at + kFewExchange); }
  // Weights of a half: for each key 16 rows, in two pieces of 16 bytes that change places every four keys.
  QUERN_DEVICE u8* weights(int group, int key, int piece) const {
    return at + kFewWeights + (group * kPartKeys + key) * 32 + ((piece ^ (key >> 2 & 1)) << 4);
  }
  // What a group gives away of a warp's results, once neither queries nor weights are needed: a half each of two, or
  // all of one.
  QUERN_DEVICE vec16* merged(int group, int w) const {
    return reinterpret_cast<vec16*>(at + kFewExchange + (group * 4 + w) * 4096);
  }
  QUERN_DEVICE f32* numbers() const { return reinterpret_cast<f32*>(at + kFewNumbers); }
  // A row's maxima, and at last its sums, of a group's four warps; what its weights are relative to.
  QUERN_DEVICE f32* of_warps(int group, int row) const { return numbers() + (group * kRows + row) * 4; }
  QUERN_DEVICE f32* totals(int group, int row) const { return numbers() + ((kGroups + group) * kRows + row) * 4; }
  QUERN_DEVICE f32* bases(int group) const { return numbers() + (8 * kGroups + group) * kRows; }
  // The largest number of a row's queries.
  QUERN_DEVICE f32* largest() const { return numbers() + 9 * kGroups * kRows; }
  QUERN_DEVICE f32* scales(i32 slot) const { return numbers() + (9 * kGroups + 1) * kRows + slot * kPartKeys; }
  QUERN_DEVICE FewTold& told() const { return *reinterpret_cast<FewTold*>(at + kFewTold); }
};

}  // namespace q
