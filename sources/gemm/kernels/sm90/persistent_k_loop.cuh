// How a warpgroup goes through the steps of a tile.
//
// The tensor cores' sums of 8-bit products keep about 14 bits: they are added to sums in registers after every 256 of k, and
// after every 128 with block scales, which are applied then, and where results leave late, when a row's scale is.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gemm/kernels/sm90/persistent_copies.cuh"
#include "gemm/kernels/sm90/persistent_epilogue.cuh"

namespace q {

inline constexpr bool kPromoted = sizeof(ElementA) == 1;
// Sums that are promoted take their registers twice: wide tiles are multiplied one half after the other.
inline constexpr i32 kPassN = kPromoted && kTileN > 192 ? kTileN / 2 : kTileN;
inline constexpr i32 kPasses = kTileN / kPassN;

// With block scales, and where results leave late, the next tile's first products are under way while plain results leave
// (multiply_tiles_ahead); those that need more beside their sums leave first, as the sums have the registers.
inline constexpr bool kAhead = kPlainResults && (kBlockScale || kOverlappedEpilogue);
static_assert(!kOverlappedEpilogue || (kAhead && kPromoted && (kBlockScale || kTileScales) && kGrouping == kDense && kPasses == 2));

// What one step's sums are multiplied by: for each 64 columns, and each of a thread's two rows. Late results that have scales of rows and
// columns take the rows' here.
struct StepScales {
  f32 x[3][2];  // the first block's, the second's, and, of the three 64 columns of a tile of 192, the middle's

  QUERN_DEVICE void take(const SharedArray<f32>& scales, i32 first) {
    QUERN_UNROLL for (i32 h = 0; h < 2; ++h) {
      f32 own[kColumnScales];
      load_shared(own, scales, first + 8 * h * kColumnScales);
      QUERN_UNROLL for (i32 i = 0; i < kColumnScales; ++i) x[i][h] = own[i];
    }
  }
  QUERN_DEVICE void settle(bool middle_is_second) {
    if constexpr (kBlockScale && kTileN == 192) {
      QUERN_UNROLL for (i32 h = 0; h < 2; ++h) x[2][h] = middle_is_second ? x[1][h] : x[0][h];
    }
  }
  // Of sum i of the tile.
  QUERN_DEVICE f32 of(i32 i) const {
    const i32 segment = i / 32, h = i >> 1 & 1;
    if constexpr (kColumnScales == 1 || !kBlockScale) return x[0][h];
    if constexpr (kTileN == 192) return x[segment == 1 ? 2 : segment / 2][h];
    return x[segment / (kTileN / 128)][h];
  }
};

// A pass's sums, which are added to those of the tile.
using Part = WarpgroupSums<div_up(kSumCount, 32), kPassN / 2>;
template <i32 pass>
QUERN_DEVICE void promote(Sums& sums, const Part& part, const StepScales& scales) {
  constexpr i32 kFirst = pass * (kPassN / 2);
  if constexpr (kBlockScale || kOverlappedEpilogue) {
    sums.template add_scaled<kFirst>(part, [&](i32 i, i32 h) { return scales.of(kFirst + i + 2 * h); });
  } else {
    sums.template add<kFirst>(part);
  }
}

// The warpgroups multiply 8-bit operands in turns where two steps are summed together: who has three quarters of a step left hands
// over, so that the other's first product follows the last one.
inline constexpr bool kTurns = kPromoted && !kBlockScale && !kAhead;

// Of the stages, and one that nobody waits for.
struct Barriers {
  Stages stages;
  Mbarrier spare;
};
inline constexpr i32 kFull = 0, kEmpty = kStages, kSpare = 2 * kStages;
static_assert(sizeof(Barriers) == (kSpare + 1) * sizeof(Mbarrier));

// What one consumer goes through the steps of a tile with: addresses in shared memory and descriptors are made once. To find them again
// for each step took a tenth of its time.
struct Consumer {
  SharedArray<Mbarrier> barriers;
  SharedArray<f32> scales;  // from those of the thread's first row on
  u32 a, b;                 // the lower halves of the first stage's descriptors
  StageState& state;
  Peers peers;
  i32 number;
  Sums& sums;
  Part& part;

  // Into sums or part, whichever d is.
  template <class D>
  QUERN_DEVICE void multiply(D& d, const StageState& of, i32 pass, bool accumulate) const {
    static_assert(D::kElements == kPassN / 2);
    constexpr u64 kUpperA = MappedA::kLayout >> 32 << 32, kUpperB = MappedB::kLayout >> 32 << 32;
    const u32 stage = static_cast<u32>(of.stage) * ((kABytes + kBBytes) >> 4), columns = static_cast<u32>(pass) * (kPassN * 128 >> 4);
    QUERN_UNROLL for (u32 k = 0; k < 4; ++k) {
      const u32 next_a = k * (MappedA::kNextBytes >> 4), next_b = k * (MappedB::kNextBytes >> 4);
      d.template multiply<ElementA, ElementB, MappedA::kMajor, MappedB::kMajor>(kUpperA | (a + stage + next_a), kUpperB | (b + stage + columns + next_b),
                                                                               accumulate || k > 0);
      if (kTurns && k == 0) wgmma_commit();
    }
    wgmma_commit();
  }
  QUERN_DEVICE void await(const StageState& of) const { mbarrier_wait(barriers, kFull + of.stage, of.phase); }
  // This warp has done with a stage: the producers of all blocks of the cluster, which copy into it, are told. With block scales there is
  // one block; in promote_scaled_steps the branch stays, since the compiler keeps descriptors in uniform registers with it and not
  // without.
  QUERN_DEVICE void release(i32 barrier) const {
    if constexpr (kBlockScale) sync_warp();  // all its lanes have read scales of the stage, one tells
    if (kAhead || peers.count == 1) {
      if (lane() == 0) mbarrier_arrive(barriers, barrier);
    } else if (lane() < peers.count) {
      mbarrier_arrive_remote_relaxed(barriers, barrier, lane());
    }
  }
  QUERN_DEVICE void release(const StageState& of) const { release(kEmpty + of.stage); }
  QUERN_DEVICE StepScales step_scales(const StageState& of) const {
    StepScales of_step{};
    if constexpr (kBlockScale) of_step.take(scales, of.stage * kStageScales);
    return of_step;
  }
  QUERN_DEVICE void take_turn() const { sync_named(kTurnBarrier + number, kConsumers * kGroupThreads); }
  QUERN_DEVICE void hand_over() const { arrive_named(kTurnBarrier + (number ^ 1), kConsumers * kGroupThreads); }
};

// What follows are templates, of Consumer alone, so that a kernel has only those checked that it takes.
//
// Products of `steps` steps, summed by the tensor cores and then added to the sums of the tile; the other warpgroup's products keep the
// tensor cores busy meanwhile.
template <i32 steps, class AnyConsumer>
QUERN_DEVICE void promote_together(const AnyConsumer& c) {
  static_assert((steps == 1 || steps == 2) && kTurns);
  const StageState first = c.state;
  StageState second = first;
  c.await(first);
  if constexpr (steps == 2) second.next();
  QUERN_UNROLL for (i32 pass = 0; pass < kPasses; ++pass) {
    const bool done = pass == kPasses - 1;
    c.take_turn();
    wgmma_fence();
    c.multiply(c.part, first, pass, false);
    if constexpr (steps == 2) {
      if (pass == 0) {
        c.await(second);
        wgmma_fence();  // the compiler, which sees a branch in the wait, would remark that it puts one here
      }
      c.multiply(c.part, second, pass, true);
      if (done) {
        wgmma_wait<2>();
        c.release(first);
      }
    }
    wgmma_wait<1>();
    c.hand_over();
    wgmma_wait<0>();
    if (done) c.release(second);
    if (pass == 0) {
      promote<0>(c.sums, c.part, {});
    } else {
      promote<kPasses - 1>(c.sums, c.part, {});
    }
  }
  c.state = second;
  c.state.next();
}

// All steps of a tile where scales do not change with k: two at a time.
template <class AnyConsumer>
QUERN_DEVICE void promote_steps(i32 steps, const AnyConsumer& c) {
  i32 step = 0;
  QUERN_ROLLED for (; step + 2 <= steps; step += 2) promote_together<2>(c);
  if (step < steps) promote_together<1>(c);
}

// All steps of a tile with block scales whose results leave before the next one begins. While a step's last products are under way, what
// the next one needs is waited for and read; the stage before is released while its first ones are. So little but the adding itself lies
// between products, and adding takes no longer than the other warpgroup's products.
template <class AnyConsumer>
QUERN_DEVICE void promote_scaled_steps(const Work& work, const AnyConsumer& c) {
  const bool middle_is_second = work.column % 128 != 0;
  StageState at = c.state;
  c.await(at);
  StepScales scales = c.step_scales(at);
  scales.settle(middle_is_second);
  i32 before = kSpare;
  QUERN_ROLLED for (i32 step = 0; step < work.last_step; ++step) {
    StageState next = at;
    next.next();
    StepScales next_scales;
    QUERN_UNROLL for (i32 pass = 0; pass < kPasses; ++pass) {
      wgmma_fence();
      c.multiply(c.part, at, pass, false);
      if (pass == 0) c.release(before);
      if (pass == kPasses - 1) {
        c.await(next);
        next_scales = c.step_scales(next);
        next_scales.settle(middle_is_second);
      }
      wgmma_wait<0>();
      if (pass == 0) {
        promote<0>(c.sums, c.part, scales);
      } else {
        promote<kPasses - 1>(c.sums, c.part, scales);
      }
    }
    before = kEmpty + at.stage;
    at = next;
    scales = next_scales;
  }
  c.release(before);
  c.state = at;
}

// All steps of a tile where sums are kept as they are: one step's products stay under way while the next one's begin; the stage
// before is free by then. The first step stands before the loop, so that nothing but products writes the sums within it: the compilers
// of CUDA 12 would wait for each product otherwise.
template <class AnyConsumer>
QUERN_DEVICE void accumulate_steps(i32 steps, const AnyConsumer& c) {
  StageState at = c.state;
  c.await(at);
  wgmma_fence();
  c.multiply(c.sums, at, 0, false);
  StageState before = at;
  at.next();
  QUERN_ROLLED for (i32 step = 1; step < steps; ++step) {
    c.await(at);
    wgmma_fence();
    c.multiply(c.sums, at, 0, true);
    wgmma_wait<1>();
    c.release(before);
    before = at;
    at.next();
  }
  wgmma_wait<0>();
  c.release(before);
  c.state = at;
}

}  // namespace q
