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

// Compiled once: 64 bits take two shuffles a step, and wherever lanes may have parted these stand twice.
QUERN_CALLED f32 sum_of_lanes(f32 v) { return warp_sum(v); }
QUERN_CALLED u64 warp_through(u64 v) { return warp_scan(v); }
QUERN_CALLED u64 of_lane(u64 v, int from) { return shuffle(v, from); }

enum class How : int { sum, max, min };
QUERN_DEVICE u64 reduce_warp(u64 v, How how) {
  return how == How::sum ? warp_total(v) : how == How::max ? warp_most(v) : ~warp_most(~v);
}
QUERN_CALLED u64 reduce(u64* scratch, u64 v, How how) {
  scratch = in_shared(scratch);
  constexpr int kWarps = kThreads / kWarp;
  static_assert(kWarps <= kWarp);
  const u64 nothing = how == How::min ? ~u64{0} : 0;
  QUERN_ROLLED for (int round = 0; round < 2; ++round) {
    v = reduce_warp(v, how);
    if (round == 0 && lane() == 0) scratch[warp()] = v;
    sync_block();
    if (round == 0) v = lane() < kWarps ? scratch[lane()] : nothing;
  }
  return v;
}
// The sum over the threads below this one; the sum over all is left at scratch[kThreads / kWarp]. Barriers at both ends
// of what it does with scratch.
QUERN_CALLED u64 sum_before(u64* scratch, u64 v) {
  scratch = in_shared(scratch);
  constexpr int kWarps = kThreads / kWarp;
  const u64 through = warp_through(v);
  if (lane() == kWarp - 1) scratch[warp()] = through;
  sync_block();
  const u64 sums = warp_through(lane() < kWarps ? scratch[lane()] : u64{0});
  const u64 before = of_lane(sums, warp() == 0 ? 0 : warp() - 1);
  if (thread_index() == kWarps - 1) scratch[kWarps] = sums;
  sync_block();
  return (warp() == 0 ? u64{0} : before) + through - v;
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
