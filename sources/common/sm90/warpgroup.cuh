// What Hopper (sm_90a) alone adds to common/sm90/tma.cuh, which it includes: matrix products of a warpgroup, and
// registers that warpgroups hand over. It exists for sm_90a and for `host`, which runs the same source on the CPU.
//
//   Products      called by all 128 threads of a warpgroup: 4 warps, the first a multiple of 4. The products themselves
//                 are those of common/registers/warpgroup_sums.cuh and, with accumulators as arrays, of
//                 common/sm90/wgmma.cuh. They run asynchronously: accumulators, operands in registers and tiles must
//                 not be touched until wgmma_wait. Below d are accumulators, a operand A in registers. On the GPU sums
//                 of 8-bit products keep about 14 bits: promote them every 128 of k. Those of integers
//                 are s32 and exact (kIntegerSums), in the registers of f32 until they are converted
//     wgmma_fence()                     before the first wgmma, and after d or a were written by anything else
//     wgmma_commit()                    closes a group
//     wgmma_wait<n>(d...)               waits until all but the n youngest groups are complete. Name the arrays that
//                                       are to be read next: it keeps their reads behind the wait
//     settle(v)                         before a wgmma_wait, or a barrier: what v, which is not negative, is computed
//                                       from is computed while products are under way, and not behind the wait
//     any_lane(predicate)               whether it holds in any lane of the warp: sooner known than a ballot, where the
//                                       next product waits for it
//     matrix_descriptor(shared, layout) layouts are made in common/sm90/layout.cuh
//
//   Bytes         permute_bytes_by(low, high, s)
//                                       common/kernel.cuh's permute_bytes, of a selector that is known at run time
//
//   Registers     registers_grow<n>() registers_shrink<n>()
//                                       called by all warps of a warpgroup: n registers a thread from now on, 24 to 256
//                                       by 8. For kernels whose blocks_per_sm is 1
//                 thread_index_anew()   thread_index(), read again: what is computed from it is not kept in registers
//                                       from before, where they are scarce
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/sm90/tma.cuh"

namespace q {

template <class A, class B>
inline constexpr bool kWgmmaTakes = false;
template <>
inline constexpr bool kWgmmaTakes<bf16, bf16> = true;
template <>
inline constexpr bool kWgmmaTakes<f16, f16> = true;
template <>
inline constexpr bool kWgmmaTakes<e4m3, e4m3> = true;
template <>
inline constexpr bool kWgmmaTakes<e4m3, e5m2> = true;
template <>
inline constexpr bool kWgmmaTakes<e5m2, e4m3> = true;
template <>
inline constexpr bool kWgmmaTakes<e5m2, e5m2> = true;
template <>
inline constexpr bool kWgmmaTakes<i8, i8> = true;
// Whether sums of such products are s32.
template <class A>
inline constexpr bool kIntegerSums = false;
template <>
inline constexpr bool kIntegerSums<i8> = true;

// What a wgmma of these cannot be, at compile time.
template <class A, class B, Major a_major, Major b_major, int count>
QUERN_DEVICE constexpr void check_wgmma() {
  static_assert(kWgmmaTakes<A, B>, "wgmma takes bf16, f16, i8 (the same twice), e4m3 and e5m2 (any two)");
  static_assert(count % 4 == 0 && count >= 4 && count <= 128, "wgmma: d has n / 2 elements, n = 8 to 256 by 8");
  static_assert(!kIntegerSums<A> || count <= 12 || count % 8 == 0,
                "wgmma of integers: beyond 24 n is a multiple of 16");
  static_assert(sizeof(A) == 2 || (a_major == Major::k && b_major == Major::k), "8-bit operands of wgmma are k-major");
}

}  // namespace q

#include "common/sm90/warpgroup_backend.cuh"

namespace q {

QUERN_DEVICE u64 matrix_descriptor(const void* shared, u64 layout) {
  return layout | (shared_address(shared) & 0x3ffffu) >> 4;
}

}  // namespace q
