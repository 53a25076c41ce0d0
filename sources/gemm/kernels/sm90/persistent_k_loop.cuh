// How a consumer warpgroup multiplies the k blocks of a tile.
//
// The tensor cores keep about 14 bits of sums of products of 8-bit floating point. They are promoted, that is added to
// f32 accumulators in registers: after every 256 of k, or after every 128 with block scales and with the overlapped
// epilogue, which apply block scales or row scales at each promotion. Sums of integers are exact and stay where they
// are.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gemm/kernels/sm90/persistent_copies.cuh"
#include "gemm/kernels/sm90/persistent_epilogue.cuh"

namespace q {

inline constexpr bool kPromoted = sizeof(ElementA) == 1 && !kIntegerSums<ElementA>;
// Products that are to be promoted need registers beside the accumulators, so wide tiles are multiplied in two passes,
// one half of the columns after the other.
inline constexpr i32 kPassN = kPromoted && kTileN > 192 ? kTileN / 2 : kTileN;
inline constexpr i32 kPasses = kTileN / kPassN;

// With block scales and with the overlapped epilogue the next tile's first products are in flight while plain results
// are stored (multiply_tiles_ahead). Results that need operands beside their sums are stored first, since the
// accumulators hold the registers.
inline constexpr bool kAhead = kPlainResults && (kBlockScale || kOverlappedEpilogue);
static_assert(!kOverlappedEpilogue ||
              (kAhead && kPromoted && (kBlockScale || kTileScales) && kGrouping == kDense && kPasses == 2));

// The factors of a k block's products: for each 64 columns of the tile and each of a thread's two rows. With the
// overlapped epilogue and row scales they are the row scales.
struct KBlockScales {
  f32 x[3][2];  // of the first block of scales, of the second; for 192 columns also of the middle 64

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
  // The factor of accumulator i of the tile.
  QUERN_DEVICE f32 of(i32 i) const {
    const i32 segment = i / 32, h = i >> 1 & 1;
    if constexpr (kColumnScales == 1 || !kBlockScale) return x[0][h];
    if constexpr (kTileN == 192) return x[segment == 1 ? 2 : segment / 2][h];
    return x[segment / (kTileN > 128 ? kTileN / 128 : 1)][h];
  }
};

// The products of a pass, which are promoted to the accumulators of the tile.
using PassProducts = WarpgroupSums<div_up(kSumCount, 32), kPassN / 2>;
template <i32 pass>
QUERN_DEVICE void promote(Sums& sums, const PassProducts& products, const KBlockScales& scales) {
  constexpr i32 kFirst = pass * (kPassN / 2);
  if constexpr (kBlockScale || kOverlappedEpilogue) {
    sums.template add_scaled<kFirst>(products, [&](i32 i, i32 h) { return scales.of(kFirst + i + 2 * h); });
  } else {
    sums.template add<kFirst>(products);
  }
}

// The two consumer warpgroups multiply 8-bit operands in turn where two k blocks are promoted together. A warpgroup
// hands over when three quarters of a k block are left, so that the other's first products follow its last ones without
// a gap.
inline constexpr bool kOrdered = kPromoted && !kBlockScale && !kAhead;

// The mbarriers of the stages, and one that nobody waits for.
struct Barriers {
  Stages stages;
  Mbarrier spare;
};
inline constexpr i32 kFull = 0, kEmpty = kStages, kSpare = 2 * kStages;
static_assert(sizeof(Barriers) == (kSpare + 1) * sizeof(Mbarrier));

// The state of a consumer warpgroup. Addresses in shared memory and descriptors are computed once: computing them for
// each k block took a tenth of its time.
struct Consumer {
  SharedArray<Mbarrier> barriers;
  SharedArray<f32> scales;  // those of the thread's first row come first
  u32 a, b;                 // the lower words of the first stage's descriptors
  StageState& state;
  Peers peers;
  i32 number;
  Sums& sums;
  PassProducts& products;

  // Issues the products of a k block. `d` is the accumulators of the tile or the products of a pass.
  template <class D>
  QUERN_DEVICE void multiply(D& d, const StageState& of, i32 pass, bool accumulate) const {
    static_assert(D::kElements == kPassN / 2);
    constexpr u64 kUpperA = TmaTileA::kLayout >> 32 << 32, kUpperB = TmaTileB::kLayout >> 32 << 32;
    const u32 stage = static_cast<u32>(of.stage) * ((kABytes + kBBytes) >> 4),
              columns = static_cast<u32>(pass) * (kPassN * 128 >> 4);
    QUERN_UNROLL for (u32 k = 0; k < 4; ++k) {
      const u32 next_a = k * (TmaTileA::kNextBytes >> 4), next_b = k * (TmaTileB::kNextBytes >> 4);
      d.template multiply<ElementA, ElementB, TmaTileA::kMajor, TmaTileB::kMajor>(
          kUpperA | (a + stage + next_a), kUpperB | (b + stage + columns + next_b), accumulate || k > 0);
      if (kOrdered && k == 0) wgmma_commit();
    }
    wgmma_commit();
  }
  QUERN_DEVICE void await(const StageState& of) const { mbarrier_wait(barriers, kFull + of.stage, of.phase); }
  // Called by a warp that no longer reads a stage: it tells the producers of all blocks of the cluster. With block
  // scales there is one block; promote_scaled_k_blocks nevertheless keeps the branch on the number of blocks, because
  // with it the compiler holds descriptors in uniform registers.
  QUERN_DEVICE void release(i32 barrier) const {
    if constexpr (kBlockScale) sync_warp();  // all lanes have read the stage's scales before one arrives
    if (kAhead || peers.count == 1) {
      if (lane() == 0) mbarrier_arrive(barriers, barrier);
    } else if (lane() < peers.count) {
      mbarrier_arrive_remote_relaxed(barriers, barrier, static_cast<u32>(lane()));
    }
  }
  QUERN_DEVICE void release(const StageState& of) const { release(kEmpty + of.stage); }
  QUERN_DEVICE KBlockScales scales_of(const StageState& of) const {
    KBlockScales of_k_block{};
    if constexpr (kBlockScale) of_k_block.take(scales, of.stage * kStageScales);
    return of_k_block;
  }
  QUERN_DEVICE void take_turn() const { sync_named(kOrderBarrier + number, kConsumers * kGroupThreads); }
  QUERN_DEVICE void hand_over() const { arrive_named(kOrderBarrier + (number ^ 1), kConsumers * kGroupThreads); }
};

// What follows are templates over the consumer, so that a kernel compiles only those that it uses.
//
// Sums `k_blocks` k blocks on the tensor cores, then promotes them, while the other warpgroup's products keep the
// tensor cores busy.
template <i32 k_blocks, class AnyConsumer>
QUERN_DEVICE void promote_together(const AnyConsumer& c) {
  static_assert((k_blocks == 1 || k_blocks == 2) && kOrdered);
  const StageState first = c.state;
  StageState second = first;
  c.await(first);
  if constexpr (k_blocks == 2) second.next();
  QUERN_UNROLL for (i32 pass = 0; pass < kPasses; ++pass) {
    const bool done = pass == kPasses - 1;
    c.take_turn();
    wgmma_fence();
    c.multiply(c.products, first, pass, false);
    if constexpr (k_blocks == 2) {
      if (pass == 0) {
        c.await(second);
        wgmma_fence();  // without it the compiler warns that it inserts one, because of the branch in await()
      }
      c.multiply(c.products, second, pass, true);
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
      promote<0>(c.sums, c.products, {});
    } else {
      promote<kPasses - 1>(c.sums, c.products, {});
    }
  }
  c.state = second;
  c.state.next();
}

// All k blocks of a tile where scales do not change with k: two at a time.
template <class AnyConsumer>
QUERN_DEVICE void promote_k_blocks(i32 k_blocks, const AnyConsumer& c) {
  i32 k_block = 0;
  QUERN_ROLLED for (; k_block + 2 <= k_blocks; k_block += 2) promote_together<2>(c);
  if (k_block < k_blocks) promote_together<1>(c);
}

// All k blocks of a tile with block scales whose results are stored before the next tile begins. What the next k block
// needs is awaited and read while the last products of the present one are in flight; the stage before is freed while
// its first ones are. So hardly more than the promotion itself lies between products, and a promotion takes no longer
// than the other warpgroup's products.
template <class AnyConsumer>
QUERN_DEVICE void promote_scaled_k_blocks(const Work& work, const AnyConsumer& c) {
  const bool middle_is_second = work.column % 128 != 0;
  StageState at = c.state;
  c.await(at);
  KBlockScales scales = c.scales_of(at);
  scales.settle(middle_is_second);
  i32 before = kSpare;
  const i32 k_blocks = work.end_k_block;
  QUERN_ROLLED for (i32 k_block = 0; k_block < k_blocks; ++k_block) {
    StageState next = at;
    next.next();
    KBlockScales next_scales;
    QUERN_UNROLL for (i32 pass = 0; pass < kPasses; ++pass) {
      wgmma_fence();
      c.multiply(c.products, at, pass, false);
      if (pass == 0) c.release(before);
      if (pass == kPasses - 1) {
        c.await(next);
        next_scales = c.scales_of(next);
        next_scales.settle(middle_is_second);
      }
      wgmma_wait<0>();
      if (pass == 0) {
        promote<0>(c.sums, c.products, scales);
      } else {
        promote<kPasses - 1>(c.sums, c.products, scales);
      }
    }
    before = kEmpty + at.stage;
    at = next;
    scales = next_scales;
  }
  c.release(before);
  c.state = at;
}

// All k blocks of a tile whose sums stay on the tensor cores: the products of one k block stay in flight while those of
// the next begin; by then the stage before has been read. The first k block stands before the loop so that nothing but
// products writes the accumulators within it: otherwise the compilers of CUDA 12 wait for each product. issued() is
// called when the last products have been issued.
template <class AnyConsumer, class Issued>
QUERN_DEVICE void accumulate_k_blocks(i32 k_blocks, const AnyConsumer& c, Issued issued) {
  StageState at = c.state;
  c.await(at);
  wgmma_fence();
  c.multiply(c.sums, at, 0, false);
  StageState before = at;
  at.next();
  QUERN_ROLLED for (i32 k_block = 1; k_block < k_blocks; ++k_block) {
    c.await(at);
    wgmma_fence();
    c.multiply(c.sums, at, 0, true);
    wgmma_wait<1>();
    c.release(before);
    before = at;
    at.next();
  }
  issued();
  wgmma_wait<0>();
  c.release(before);
  c.state = at;
}

}  // namespace q
