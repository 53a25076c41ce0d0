// Bulk copies by tensor map (TMA), mbarriers in shared memory, clusters: what NVIDIA's GPUs have from sm_90 on. A
// kernel includes this file beside common/kernel.cuh. It exists for those targets and for `host`, which runs the same
// source on the CPU.
//
//   QUERN_KERNEL(name, threads, 1, QUERN_PARAM Params p, QUERN_PARAM q::TensorMap a)
//
// Arguments called `shared` are generic pointers into the block's own shared memory, b is a Mbarrier& there.
//
//   Tensor maps   TensorMap             128 bytes, made by the driver; a kernel parameter or a member of one
//     prefetch_tensor_map(map)          fetches it, so that the first copy need not wait for it
//
//   Shared        tile_shared()         u8 *: dynamic_shared(), aligned to 1024 bytes as swizzled tiles must be
//
//   Copies        CacheHint             what L2 is to do with the lines: normal, evict_first, evict_last
//     tma_load(shared, map, b, hint, c...)
//                                       a box of the tensor at 1 to 5 coordinates (elements, innermost first); what
//                                       lies outside the tensor becomes zeros, and a box may begin there. `shared` is
//                                       128-byte aligned. The bytes of the whole box count on the barrier. In every
//                                       copy by a map the innermost coordinate is a multiple of 16 bytes, and a
//                                       swizzled box as wide as its swizzle
//     tma_load_multicast(shared, map, b, ranks, hint, c...)
//                                       into each block of the cluster whose bit is set in `ranks`, at the same
//                                       offsets of its shared memory and counting on its own barrier
//     tma_prefetch(map, hint, c...)     into L2
//     tma_store(map, shared, hint, c...)  stores a box from shared memory; what lies outside the tensor is not written,
//                                       except the rest of 16 bytes within which a row ends. No coordinate is negative
//     tma_add(map, shared, hint, c...)  the same, added to what is there, as the map's type
//     bulk_load(shared, global, bytes, b, hint)  bulk_store(global, shared, bytes, hint)
//     bulk_add(global, shared, bytes)   plain memory, 16-byte aligned, a multiple of 16 bytes; bulk_add adds f32
//     tma_commit()                      closes a group of this thread's stores and adds
//     tma_wait_read<n>()                waits until all but the n youngest groups have read their shared memory
//     tma_wait<n>()                     waits until all but the n youngest groups are complete
//     fence_async()                     in each thread that wrote shared memory by ordinary stores, before the
//                                       barrier after which copies or products read it. fence_async_global(): global
//                                       memory
//
//   Barriers      Mbarrier              8 bytes of shared memory
//     mbarrier_init(b, arrivals)        by one thread, which then calls fence_mbarrier_init(); a barrier of the
//                                       block, or of the cluster where other blocks arrive on it, comes before any
//                                       use
//     mbarrier_invalidate(b)            afterwards its memory may be used for something else
//     mbarrier_arrive(b)                releases this thread's earlier accesses
//     mbarrier_expect(b, bytes)         this phase also waits for so many bytes of copies
//     mbarrier_arrive_expect(b, bytes)  both at once
//     mbarrier_arrive_remote(b, rank)   on the same barrier of any block of the cluster. It waits for this thread's
//                                       earlier accesses of global memory, about 1 us; ..._relaxed orders nothing:
//                                       enough after wgmma_wait, where the stage was read by products alone
//     copy_async_16(shared, global, take, hint)  kernel.cuh's, with a hint
//     copy_async_arrive(b)              arrives once all copy_async_16 and copy_async_4 of this thread so far have
//                                       landed; it is one of the arrivals that the barrier was made for. What reads
//                                       them after the barrier by products needs a fence_async() of its own first
//     mbarrier_wait(b, phase)           waits until the phase of this parity is complete: 0 for the first, 1 for the
//                                       second, 0 again; 1 on a fresh barrier returns at once
//     mbarrier_wait_cluster(b, phase)   the same, and sees what other blocks wrote before they arrived
//     mbarrier_try_wait(b, phase)       -> bool; may wait a short while
//
//   Addresses     SharedArray<T>(first) the address of an array in shared memory, computed once: from a pointer the
//                                       compiler would compute it again at every use. An array of barriers is taken by
//                                       mbarrier_wait(array, i, phase), mbarrier_wait_cluster(array, i, phase),
//                                       mbarrier_arrive(array, i),
//                                       copy_async_arrive(array, i),
//                                       mbarrier_arrive_expect(array, i, bytes) and
//                                       mbarrier_arrive_remote_relaxed(array, i, rank), with one of bytes by
//                                       tma_load(bytes, first, map, array, i, ...), to byte `first` on, one of f32 by
//                                       load_shared(v, array, i): v is an array of 1 or 2 f32, that or those from
//                                       element i on, one of bytes by load_shared_16(array, bytes): a vec16, from byte
//                                       `bytes` on
//
//   Matrices      8x8 of 16-bit elements: lane l gives the address of row l % 8 of matrix l / 8, 16-byte aligned
//     load_matrix<transposed>(v, row)   v is an array of 1, 2 or 4 u32; lane l gets elements 2 (l % 4) and the next
//                                       of row l / 4 of each matrix, or of its transpose
//     store_matrix<transposed>(row, v)  the other way round
//
//   Election      elect_one()           true in one lane of the warp, always the same; all lanes take part
//   Named         arrive_named(id, threads)  counts this warp on barrier `id` without waiting, where sync_named waits
//                 meet_named(id, threads)    sync_named for warps that wait at different places of the code, which
//                                            compute-sanitizer's synccheck reports at sync_named
//
//   Clusters      cluster_rank() cluster_size()  of the launch's cluster; 0 and 1 where it has none
//     cluster_arrive() cluster_wait()   the two halves of a barrier of all threads of all its blocks; releases,
//                                       acquires. cluster_arrive_relaxed() orders nothing; cluster_arrive_shared()
//                                       releases what the thread wrote to its own block's shared memory alone, and
//                                       so does not wait for global memory. sync_cluster() is both halves,
//                                       sync_cluster_shared() likewise
//     cluster_address(shared, rank)     u32: the same place in another block; add bytes to go on from there
//     load_cluster<T>(address) store_cluster(address, v)
//                                       T of 4, 8 or 16 bytes. No block may return while others access its memory
//     store_async(address, v, barrier)  stores to another block without waiting for completion: its bytes count on a
//                                       barrier of that block, whose cluster address `barrier` is. A thread that has
//                                       waited for it (by mbarrier_wait_cluster) sees v; no block may return while such
//                                       stores to it are in flight
//     bulk_store_cluster(address, shared, bytes, barrier)
//                                       the same of as many bytes of this block's shared memory, a multiple of 16,
//                                       aligned to 16: a bulk copy, before which comes a fence_async() in the threads
//                                       that wrote them
//
// griddepcontrol is wait_for_previous_grid and launch_next_grid of kernel.cuh.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/kernel.cuh"
#include "common/sm90/layout.cuh"

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

}  // namespace q

#include "common/sm90/tma_backend.cuh"

namespace q {

QUERN_DEVICE void sync_cluster() {
  cluster_arrive();
  cluster_wait();
}
QUERN_DEVICE void sync_cluster_shared() {
  cluster_arrive_shared();
  cluster_wait();
}

}  // namespace q
