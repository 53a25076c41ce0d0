// How a consumer warpgroup of fitted.cuh multiplies the k blocks of a tile. The instruction has the tile's rows in its
// name, so the loop exists once for each number of rows that tiles may have (fitted_rows in params.cuh).
//
// The tensor cores keep about 14 bits of sums of 8-bit products: they are promoted, that is added to f32 accumulators
// in registers, after every 256 of k.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/registers/warpgroup_sums.cuh"
#include "gemm/kernels/sm90/fitted_tiles.cuh"

namespace q {

inline constexpr bool kPromoted = sizeof(ElementA) == 1;
// Products that are to be promoted take as many registers as the accumulators.
static_assert(!kPromoted || kTileN <= 192);
using Sums = WarpgroupSums<0, round_up(kTileN / 2, 8)>;  // the accumulators of a tile

// Named barriers: see fitted.cuh.
inline constexpr i32 kOrderBarrier = 5;

// The heights of this kernel's tiles.
QUERN_DEVICE constexpr i32 heights_below(i32 rows) {
  i32 count = 0;
  while (count < kFittedHeights && fitted_height(count) < rows) ++count;
  return count;
}
inline constexpr i32 kFirstHeight = heights_below(fitted_least(kTileN)),
                     kHeights = heights_below(kTileN + 1) - kFirstHeight;

// The products to be promoted, for each height registers with names of their own: with one set of names for all of them
// ptxas does not find neighbouring registers for each height's products, and waits for every one of them.
inline constexpr i32 kGroupsOfSums = div_up(kTileN, 64);
template <i32 height>
using ProductsOf = WarpgroupSums<div_up(kTileN, 64) + (height - kFirstHeight) * kGroupsOfSums, round_up(kTileN / 2, 8)>;
template <i32 height = kFirstHeight + kHeights - 1>
struct PassProducts : PassProducts<height - 1> {
  ProductsOf<height> own;

  template <i32 of>
  QUERN_DEVICE ProductsOf<of>& get() {
    return PassProducts<of>::own;
  }
};
template <>
struct PassProducts<kFirstHeight - 1> {};
using Products = PassProducts<kPromoted ? kFirstHeight + kHeights - 1 : kFirstHeight - 1>;

// The state of a consumer warpgroup.
struct FittedConsumer {
  SharedArray<Mbarrier> barriers;
  u32 first, second;  // the lower words of the first stage's descriptors
  FittedState& state;
  Fit fit;
  bool shares_tile;  // with other blocks, by split-K
  bool alone;        // no other block copies for this one
  i32 sharer;        // the rank of a block that does and that this lane tells of stages that are free; -1: of none
  i32 number;
  i32 column;  // its first row of b in the tile
  Sums& sums;
  Products& products;

  // Issues the products of a k block with `count` rows of a.
  template <i32 count, class D>
  QUERN_DEVICE void multiply(D& d, const FittedState& of, bool accumulate) const {
    constexpr u64 kUpper = TmaTileA::kLayout >> 32 << 32;
    const u32 stage = static_cast<u32>(of.stage) * static_cast<u32>(fit.stage_bytes >> 4);
    QUERN_UNROLL for (u32 k = 0; k < 4; ++k) {
      d.template multiply<ElementA, ElementB, Major::k, Major::k, count / 2>(
          kUpper | (first + stage + k * 2), kUpper | (second + stage + k * 2), accumulate || k > 0);
      if (kPromoted && k == 0) wgmma_commit();
    }
    wgmma_commit();
  }
  QUERN_DEVICE void await(const FittedState& of) const { mbarrier_wait(barriers, kFull + of.stage, of.phase); }
  // Called by a warp that no longer reads a stage: it tells the producers of all blocks that copy for it.
  QUERN_DEVICE void release(i32 stage) const {
    if (alone) {
      if (lane() == 0) mbarrier_arrive(barriers, kEmpty + stage);
    } else if (sharer >= 0) {
      mbarrier_arrive_remote_relaxed(barriers, kEmpty + stage, static_cast<u32>(sharer));
    }
  }
  // Called while the last k block is multiplied, or the last two: stages before theirs have been read, so that sums of
  // other blocks may arrive there when all have said so.
  QUERN_DEVICE void free_stages() const {
    if (shares_tile) cluster_arrive_shared();
  }
  QUERN_DEVICE void take_turn() const { sync_named(kOrderBarrier + number, kConsumers * kGroupThreads); }
  QUERN_DEVICE void hand_over() const { arrive_named(kOrderBarrier + (number ^ 1), kConsumers * kGroupThreads); }
};

// Sums of 16 bits: the products of one k block stay in flight while those of the next begin; by then the stage before
// has been read. Nothing but products writes the accumulators, otherwise compilers wait for each product.
template <i32 rows, class AnyConsumer>
QUERN_DEVICE void accumulate_fitted(i32 k_blocks, const AnyConsumer& c) {
  FittedState at = c.state;
  i32 before = -1;
  QUERN_ROLLED for (i32 k_block = 0; k_block < k_blocks; ++k_block) {
    c.await(at);
    wgmma_fence();
    c.template multiply<rows>(c.sums, at, k_block > 0);
    wgmma_wait<1>();
    if (before >= 0) c.release(before);
    if (k_block == k_blocks - 1) c.free_stages();
    before = at.stage;
    at.next(c.fit.stages);
  }
  wgmma_wait<0>();
  c.release(before);
  c.state = at;
}

// Products of 8 bits: one or two k blocks are summed on the tensor cores, then promoted, while the other warpgroup's
// products keep the tensor cores busy. The warpgroups take turns: one hands over when three quarters of a k block are
// left, so that the other's first products follow its last ones without a gap.
template <i32 height, class AnyConsumer>
QUERN_DEVICE void promote_fitted(i32 k_blocks, const AnyConsumer& c) {
  constexpr i32 rows = fitted_height(height);
  auto& products = c.products.template get<height>();
  FittedState at = c.state;
  QUERN_ROLLED for (i32 k_block = 0; k_block < k_blocks; k_block += 2) {
    const bool two = k_block + 1 < k_blocks;
    FittedState next = at;
    next.next(c.fit.stages);
    if (k_block + 2 >= k_blocks) c.free_stages();
    c.await(at);
    c.take_turn();
    wgmma_fence();
    c.template multiply<rows>(products, at, false);
    if (two) {
      c.await(next);
      wgmma_fence();  // without it the compiler warns that it inserts one, because of the branch in await()
      c.template multiply<rows>(products, next, true);
      wgmma_wait<2>();
      c.release(at.stage);
    }
    wgmma_wait<1>();
    c.hand_over();
    wgmma_wait<0>();
    c.release(two ? next.stage : at.stage);
    c.sums.template add_some<0, rows / 2>(products);
    at = next;
    if (two) at.next(c.fit.stages);
  }
  c.state = at;
}

// Whether tiles have this height.
QUERN_DEVICE constexpr bool is_offered(i32 height) {
  return fitted_rows(fitted_height(height), kTileN) == fitted_height(height);
}

// All k blocks of a tile, or of a part of it, by the loop for its number of rows.
template <i32 first = kFirstHeight, i32 count = kHeights, class AnyConsumer>
QUERN_DEVICE void multiply_fitted(i32 k_blocks, const AnyConsumer& c) {
  if constexpr (count > 1) {
    constexpr i32 kMiddle = first + count / 2;
    if (c.fit.rows < fitted_height(kMiddle)) {
      multiply_fitted<first, count / 2>(k_blocks, c);
    } else {
      multiply_fitted<kMiddle, count - count / 2>(k_blocks, c);
    }
  } else if constexpr (!kPromoted && is_offered(first)) {
    accumulate_fitted<fitted_height(first)>(k_blocks, c);
  } else if constexpr (is_offered(first)) {
    promote_fitted<first>(k_blocks, c);
  }
}

}  // namespace q
