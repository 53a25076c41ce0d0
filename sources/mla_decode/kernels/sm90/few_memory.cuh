// Shared memory of the kernel for few rows and caches of 8 bits.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mla_decode/kernels/sm90/lookup.cuh"

namespace q {

inline constexpr int kConsumers = 256, kGroupThreads = 128;
inline constexpr int kColumns = kLatent + kRope;
inline constexpr int kRawRow = kColumns;  // bytes
static_assert(kRows == 16 && kBlock == kFewKeys && kLatent == 512 && kRope == 64 && THREADS == kFewThreads &&
              kWarp == 32);
static_assert(kKind == CacheKind::e4m3_tensor || kKind == CacheKind::e4m3_token);

// Where piece `piece` (of 16 bytes) of a row lies in it: eight rows of 576 bytes begin in two places of 128 bytes, so
// pieces change places within four of them, by bits 1 and 2 of the row's number.
QUERN_DEVICE u32 place_of_piece(int piece, int turn) { return static_cast<u32>((piece ^ turn) << 4); }

struct FewTold {
  Mailbox mailbox;
  Mbarrier full[kFewSlots], empty[kFewSlots];
  u64 there[kFewSlots];  // a bit for each key of a slot that is seen; where keys are listed
};
static_assert(sizeof(FewTold) <= kFewToldBytes);

struct Memory {
  u8* at;
  // Half a block as it lies in the cache.
  QUERN_DEVICE u8* keys(i32 slot) const { return at + slot * kFewSlotBytes; }
  // What two warps exchange; before there is any, the units of the sequences, for who schedules.
  QUERN_DEVICE vec16* exchange(int w) const { return reinterpret_cast<vec16*>(at + kFewExchange + w * 1024); }
  QUERN_DEVICE i32* chunks() const { return reinterpret_cast<i32*>(at + kFewExchange); }
  // Weights of a half: for each key 16 rows, in two pieces of 16 bytes that change places every four keys.
  QUERN_DEVICE u8* weights(int group, int key, int piece) const {
    return at + kFewWeights + (group * kHalfBlock + key) * 32 + ((piece ^ (key >> 2 & 1)) << 4);
  }
  // What a group gives away of a warp's results, once neither of these two is needed.
  QUERN_DEVICE vec16* merged(int group, int w) const {
    return reinterpret_cast<vec16*>(at + kFewExchange + (group * 4 + w) * 4096);
  }
  QUERN_DEVICE f32* numbers() const { return reinterpret_cast<f32*>(at + kFewNumbers); }
  // A row's maxima, and at last its sums, of a group's four warps; what its weights are relative to.
  QUERN_DEVICE f32* of_warps(int group, int row) const { return numbers() + (group * kRows + row) * 4; }
  QUERN_DEVICE f32* totals(int group, int row) const { return numbers() + ((2 + group) * kRows + row) * 4; }
  QUERN_DEVICE f32* bases(int group) const { return numbers() + (16 + group) * kRows; }
  // The largest number of a row's queries, of each half of the columns.
  QUERN_DEVICE f32* largest(int group) const { return numbers() + (18 + 2 * group) * kRows; }
  QUERN_DEVICE f32* scales(i32 slot) const { return numbers() + 22 * kRows + slot * kHalfBlock; }
  QUERN_DEVICE FewTold& told() const { return *reinterpret_cast<FewTold*>(at + kFewTold); }
};

}  // namespace q
