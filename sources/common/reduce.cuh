// Sums, extrema, scans and histograms over a warp and over a block, for warps of 32 and of 64 lanes, on shuffles alone.
//
//   Warp     warp_reduce(v, op) warp_sum(v) warp_max(v) warp_min(v)
//                                        over all lanes, the result in all of them. All lanes take part. The order of a
//                                        sum is that of a butterfly: always the same for the same warp size
//            warp_total(v) warp_most(v)  sums of 32 or 64 bits, whole numbers, and the largest of 64: by the target's
//                                        instructions where it has them
//            lanes_reduce<lanes>(v, op)  over `lanes` neighbouring lanes, a power of two; likewise
//            warp_scan(v)                sum over this lane and those below
//   Block    block_reduce<threads>(v, op, scratch) block_sum<threads> block_max<threads> block_min<threads>
//                                        over all threads of a block of `threads`, whole warps, the result in all of
//                                        them; likewise always in the same order. `scratch`: threads / kWarp values in
//                                        shared memory
//            block_scan<threads>(v, scratch, &total)
//                                        sum over the threads below this one, and over all
//            Each has one barrier, behind its writes to scratch: before scratch is written again there has to be
//            another, after this call.
//   Histogram
//            bins_zero<threads>(bins, count)
//                                        bins in shared memory; a barrier before they are counted in is the caller's
//            count_in(bins, bin, take)   adds 1 to bins[bin] where `take`; a warp at a time, so that lanes which all
//                                        count in one bin cost one addition, and those of two bins two. All lanes take
//                                        part
//            find_from_top<threads, per_thread>(bins, wanted, scratch)
//                                        the highest bin at which the sum over it and those above reaches `wanted`;
//                                        scratch: threads / kWarp + 4 values. All bins are read, none written; wanted >
//                                        0
//
// T is any type that shuffles: 32 or 64 bits, with + (and < for extrema).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/kernel.cuh"

namespace q {

struct Plus {
  template <class T>
  QUERN_DEVICE T operator()(T a, T b) const {
    return a + b;
  }
};
struct Larger {
  template <class T>
  QUERN_DEVICE T operator()(T a, T b) const {
    return a < b ? b : a;
  }
  QUERN_DEVICE f32 operator()(f32 a, f32 b) const { return fmax(a, b); }
};
struct Smaller {
  template <class T>
  QUERN_DEVICE T operator()(T a, T b) const {
    return b < a ? b : a;
  }
  QUERN_DEVICE f32 operator()(f32 a, f32 b) const { return fmin(a, b); }
};

template <int lanes, class T, class Op>
QUERN_DEVICE T lanes_reduce(T v, Op op) {
  static_assert(lanes <= kWarp && (lanes & (lanes - 1)) == 0, "a power of two, and no more than a warp has");
  QUERN_UNROLL for (int d = 1; d < lanes; d *= 2) v = op(v, shuffle_xor(v, d));
  return v;
}
template <class T, class Op>
QUERN_DEVICE T warp_reduce(T v, Op op) {
  return lanes_reduce<kWarp>(v, op);
}
template <class T>
QUERN_DEVICE T warp_sum(T v) {
  return warp_reduce(v, Plus{});
}
template <class T>
QUERN_DEVICE T warp_max(T v) {
  return warp_reduce(v, Larger{});
}
template <class T>
QUERN_DEVICE T warp_min(T v) {
  return warp_reduce(v, Smaller{});
}
#ifdef QUERN_WARP_EXTREMA  // the target has an instruction for them, and for sums of integers
QUERN_DEVICE u32 warp_sum(u32 v) { return warp_added(v); }
QUERN_DEVICE i32 warp_sum(i32 v) { return static_cast<i32>(warp_added(static_cast<u32>(v))); }
QUERN_DEVICE u32 warp_max(u32 v) { return warp_largest(v); }
QUERN_DEVICE u32 warp_min(u32 v) { return warp_smallest(v); }
QUERN_DEVICE u32 warp_total(u32 v) { return warp_added(v); }
// In three pieces, whose sums have room in 32 bits; the largest by its halves.
QUERN_DEVICE u64 warp_total(u64 v) {
  constexpr int kPiece = 22;
  constexpr u32 kMask = (1u << kPiece) - 1;
  const u32 low = warp_added(static_cast<u32>(v) & kMask), middle = warp_added(static_cast<u32>(v >> kPiece) & kMask),
            high = warp_added(static_cast<u32>(v >> (2 * kPiece)));
  return low + (static_cast<u64>(middle) << kPiece) + (static_cast<u64>(high) << (2 * kPiece));
}
QUERN_DEVICE u64 warp_most(u64 v) {
  const u32 high = warp_largest(static_cast<u32>(v >> 32));
  const u32 low = warp_largest(static_cast<u32>(v >> 32) == high ? static_cast<u32>(v) : 0u);
  return static_cast<u64>(high) << 32 | low;
}
#else
QUERN_DEVICE u32 warp_total(u32 v) { return warp_sum(v); }
QUERN_DEVICE u64 warp_total(u64 v) { return warp_sum(v); }
QUERN_DEVICE u64 warp_most(u64 v) { return warp_max(v); }
#endif
template <class T>
QUERN_DEVICE T warp_scan(T v) {
  QUERN_UNROLL for (int d = 1; d < kWarp; d *= 2) {
    const T below = shuffle_up(v, d);
    if (lane() >= d) v = v + below;
  }
  return v;
}

template <int threads, class T, class Op>
QUERN_DEVICE T block_reduce(T v, Op op, T* scratch) {
  constexpr int kWarps = threads / kWarp;
  static_assert(threads % kWarp == 0 && kWarps <= kWarp, "whole warps, and no more than a warp has lanes");
  v = warp_reduce(v, op);
  if (lane() == 0) scratch[warp()] = v;
  sync_block();
  if constexpr ((kWarps & (kWarps - 1)) == 0) {
    v = scratch[lane() & (kWarps - 1)];
    QUERN_UNROLL for (int d = 1; d < kWarps; d *= 2) v = op(v, shuffle_xor(v, d));
  } else {
    v = scratch[0];
    QUERN_UNROLL for (int w = 1; w < kWarps; ++w) v = op(v, scratch[w]);
  }
  return v;
}
template <int threads, class T>
QUERN_DEVICE T block_sum(T v, T* scratch) {
  return block_reduce<threads>(v, Plus{}, scratch);
}
template <int threads, class T>
QUERN_DEVICE T block_max(T v, T* scratch) {
  return block_reduce<threads>(v, Larger{}, scratch);
}
template <int threads, class T>
QUERN_DEVICE T block_min(T v, T* scratch) {
  return block_reduce<threads>(v, Smaller{}, scratch);
}
template <int threads, class T>
QUERN_DEVICE T block_scan(T v, T* scratch, T* total) {
  constexpr int kWarps = threads / kWarp;
  static_assert(threads % kWarp == 0 && kWarps <= kWarp, "whole warps, and no more than a warp has lanes");
  const T through = warp_scan(v);
  if (lane() == kWarp - 1) scratch[warp()] = through;
  sync_block();
  const T sums = warp_scan(lane() < kWarps ? scratch[lane()] : T{});
  *total = shuffle(sums, kWarps - 1);
  const T before = shuffle(sums, warp() == 0 ? 0 : warp() - 1);
  return (warp() == 0 ? T{} : before) + through - v;
}

template <int threads, class T>
QUERN_DEVICE void bins_zero(T* bins, int count) {
  QUERN_ROLLED for (int i = thread_index(); i < count; i += threads) bins[i] = T{};
}

// The lanes that count in the same bin as the lowest one are counted in one go, twice; the others add for themselves.
QUERN_DEVICE void count_in(u32* bins, u32 bin, bool take) {
  u64 left = ballot(take);
  QUERN_UNROLL for (int round = 0; round < 2; ++round) {
    if (left == 0) return;
    const int leader = static_cast<int>(trailing_zeros(left));
    const u32 its = shuffle(bin, leader);
    const u64 with = ballot(take && bin == its);
    if (lane() == leader) atomic_add(bins + bin, popcount(with));
    if ((with >> lane() & 1) != 0) take = false;
    left &= ~with;
  }
  if (take) atomic_add(bins + bin, 1u);
}

template <class T>
struct FoundBin {
  i32 bin;      // -1: all bins together have less
  T above, in;  // the sums over the bins above, and of this one
};
template <int threads, int per_thread, class T>
QUERN_DEVICE FoundBin<T> find_from_top(const T* bins, T wanted, T* scratch) {
  constexpr int kWarps = threads / kWarp, kBins = threads * per_thread;
  // Thread 0 has the topmost bins.
  const int top = kBins - 1 - thread_index() * per_thread;
  T own = T{};
  QUERN_UNROLL for (int i = 0; i < per_thread; ++i) own = own + bins[top - i];
  T total;
  T above = block_scan<threads>(own, scratch, &total);
  T* found = scratch + kWarps;
  if (above < wanted && !(above + own < wanted)) {
    QUERN_ROLLED for (int i = 0; i < per_thread; ++i) {
      const T in = bins[top - i];
      if (!(above + in < wanted)) {
        found[0] = static_cast<T>(top - i), found[1] = above, found[2] = in;
        break;
      }
      above = above + in;
    }
  }
  sync_block();
  if (total < wanted) return {-1, total, T{}};
  return {static_cast<i32>(found[0]), found[1], found[2]};
}

}  // namespace q
