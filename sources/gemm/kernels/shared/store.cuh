// Stores the results of a tile whose accumulators are spread over all threads of the block, one slice of rows after the
// other through shared memory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gemm/kernels/shared/epilogue.cuh"

namespace q {

inline constexpr i32 kStagedPitch = kTileN + 4;

// Stages slice number `wanted`. Registers cannot be indexed at run time, so this code, and no more than this, exists
// once for each slice.
template <i32 slice, class Sums>
QUERN_DEVICE void stage(i32 wanted, const Sums& sums, f32* staged) {
  if (wanted == slice) stage_slice<slice, kStagedPitch>(sums, staged);
  if constexpr (slice + 1 < kSlices) stage<slice + 1>(wanted, sums, staged);
}

// Finishes and stores a slice that has been staged.
QUERN_DEVICE void store_slice(const GemmParams& p, const Work& work, i32 slice, const f32* staged) {
  constexpr i32 kGroups = kOutTileN / kEight, kAll = kSliceRows * kGroups;
  QUERN_ROLLED for (i32 first = 0; first < kAll; first += kThreads) {
    const i32 i = first + thread_index();
    const i32 staged_row = i < kAll ? i / kGroups : 0, column = i % kGroups * kEight;
    const f32* row = staged + staged_row * kStagedPitch + column;
    finish_eight(p, work, i < kAll, row_of_slice(slice, staged_row), column, row, row + kOutTileN);
  }
}

template <class Sums>
QUERN_DEVICE void store(const GemmParams& p, const Work& work, const Sums& sums, f32* staged) {
  QUERN_ROLLED for (i32 slice = 0; slice < kSlices; ++slice) {
    stage<0>(slice, sums, staged);
    sync_block();
    store_slice(p, work, slice, staged);
    sync_block();
  }
}

}  // namespace q
