// The shared memory that a row's last steps work in, and reductions over the block there.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "sample/kernels/edits.cuh"

namespace q {

inline constexpr int kBinsEach = 4, kBins = kThreads * kBinsEach;
inline constexpr int kBinBits = 10;
static_assert(kBins >= 1 << kBinBits);
inline constexpr i32 kList = 2048;  // tokens that are kept in shared memory

// Shared memory that the last block of a row works in.
struct Room {
  u32* counts;   // [kBins]
  u64* weights;  // [kBins]
  Place* few;    // [kThreads]
  u64* scratch;  // [kThreads / kWarp + 4]
  Place* list;   // [kList]
  u32* total;    // [1]
};

enum class How : int { sum, max, min };
QUERN_CALLED u64 reduce(u64* scratch, u64 v, How how) {
  const auto op = [how](u64 a, u64 b) { return how == How::sum ? a + b : (how == How::max) == (a > b) ? a : b; };
  v = block_reduce<kThreads>(v, op, scratch);
  sync_block();
  return v;
}
// The sum over the threads below this one; the sum over all is left at scratch[kThreads / kWarp]. Barriers at both ends
// of what it does with scratch.
QUERN_CALLED u64 sum_before(u64* scratch, u64 v) {
  u64 total;
  const u64 before = block_scan<kThreads>(v, scratch, &total);
  if (thread_index() == 0) scratch[kThreads / kWarp] = total;
  sync_block();
  return before;
}
template <class T>
QUERN_DEVICE T reduce_sum(const Room& room, T v) {
  return static_cast<T>(reduce(room.scratch, v, How::sum));
}
template <class T>
QUERN_DEVICE T reduce_max(const Room& room, T v) {
  return static_cast<T>(reduce(room.scratch, v, How::max));
}
template <class T>
QUERN_DEVICE T reduce_min(const Room& room, T v) {
  return static_cast<T>(reduce(room.scratch, v, How::min));
}

}  // namespace q
