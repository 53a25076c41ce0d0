// What Hopper (sm_90a) adds to the device-side layer: bulk copies by tensor map, barriers in shared memory, matrix
// products of a warpgroup, clusters. A kernel includes this beside common/kernel.cuh; it is there for sm_90a and for
// `host`, which runs the same source on the CPU, and for no other target.
//
//   QUERN_KERNEL(name, threads, 1, QUERN_PARAM Params p, QUERN_PARAM q::TensorMap a)
//
// Addresses called `shared` are generic pointers to the block's own shared memory.
//
//   Tensor maps TensorMap                          128 bytes, made by the driver; a kernel parameter or a member of one
//               prefetch_tensor_map(map)           fetches it, so that the first copy need not wait for that
//   Shared      tile_shared()                      u8 *: dynamic_shared(), which a kernel that asks for it here gets
//                                                  aligned to 1024 bytes, as swizzled tiles must be
//   TMA         tma_load(shared, map, barrier, hint, c...)   a box of the tensor, 1 to 5 coordinates innermost first,
//   in
//                                                  elements; what lies outside the tensor is zeros. `shared` 128-byte
//                                                  aligned; the whole box's bytes count on `barrier`
//               tma_load_multicast(shared, map, barrier, ranks, hint, c...)   into each block of the cluster whose bit
//               is set
//                                                  in `ranks`, at the same offsets of its shared memory and barrier
//               tma_prefetch(map, hint, c...)      into L2
//               tma_store(map, shared, hint, c...) a box out of shared memory; what lies outside the tensor is not
//               written tma_add(map, shared, hint, c...)   the same, added to what is there (the map's type)
//               bulk_load(shared, global, bytes, barrier, hint)   16-byte aligned, a multiple of 16 bytes
//               bulk_store(global, shared, bytes, hint)  bulk_add(global, shared, bytes) adds f32
//               tma_commit()                       closes a group of this thread's stores and adds
//               tma_wait_read<n>()                 until all but the n youngest groups have read their shared memory
//               tma_wait<n>()                      until all but the n youngest groups are complete
//               fence_async()                      in each thread that wrote shared memory by ordinary stores (or
//               waited for
//                                                  others' reads), before the barrier after which TMA or wgmma touch it
//               fence_async_global()               the same for global memory
//               CacheHint                          what L2 is to do with the lines: normal, evict_first, evict_last
//   Barriers    Mbarrier                           8 bytes of shared memory
//               mbarrier_init(b, arrivals)         by one thread; then fence_mbarrier_init() in it and a barrier of the
//               block
//                                                  (or the cluster's, if other blocks arrive on it)
//               mbarrier_invalidate(b)             its memory may be used for something else afterwards
//               mbarrier_arrive(b)                 releases this thread's earlier accesses
//               mbarrier_expect(b, bytes)          this phase also waits for so many bytes of copies
//               mbarrier_arrive_expect(b, bytes)   both, in one
//               mbarrier_arrive_remote(b, rank)    on the same barrier of another block of the cluster, or of this one
//               mbarrier_wait(b, phase)            until the phase of this parity is complete: 0 for the first phase, 1
//               for
//                                                  the second, 0 again; 1 on a fresh barrier returns at once
//               mbarrier_try_wait(b, phase)        -> bool; may wait a short while
//   Products    wgmma<A, B, a_major, b_major>(d, a, b, accumulate)   by all 128 threads of a warpgroup (4 warps, the
//   first
//                                                  a multiple of 4): d[64][n] (+)= A[64][k] B[k][n], n = 8 to 256 by 8,
//                                                  d an array of n / 2 f32, where wgmma_row and wgmma_column say; k is
//                                                  kWgmmaK<A>. A and B: bf16, f16 (the same), e4m3, e5m2 (any two). a
//                                                  and b are descriptors; or a is an array of 4 u32, where wgmma_a_row
//                                                  and wgmma_a_k say. It runs asynchronously: d, a in registers and the
//                                                  tiles are not to be touched until wgmma_wait. 8-bit products are
//                                                  summed with about 14 bits by the GPU; promote in f32 every 128 of k
//               wgmma_fence()                      before the first wgmma, and after registers were written by other
//               means wgmma_commit()                     closes a group wgmma_wait<n>(d...)                until all
//               but the n youngest groups are complete. The arrays that are now
//                                                  to be read are named, which keeps their reads behind the wait
//               matrix_descriptor(shared, layout)  the layouts are in hopper_layout.cuh
//   Matrices    load_matrix<transposed>(v, row)    v: array of 1, 2 or 4 u32; ldmatrix: lane l gives the address of row
//   l & 7
//               store_matrix<transposed>(row, v)   of 8x8 matrix l >> 3; 16-byte aligned. stmatrix likewise
//   Registers   registers_grow<n>() registers_shrink<n>()   setmaxnreg, by all warps of a warpgroup; n a multiple of 8
//   from
//                                                  24 to 256. The kernel's blocks_per_sm must be 1
//   Election    elect_one()                        true in one lane of the warp, the same one each time; all lanes take
//   part Named       arrive_named(id, threads)          counts this warp on barrier `id` without waiting (sync_named
//   waits) Cluster     cluster_rank() cluster_size()      of the launch's cluster, 1 where it has none
//               cluster_arrive() cluster_wait()    barrier of all threads of all its blocks, in two halves; releases
//               and
//                                                  acquires. cluster_arrive_relaxed(): orders nothing
//               sync_cluster()                     both
//               cluster_address(shared, rank)      u32: where that lies in another block. Add bytes to go on from there
//               load_cluster<T>(address) store_cluster(address, v)   T of 4, 8 or 16 bytes. A block must not return
//               while
//                                                  others may still access its memory
//
// Elsewhere: griddepcontrol is wait_for_previous_grid and launch_next_grid of kernel.cuh.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/hopper_layout.cuh"
#include "common/kernel.cuh"

namespace q {

struct alignas(64) TensorMap {
  u8 bytes[128];
};

struct alignas(8) Mbarrier {
  u64 state;
};

// As createpolicy.fractional makes them for a fraction of 1.
enum class CacheHint : u64 {
  normal = 0x1000000000000000,
  evict_first = 0x12f0000000000000,
  evict_last = 0x14f0000000000000
};

template <class A, class B>
struct WgmmaTypes {
  static constexpr bool supported = false;
};
template <>
struct WgmmaTypes<bf16, bf16> {
  static constexpr bool supported = true;
};
template <>
struct WgmmaTypes<f16, f16> : WgmmaTypes<bf16, bf16> {};
template <>
struct WgmmaTypes<e4m3, e4m3> : WgmmaTypes<bf16, bf16> {};
template <>
struct WgmmaTypes<e4m3, e5m2> : WgmmaTypes<bf16, bf16> {};
template <>
struct WgmmaTypes<e5m2, e4m3> : WgmmaTypes<bf16, bf16> {};
template <>
struct WgmmaTypes<e5m2, e5m2> : WgmmaTypes<bf16, bf16> {};

// What a wgmma of these cannot be, at compile time.
template <class A, class B, Major a_major, Major b_major, int count>
QUERN_DEVICE constexpr void check_wgmma() {
  static_assert(WgmmaTypes<A, B>::supported, "wgmma takes bf16, f16 (the same twice), e4m3 and e5m2 (any two)");
  static_assert(count % 4 == 0 && count >= 4 && count <= 128, "wgmma: d has n / 2 elements, n = 8 to 256 by 8");
  static_assert(sizeof(A) == 2 || (a_major == Major::k && b_major == Major::k), "8-bit operands of wgmma are k-major");
}

}  // namespace q

#include "common/hopper_backend.cuh"

namespace q {

QUERN_DEVICE u64 matrix_descriptor(const void* shared, u64 layout) {
  return layout | (shared_address(shared) & 0x3ffffu) >> 4;
}
QUERN_DEVICE void sync_cluster() {
  cluster_arrive();
  cluster_wait();
}

}  // namespace q
