// The arithmetic of Hopper's layouts: where a swizzle puts a byte, how a matrix descriptor is encoded, which lane holds
// which element of a warpgroup's tile. Used by the kernels, by the executor of the `host` target and by the tests.
// Facts of the PTX ISA ("asynchronous warpgroup level matrix instructions") and of cuTensorMapEncodeTiled.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/types.cuh"

namespace q {

// As CUtensorMapSwizzle counts them. A swizzle of s bytes permutes the 16-byte pieces within each s bytes of shared
// memory, by address bits 7 and up: tiles begin at multiples of 8 s bytes (256, 512, 1024).
enum class Swizzle : int { none = 0, bytes32 = 1, bytes64 = 2, bytes128 = 3 };

// Bytes that a row of a swizzled tile has; 16 for none, the row of a core matrix.
QUERN_SHARED_CODE constexpr u32 swizzle_span(Swizzle s) { return 16u << static_cast<int>(s); }
// The place of the byte that without a swizzle would lie at shared address `address`. Its own inverse.
QUERN_SHARED_CODE constexpr u32 swizzled(u32 address, Swizzle s) {
  return address ^ ((address >> 7 & (swizzle_span(s) / 16 - 1)) << 4);
}

// How an operand lies in shared memory: k: the elements of one row of A, or one column of B, side by side along the
// product's inner dimension; mn: the elements of one k side by side. mn is for 16-bit types.
enum class Major : int { k = 0, mn = 1 };

// The part of a matrix descriptor that is the same for all tiles of one layout. Distances in bytes, multiples of 16
// below 256 Ki:
//                    `leading`                                        `stride`
//   k, none          between core matrices (8 rows of 16 bytes)       between core matrices
//                    side by side in k                                side by side in m or n
//   k, swizzled      unused                                           between groups of 8 rows (8 spans where dense)
//   mn, none         between core matrices (8 k of 16 bytes) in k     between core matrices in m or n
//   mn, swizzled     between blocks of one span in m or n             between groups of 8 k (8 spans where dense)
QUERN_SHARED_CODE constexpr u64 matrix_layout(Swizzle s, u32 leading, u32 stride) {
  return static_cast<u64>(leading >> 4 & 0x3fff) << 16 | static_cast<u64>(stride >> 4 & 0x3fff) << 32 |
         static_cast<u64>((4 - static_cast<int>(s)) & 3) << 62;
}
// Rows of one span each, one after the other: what a TMA box of so many bytes leaves.
QUERN_SHARED_CODE constexpr u64 k_major_layout(Swizzle s) { return matrix_layout(s, 16, 8 * swizzle_span(s)); }
// `depth` rows (k) of one span each, then the next span of m or n.
QUERN_SHARED_CODE constexpr u64 mn_major_layout(Swizzle s, u32 depth) {
  return matrix_layout(s, depth * swizzle_span(s), 8 * swizzle_span(s));
}

// The tile further on by so many bytes (a multiple of 16), in the same layout: the next k of a k-major tile lies
// k * sizeof(T) bytes on, within its span too.
QUERN_SHARED_CODE constexpr u64 advanced(u64 descriptor, u32 bytes) { return descriptor + (bytes >> 4); }

// The inner dimension of one instruction: 32 bytes.
template <class T>
inline constexpr int kWgmmaK = 32 / static_cast<int>(sizeof(T));

// Element i of a thread's accumulators, of a tile of 64 rows; `thread` counts within the warpgroup, 0 to 127.
QUERN_SHARED_CODE constexpr int wgmma_row(int thread, int i) {
  return (thread >> 5) * 16 + (thread >> 2 & 7) + (i >> 1 & 1) * 8;
}
QUERN_SHARED_CODE constexpr int wgmma_column(int thread, int i) { return (i >> 2) * 8 + (thread & 3) * 2 + (i & 1); }

// Operand A in registers: register r (0 to 3) holds 4 / sizeof(T) elements of this row, the first of them at this k.
QUERN_SHARED_CODE constexpr int wgmma_a_row(int thread, int r) { return wgmma_row(thread, r * 2); }
template <class T>
QUERN_SHARED_CODE constexpr int wgmma_a_k(int thread, int r) {
  return ((thread & 3) * 4 + (r >> 1) * 16) / static_cast<int>(sizeof(T));
}

}  // namespace q
