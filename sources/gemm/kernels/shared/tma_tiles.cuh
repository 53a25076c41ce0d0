// Tiles of an operand as tensor maps bring them into a stage, and how products find them there.
//
// A tile is kStepK of k of some lines (rows of a or of b). By lines it is 128 bytes of k of each, one line below the other: one
// box. An operand of 16 bits that is stored the other way round arrives as it lies, k below k, each with at most 64 lines side by
// side, as a swizzled box is no wider than 128 bytes; boxes of further lines follow.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/sm90/tma.cuh"
#include "gemm/kernels/shared/tile.cuh"

namespace q {

template <class T, bool transposed, i32 lines>
struct MappedTile {
  static_assert(!transposed || sizeof(T) == 2, "operands of 8 bits are multiplied k-major");
  static constexpr Major kMajor = transposed ? Major::mn : Major::k;
  static constexpr i32 kSpan = lines < 64 ? lines : 64;  // transposed: lines of a box
  static constexpr i32 kSpans = lines / kSpan;
  static constexpr i32 kSpanBytes = kSpan * 128;  // of a step
  static constexpr Swizzle kSwizzle = !transposed || kSpan == 64 ? Swizzle::bytes128 : kSpan == 32 ? Swizzle::bytes64 : Swizzle::bytes32;
  static_assert(!transposed || (kSpans * kSpan == lines && static_cast<u32>(kSpan * 2) == swizzle_span(kSwizzle)));
  static constexpr u64 kLayout = transposed ? mn_major_layout(kSwizzle, kStepK) : k_major_layout(kSwizzle);
  // From the k of one product to those of the next one.
  static constexpr u32 kNextBytes = transposed ? kWgmmaK<T> * swizzle_span(kSwizzle) : 32;

  // A box from `line` and `k` on; of a transposed operand `line` is a multiple of 8, as tiles and a gate's halves begin. `ranks` are
  // the blocks of the cluster that it is for.
  static QUERN_DEVICE void load(u8* to, const TensorMap& map, Mbarrier& full, CacheHint hint, i32 k, i32 line, i32 group) {
    if constexpr (transposed) {
      tma_load(to, map, full, hint, line, k, group);
    } else {
      tma_load(to, map, full, hint, k, line, group);
    }
  }
  static QUERN_DEVICE void load_multicast(u8* to, const TensorMap& map, Mbarrier& full, u32 ranks, CacheHint hint, i32 k, i32 line, i32 group) {
    if constexpr (transposed) {
      tma_load_multicast(to, map, full, ranks, hint, line, k, group);
    } else {
      tma_load_multicast(to, map, full, ranks, hint, k, line, group);
    }
  }
};

using MappedA = MappedTile<ElementA, kTransposedA, kTileM>;
using MappedB = MappedTile<ElementB, kTransposedB, kTileN>;

}  // namespace q
