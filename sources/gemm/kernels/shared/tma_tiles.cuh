// Tiles of an operand as TMA copies bring them into a stage, and their layout for wgmma.
//
// A tile is kBlockK of k of some lines (rows of a or of b). A k-major tile has 128 bytes of k of each line, one line
// below the other, and is copied as one box. An mn-major tile, which only 16-bit operands have, keeps its order in
// memory: k below k, each with at most 64 lines side by side, since a swizzled box is at most 128 bytes wide; further
// lines are further boxes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/sm90/tma.cuh"
#include "gemm/kernels/shared/tile.cuh"

namespace q {

template <class T, bool transposed, i32 lines>
struct TmaTile {
  static_assert(!transposed || sizeof(T) == 2, "operands of 8 bits are multiplied k-major");
  static constexpr Major kMajor = transposed ? Major::mn : Major::k;
  static constexpr i32 kSpan = lines < 64 ? lines : 64;  // mn-major: lines of a box
  static constexpr i32 kSpans = lines / kSpan;
  static constexpr i32 kSpanBytes = kSpan * 128;  // of a k block
  static constexpr Swizzle kSwizzle = !transposed || kSpan == 64 ? Swizzle::bytes128
                                      : kSpan == 32              ? Swizzle::bytes64
                                                                 : Swizzle::bytes32;
  static_assert(!transposed || (kSpans * kSpan == lines && static_cast<u32>(kSpan * 2) == swizzle_span(kSwizzle)));
  static constexpr u64 kLayout = transposed ? mn_major_layout(kSwizzle, kBlockK) : k_major_layout(kSwizzle);
  // Bytes from the operand of one wgmma to that of the next k.
  static constexpr u32 kNextBytes = transposed ? kWgmmaK<T> * swizzle_span(kSwizzle) : 32;

  // Copies a box from `line` and `k` on. For an mn-major operand `line` is a multiple of 8, which tiles and the halves
  // of a gate begin at. load_multicast() copies it to the blocks of the cluster whose bits are set in `ranks`.
  static QUERN_DEVICE void load(u8* to, const TensorMap& map, Mbarrier& full, CacheHint hint, i32 k, i32 line,
                                i32 group) {
    if constexpr (transposed) {
      tma_load(to, map, full, hint, line, k, group);
    } else {
      tma_load(to, map, full, hint, k, line, group);
    }
  }
  static QUERN_DEVICE void load_multicast(u8* to, const TensorMap& map, Mbarrier& full, u32 ranks, CacheHint hint,
                                          i32 k, i32 line, i32 group) {
    if constexpr (transposed) {
      tma_load_multicast(to, map, full, ranks, hint, line, k, group);
    } else {
      tma_load_multicast(to, map, full, ranks, hint, k, line, group);
    }
  }
};

using TmaTileA = TmaTile<ElementA, kTransposedA, kTileM>;
using TmaTileB = TmaTile<ElementB, kTransposedB, kTileN>;

}  // namespace q
