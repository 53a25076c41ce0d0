// Results of a tile that leave while the next one is multiplied: all of them have room in shared memory.
//
// A warp's results are boxes of 16 rows of 64 columns, one beside the other. Each leaves by a bulk copy of its own, now and then: when all
// multiprocessors write at once they wait for L2, and copies of operands wait behind those of results. Bulk copies stop at the last row
// and column of a product, so there is no other way out of here: out must be described by a tensor map.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gemm/kernels/sm90/persistent_epilogue.cuh"

namespace q {

template <class Result>
class LateResults {
 public:
  // `boxes` are the warp's.
  QUERN_DEVICE LateResults(const TensorMap& map, i32 consumer, u8* boxes) : map_(map), boxes_(boxes), line_(consumer * 64 + warp() % 4 * 16) {}
  // Puts half of a tile's columns, 0 and then 1, into their boxes. Rows have been scaled as sums were promoted. All of the last one's have been sent.
  template <i32 half>
  QUERN_DEVICE void stage(const GemmParams& p, const Work& work, Sums& sums, const f32* column_scales) {
    if constexpr (half == 0) {
      if (elect_one()) tma_wait_read<0>();
      sync_warp();
      row_ = work.row + line_, column_ = work.column, group_ = work.group, sent_ = 0;
    }
    constexpr i32 kFirst = half * kBoxes / 2;
    stage_one<kFirst>(p, sums, column_scales);
    stage_one<kFirst + 1>(p, sums, column_scales);
    fence_async();
    sync_warp();
  }
  // Of those that are there.
  QUERN_DEVICE bool any_left() const { return sent_ < kBoxes; }
  QUERN_DEVICE void send_one() {
    if (elect_one()) {
      tma_store(map_, boxes_ + sent_ * kBoxBytes, CacheHint::normal, column_ + sent_ * 64, row_, group_);
      tma_commit();
    }
    ++sent_;
  }
  QUERN_DEVICE void send_all() {
    QUERN_ROLLED while (any_left()) send_one();
  }
  // Before the block ends.
  QUERN_DEVICE void await() {
    if (elect_one()) tma_wait<0>();
  }

 private:
  template <i32 s>
  QUERN_DEVICE void stage_one(const GemmParams& p, Sums& sums, const f32* column_scales) {
    if constexpr (kScaled) sums.template scale<s>(column_scales + s * 64);
    stage_slice<Result, s>(p, sums, boxes_ + s * kBoxBytes);
  }

  const TensorMap& map_;
  u8* boxes_;
  i32 line_;
  i32 row_ = 0, column_ = 0, group_ = 0, sent_ = kBoxes;
};

}  // namespace q
