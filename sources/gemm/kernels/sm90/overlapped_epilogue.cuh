// The overlapped epilogue: the results of a whole tile are staged in shared memory and stored by TMA while the next
// tile is multiplied.
//
// A warp's results are boxes of 16 rows and 64 columns side by side. Each box is a TMA store of its own, and the stores
// are spread over the next tile's k blocks: when all multiprocessors store at once they wait for L2, and copies of
// operands queue behind the stores. A TMA store clips at the last row and column of out. There is no other way to store
// here, so out must have a tensor map.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gemm/kernels/sm90/persistent_epilogue.cuh"

namespace q {

template <class Result>
class OverlappedResults {
 public:
  // `boxes` is this warp's part of shared memory.
  QUERN_DEVICE OverlappedResults(const TensorMap& map, i32 consumer, u8* boxes)
      : map_(map), boxes_(boxes), line_(consumer * 64 + warp() % 4 * 16) {}
  // Writes the results of one half of the tile's columns, 0 and then 1, into their boxes. Row scales were applied when
  // sums were promoted. All boxes of the previous tile must have been sent.
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
  // Whether staged boxes remain to be sent.
  QUERN_DEVICE bool any_left() const { return sent_ < kBoxes; }
  QUERN_DEVICE void send_one() {
    if (elect_one()) {
      tma_store(map_, boxes_ + sent_ * kBoxBytes, CacheHint::normal, column_ + sent_ * 64, row_, group_);
      tma_commit();
    }
    ++sent_;
  }
  QUERN_DEVICE void send_all() { QUERN_ROLLED while (any_left()) send_one(); }
  // Waits until all stores are complete: before the block ends.
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
