// Copies by tensor map and their barriers as PTX, sm_90 and up.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/kernel.cuh"

namespace q {

// ---- Shared memory: the same bytes as quern_dynamic_shared, with a stricter alignment
extern __shared__ __align__(1024) u8 quern_tile_shared[];
QUERN_DEVICE u8* tile_shared() { return quern_tile_shared; }

// ---- Tensor memory accelerator
QUERN_DEVICE void prefetch_tensor_map(const TensorMap& map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
}

namespace tma {
// All forms share one list of operands, the coordinates last; each form names those that it uses.
//   %0 map  %1 shared  %2 barrier  %3 cache hint  %4 blocks  %5... coordinates
#define QUERN_TMA_LOAD(rank, at)                                                                                      \
  "cp.async.bulk.tensor." rank "d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%1], [%0, {" at \
  "}], [%2], %3;"
#define QUERN_TMA_MULTICAST(rank, at)                                                       \
  "cp.async.bulk.tensor." rank                                                              \
  "d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster.L2::cache_hint" \
  " [%1], [%0, {" at "}], [%2], %4, %3;"
#define QUERN_TMA_PREFETCH(rank, at) \
  "cp.async.bulk.prefetch.tensor." rank "d.L2.global.L2::cache_hint [%0, {" at "}], %3;"
#define QUERN_TMA_STORE(rank, at) \
  "cp.async.bulk.tensor." rank "d.global.shared::cta.bulk_group.L2::cache_hint [%0, {" at "}], [%1], %3;"
#define QUERN_TMA_ADD(rank, at) \
  "cp.reduce.async.bulk.tensor." rank "d.global.shared::cta.add.bulk_group.L2::cache_hint [%0, {" at "}], [%1], %3;"

#define QUERN_TMA_OPERANDS "l"(&map), "r"(shared), "r"(barrier), "l"(static_cast<u64>(hint)), "h"(blocks)
#define QUERN_TMA_BY_RANK(FORM)                                                                                        \
  if constexpr (rank == 1) {                                                                                           \
    asm volatile(FORM("1", "%5")::QUERN_TMA_OPERANDS, "r"(c[0]) : "memory");                                           \
  } else if constexpr (rank == 2) {                                                                                    \
    asm volatile(FORM("2", "%5,%6")::QUERN_TMA_OPERANDS, "r"(c[0]), "r"(c[1]) : "memory");                             \
  } else if constexpr (rank == 3) {                                                                                    \
    asm volatile(FORM("3", "%5,%6,%7")::QUERN_TMA_OPERANDS, "r"(c[0]), "r"(c[1]), "r"(c[2]) : "memory");               \
  } else if constexpr (rank == 4) {                                                                                    \
    asm volatile(FORM("4", "%5,%6,%7,%8")::QUERN_TMA_OPERANDS, "r"(c[0]), "r"(c[1]), "r"(c[2]), "r"(c[3]) : "memory"); \
  } else {                                                                                                             \
    asm volatile(FORM("5", "%5,%6,%7,%8,%9")::QUERN_TMA_OPERANDS, "r"(c[0]), "r"(c[1]), "r"(c[2]), "r"(c[3]),          \
                 "r"(c[4])                                                                                             \
                 : "memory");                                                                                          \
  }

enum class Form { load, multicast, prefetch, store, add };
template <Form form, int rank>
QUERN_DEVICE void issue(const TensorMap& map, u32 shared, u32 barrier, CacheHint hint, u16 blocks,
                        const i32 (&c)[rank]) {
  static_assert(rank >= 1 && rank <= 5, "a tensor map has 1 to 5 dimensions");
  if constexpr (form == Form::load) {
    QUERN_TMA_BY_RANK(QUERN_TMA_LOAD)
  } else if constexpr (form == Form::multicast) {
    QUERN_TMA_BY_RANK(QUERN_TMA_MULTICAST)
  } else if constexpr (form == Form::prefetch) {
    QUERN_TMA_BY_RANK(QUERN_TMA_PREFETCH)
  } else if constexpr (form == Form::store) {
    QUERN_TMA_BY_RANK(QUERN_TMA_STORE)
  } else {
    QUERN_TMA_BY_RANK(QUERN_TMA_ADD)
  }
}
#undef QUERN_TMA_BY_RANK
#undef QUERN_TMA_OPERANDS
#undef QUERN_TMA_LOAD
#undef QUERN_TMA_MULTICAST
#undef QUERN_TMA_PREFETCH
#undef QUERN_TMA_STORE
#undef QUERN_TMA_ADD
}  // namespace tma

template <class... C>
QUERN_DEVICE void tma_load(void* shared, const TensorMap& map, Mbarrier& barrier, CacheHint hint, C... c) {
  tma::issue<tma::Form::load, sizeof...(C)>(map, shared_address(shared), shared_address(&barrier), hint, 0,
                                            {static_cast<i32>(c)...});
}
template <class... C>
QUERN_DEVICE void tma_load_multicast(void* shared, const TensorMap& map, Mbarrier& barrier, u32 ranks, CacheHint hint,
                                     C... c) {
  tma::issue<tma::Form::multicast, sizeof...(C)>(map, shared_address(shared), shared_address(&barrier), hint,
                                                 static_cast<u16>(ranks), {static_cast<i32>(c)...});
}
template <class... C>
QUERN_DEVICE void tma_prefetch(const TensorMap& map, CacheHint hint, C... c) {
  tma::issue<tma::Form::prefetch, sizeof...(C)>(map, 0, 0, hint, 0, {static_cast<i32>(c)...});
}
template <class... C>
QUERN_DEVICE void tma_store(const TensorMap& map, const void* shared, CacheHint hint, C... c) {
  tma::issue<tma::Form::store, sizeof...(C)>(map, shared_address(shared), 0, hint, 0, {static_cast<i32>(c)...});
}
template <class... C>
QUERN_DEVICE void tma_add(const TensorMap& map, const void* shared, CacheHint hint, C... c) {
  tma::issue<tma::Form::add, sizeof...(C)>(map, shared_address(shared), 0, hint, 0, {static_cast<i32>(c)...});
}
QUERN_DEVICE void bulk_load(void* shared, const void* global, u32 bytes, Mbarrier& barrier, CacheHint hint) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], %4;" ::
          "r"(shared_address(shared)),
      "l"(global), "r"(bytes), "r"(shared_address(&barrier)), "l"(static_cast<u64>(hint))
      : "memory");
}
QUERN_DEVICE void bulk_store(void* global, const void* shared, u32 bytes, CacheHint hint) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group.L2::cache_hint [%0], [%1], %2, %3;" ::"l"(global),
               "r"(shared_address(shared)), "r"(bytes), "l"(static_cast<u64>(hint))
               : "memory");
}
QUERN_DEVICE void bulk_add(f32* global, const void* shared, u32 bytes) {
  asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;" ::"l"(global),
               "r"(shared_address(shared)), "r"(bytes)
               : "memory");
}
QUERN_DEVICE void bulk_store_cluster(u32 address, const void* shared, u32 bytes, u32 barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(address),
      "r"(shared_address(shared)), "r"(bytes), "r"(barrier)
      : "memory");
}
QUERN_DEVICE void tma_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
template <int n>
QUERN_DEVICE void tma_wait_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(n) : "memory");
}
template <int n>
QUERN_DEVICE void tma_wait() {
  asm volatile("cp.async.bulk.wait_group %0;" ::"n"(n) : "memory");
}
QUERN_DEVICE void fence_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
QUERN_DEVICE void fence_async_global() { asm volatile("fence.proxy.async.global;" ::: "memory"); }

// ---- Barriers in shared memory
QUERN_DEVICE void mbarrier_init(Mbarrier& b, u32 arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(&b)), "r"(arrivals) : "memory");
}
QUERN_DEVICE void fence_mbarrier_init() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
QUERN_DEVICE void mbarrier_invalidate(Mbarrier& b) {
  asm volatile("mbarrier.inval.shared::cta.b64 [%0];" ::"r"(shared_address(&b)) : "memory");
}
QUERN_DEVICE void arrive_at(u32 address) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(address) : "memory");
}
QUERN_DEVICE void mbarrier_arrive(Mbarrier& b) { arrive_at(shared_address(&b)); }
QUERN_DEVICE void mbarrier_expect(Mbarrier& b, u32 bytes) {
  asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;" ::"r"(shared_address(&b)), "r"(bytes)
               : "memory");
}
QUERN_DEVICE void arrive_expect_at(u32 address, u32 bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(address), "r"(bytes) : "memory");
}
QUERN_DEVICE void mbarrier_arrive_expect(Mbarrier& b, u32 bytes) { arrive_expect_at(shared_address(&b), bytes); }
QUERN_DEVICE void mbarrier_arrive_remote(Mbarrier& b, u32 rank) {
  asm volatile(
      "{.reg .b32 there;\n"
      "mapa.shared::cluster.u32 there, %0, %1;\n"
      "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [there];}" ::"r"(shared_address(&b)),
      "r"(rank)
      : "memory");
}
QUERN_DEVICE void arrive_remote_relaxed_at(u32 address, u32 rank) {
  asm volatile(
      "{.reg .b32 there;\n"
      "mapa.shared::cluster.u32 there, %0, %1;\n"
      "mbarrier.arrive.relaxed.cluster.shared::cluster.b64 _, [there];}" ::"r"(address),
      "r"(rank)
      : "memory");
}
QUERN_DEVICE void mbarrier_arrive_remote_relaxed(Mbarrier& b, u32 rank) {
  arrive_remote_relaxed_at(shared_address(&b), rank);
}
QUERN_DEVICE void copy_arrive_at(u32 address) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(address) : "memory");
}
QUERN_DEVICE void copy_async_arrive(Mbarrier& b) { copy_arrive_at(shared_address(&b)); }
QUERN_DEVICE bool mbarrier_try_wait(Mbarrier& b, u32 phase) {
  u32 done;
  asm volatile(
      "{.reg .pred p;\n"
      "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
      "selp.u32 %0, 1, 0, p;}"
      : "=r"(done)
      : "r"(shared_address(&b)), "r"(phase)
      : "memory");
  return done != 0;
}
QUERN_DEVICE void wait_at(u32 address, u32 phase) {
  asm volatile(
      "{.reg .pred p;\n"
      "again:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n"
      "@!p bra again;}" ::"r"(address),
      "r"(phase)
      : "memory");
}
QUERN_DEVICE void mbarrier_wait(Mbarrier& b, u32 phase) { wait_at(shared_address(&b), phase); }
QUERN_DEVICE void wait_cluster_at(u32 address, u32 phase) {
  asm volatile(
      "{.reg .pred p;\n"
      "again:\n"
      "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%0], %1;\n"
      "@!p bra again;}" ::"r"(address),
      "r"(phase)
      : "memory");
}
QUERN_DEVICE void mbarrier_wait_cluster(Mbarrier& b, u32 phase) { wait_cluster_at(shared_address(&b), phase); }

// ---- Addresses
template <class T>
struct SharedArray {
  u32 address;
  QUERN_DEVICE explicit SharedArray(const T* first) : address(shared_address(first)) {
    asm volatile("" : "+r"(address));
  }
  QUERN_DEVICE u32 at(i32 i) const { return address + static_cast<u32>(i) * sizeof(T); }
};
QUERN_DEVICE void mbarrier_wait(const SharedArray<Mbarrier>& b, i32 i, u32 phase) { wait_at(b.at(i), phase); }
QUERN_DEVICE void mbarrier_wait_cluster(const SharedArray<Mbarrier>& b, i32 i, u32 phase) {
  wait_cluster_at(b.at(i), phase);
}
QUERN_DEVICE void mbarrier_arrive(const SharedArray<Mbarrier>& b, i32 i) { arrive_at(b.at(i)); }
QUERN_DEVICE void mbarrier_arrive_remote_relaxed(const SharedArray<Mbarrier>& b, i32 i, u32 rank) {
  arrive_remote_relaxed_at(b.at(i), rank);
}
QUERN_DEVICE void mbarrier_arrive_expect(const SharedArray<Mbarrier>& b, i32 i, u32 bytes) {
  arrive_expect_at(b.at(i), bytes);
}
QUERN_DEVICE void copy_async_arrive(const SharedArray<Mbarrier>& b, i32 i) { copy_arrive_at(b.at(i)); }
template <class... C>
QUERN_DEVICE void tma_load(const SharedArray<u8>& to, i32 bytes, const TensorMap& map, const SharedArray<Mbarrier>& b,
                           i32 i, CacheHint hint, C... c) {
  tma::issue<tma::Form::load, sizeof...(C)>(map, to.at(bytes), b.at(i), hint, 0, {static_cast<i32>(c)...});
}
template <int count>
QUERN_DEVICE void load_shared(f32 (&v)[count], const SharedArray<f32>& array, i32 i) {
  static_assert(count == 1 || count == 2, "one or two");
  if constexpr (count == 1) {
    asm volatile("ld.shared.f32 %0, [%1];" : "=f"(v[0]) : "r"(array.at(i)));
  } else {
    asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(v[0]), "=f"(v[1]) : "r"(array.at(i)));
  }
}
QUERN_DEVICE vec16 load_shared_16(const SharedArray<u8>& array, i32 bytes) {
  vec16 v;
  asm volatile("ld.shared.v4.u32 {%0,%1,%2,%3}, [%4];"
               : "=r"(v.x[0]), "=r"(v.x[1]), "=r"(v.x[2]), "=r"(v.x[3])
               : "r"(array.at(bytes))
               : "memory");
  return v;
}

// ---- Matrices
template <bool transposed, int count>
QUERN_DEVICE void load_matrix(u32 (&v)[count], const void* row) {
  static_assert(count == 1 || count == 2 || count == 4, "ldmatrix loads 1, 2 or 4 matrices");
  const u32 at = shared_address(row);
#define QUERN_LDMATRIX(trans)                                                                                        \
  if constexpr (count == 1) {                                                                                        \
    asm volatile("ldmatrix.sync.aligned.m8n8.x1" trans ".shared.b16 {%0}, [%1];" : "=r"(v[0]) : "r"(at) : "memory"); \
  } else if constexpr (count == 2) {                                                                                 \
    asm volatile("ldmatrix.sync.aligned.m8n8.x2" trans ".shared.b16 {%0,%1}, [%2];"                                  \
                 : "=r"(v[0]), "=r"(v[1])                                                                            \
                 : "r"(at)                                                                                           \
                 : "memory");                                                                                        \
  } else {                                                                                                           \
    asm volatile("ldmatrix.sync.aligned.m8n8.x4" trans ".shared.b16 {%0,%1,%2,%3}, [%4];"                            \
                 : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3])                                                    \
                 : "r"(at)                                                                                           \
                 : "memory");                                                                                        \
  }
  if constexpr (transposed) {
    QUERN_LDMATRIX(".trans")
  } else {
    QUERN_LDMATRIX("")
  }
#undef QUERN_LDMATRIX
}
template <bool transposed, int count>
QUERN_DEVICE void store_matrix(void* row, const u32 (&v)[count]) {
  static_assert(count == 1 || count == 2 || count == 4, "stmatrix stores 1, 2 or 4 matrices");
  const u32 at = shared_address(row);
#define QUERN_STMATRIX(trans)                                                                                       \
  if constexpr (count == 1) {                                                                                       \
    asm volatile("stmatrix.sync.aligned.m8n8.x1" trans ".shared.b16 [%0], {%1};" ::"r"(at), "r"(v[0]) : "memory");  \
  } else if constexpr (count == 2) {                                                                                \
    asm volatile("stmatrix.sync.aligned.m8n8.x2" trans ".shared.b16 [%0], {%1,%2};" ::"r"(at), "r"(v[0]), "r"(v[1]) \
                 : "memory");                                                                                       \
  } else {                                                                                                          \
    asm volatile("stmatrix.sync.aligned.m8n8.x4" trans ".shared.b16 [%0], {%1,%2,%3,%4};" ::"r"(at), "r"(v[0]),     \
                 "r"(v[1]), "r"(v[2]), "r"(v[3])                                                                    \
                 : "memory");                                                                                       \
  }
  if constexpr (transposed) {
    QUERN_STMATRIX(".trans")
  } else {
    QUERN_STMATRIX("")
  }
#undef QUERN_STMATRIX
}

// ---- Ordinary asynchronous copies with a hint
QUERN_DEVICE void copy_async_16(void* shared, const void* global, bool take, CacheHint hint) {
  asm volatile(
      "cp.async.cg.shared.global.L2::cache_hint.L2::128B [%0], [%1], 16, %2, %3;" ::"r"(shared_address(shared)),
      "l"(global), "r"(take ? 16 : 0), "l"(static_cast<u64>(hint))
      : "memory");
}

// ---- Election, named barriers
QUERN_DEVICE bool elect_one() {
  u32 elected;
  asm volatile(
      "{.reg .pred p;\n"
      "elect.sync _|p, 0xffffffff;\n"
      "selp.u32 %0, 1, 0, p;}"
      : "=r"(elected));
  return elected != 0;
}
QUERN_DEVICE void arrive_named(int id, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
QUERN_DEVICE void meet_named(int id, int threads) {
  asm volatile("barrier.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

// ---- Cluster
QUERN_DEVICE u32 cluster_rank() {
  u32 rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}
QUERN_DEVICE u32 cluster_size() {
  u32 size;
  asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(size));
  return size;
}
QUERN_DEVICE void cluster_arrive() { asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory"); }
QUERN_DEVICE void cluster_arrive_relaxed() { asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory"); }
// A release at the scope of the cluster waits for global memory (MEMBAR.GPU) unless it is restricted to shared memory,
// which PTX can say since version 8.6.
QUERN_DEVICE void cluster_arrive_shared() {
  sync_warp();
#if __CUDACC_VER_MAJOR__ > 12 || (__CUDACC_VER_MAJOR__ == 12 && __CUDACC_VER_MINOR__ >= 8)
  asm volatile("fence.release.sync_restrict::shared::cta.cluster;" ::: "memory");
  cluster_arrive_relaxed();
#else
  cluster_arrive();
#endif
}
QUERN_DEVICE void cluster_wait() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }
QUERN_DEVICE u32 cluster_address(const void* shared, u32 rank) {
  u32 there;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(shared_address(shared)), "r"(rank));
  return there;
}
template <class T>
QUERN_DEVICE T load_cluster(u32 address) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8 || sizeof(T) == 16, "4, 8 or 16 bytes");
  union {
    u32 x[sizeof(T) / 4];
    T v;
  };
  if constexpr (sizeof(T) == 4) {
    asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(x[0]) : "r"(address) : "memory");
  } else if constexpr (sizeof(T) == 8) {
    asm volatile("ld.shared::cluster.v2.u32 {%0,%1}, [%2];" : "=r"(x[0]), "=r"(x[1]) : "r"(address) : "memory");
  } else {
    asm volatile("ld.shared::cluster.v4.u32 {%0,%1,%2,%3}, [%4];"
                 : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
                 : "r"(address)
                 : "memory");
  }
  return v;
}
template <class T>
QUERN_DEVICE void store_cluster(u32 address, T value) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8 || sizeof(T) == 16, "4, 8 or 16 bytes");
  union {
    T v;
    u32 x[sizeof(T) / 4];
  };
  v = value;
  if constexpr (sizeof(T) == 4) {
    asm volatile("st.shared::cluster.u32 [%0], %1;" ::"r"(address), "r"(x[0]) : "memory");
  } else if constexpr (sizeof(T) == 8) {
    asm volatile("st.shared::cluster.v2.u32 [%0], {%1,%2};" ::"r"(address), "r"(x[0]), "r"(x[1]) : "memory");
  } else {
    asm volatile("st.shared::cluster.v4.u32 [%0], {%1,%2,%3,%4};" ::"r"(address), "r"(x[0]), "r"(x[1]), "r"(x[2]),
                 "r"(x[3])
                 : "memory");
  }
}
template <class T>
QUERN_DEVICE void store_async(u32 address, T value, u32 barrier) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8 || sizeof(T) == 16, "4, 8 or 16 bytes");
#define QUERN_STORE_ASYNC "st.async.shared::cluster.mbarrier::complete_tx::bytes"
  union {
    T v;
    u32 x[sizeof(T) / 4];
  };
  v = value;
  if constexpr (sizeof(T) == 4) {
    asm volatile(QUERN_STORE_ASYNC ".b32 [%0], %1, [%2];" ::"r"(address), "r"(x[0]), "r"(barrier) : "memory");
  } else if constexpr (sizeof(T) == 8) {
    asm volatile(QUERN_STORE_ASYNC ".v2.b32 [%0], {%1,%2}, [%3];" ::"r"(address), "r"(x[0]), "r"(x[1]), "r"(barrier)
                 : "memory");
  } else {
    asm volatile(QUERN_STORE_ASYNC ".v4.b32 [%0], {%1,%2,%3,%4}, [%5];" ::"r"(address), "r"(x[0]), "r"(x[1]), "r"(x[2]),
                 "r"(x[3]), "r"(barrier)
                 : "memory");
  }
#undef QUERN_STORE_ASYNC
}

}  // namespace q
