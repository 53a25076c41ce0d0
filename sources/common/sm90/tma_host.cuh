// Copies by tensor map and their barriers on the CPU: everything is handed to the executor (jit/host), which knows what
// is asynchronous.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/kernel.cuh"

// Told for each kernel that takes a tensor map: alignment of 64 bytes is passed otherwise than by compilers before
// 2011.
#ifndef __clang__
#pragma GCC diagnostic ignored "-Wpsabi"
#endif

namespace q {

// ---- Shared memory: the executor aligns it so for every kernel
QUERN_DEVICE u8* tile_shared() { return dynamic_shared(); }
QUERN_DEVICE u32 shared_address(const void* p) { return host::table->shared_address(p); }

// ---- Copies
namespace host {
template <class... C>
QUERN_DEVICE void bulk(CopyForm form, const TensorMap& map, void* shared, Mbarrier* barrier, u32 ranks, C... c) {
  static_assert(sizeof...(C) >= 1 && sizeof...(C) <= 5, "a tensor map has 1 to 5 dimensions");
  const BulkCopy copy{form, &map, shared, barrier, ranks, sizeof...(C), {static_cast<i32>(c)...}, nullptr, 0};
  table->bulk(&copy);
}
QUERN_DEVICE void bulk_plain(CopyForm form, void* shared, void* global, u32 bytes, Mbarrier* barrier) {
  const BulkCopy copy{form, nullptr, shared, barrier, 0, 0, {}, global, bytes};
  table->bulk(&copy);
}
}  // namespace host
QUERN_DEVICE void prefetch_tensor_map(const TensorMap&) {}
template <class... C>
QUERN_DEVICE void tma_load(void* shared, const TensorMap& map, Mbarrier& b, CacheHint, C... c) {
  host::bulk(host::CopyForm::load, map, shared, &b, 0, c...);
}
template <class... C>
QUERN_DEVICE void tma_load_multicast(void* shared, const TensorMap& map, Mbarrier& b, u32 ranks, CacheHint, C... c) {
  host::bulk(host::CopyForm::load, map, shared, &b, ranks, c...);
}
template <class... C>
QUERN_DEVICE void tma_prefetch(const TensorMap& map, CacheHint, C... c) {
  host::bulk(host::CopyForm::prefetch, map, nullptr, nullptr, 0, c...);
}
template <class... C>
QUERN_DEVICE void tma_store(const TensorMap& map, const void* shared, CacheHint, C... c) {
  host::bulk(host::CopyForm::store, map, const_cast<void*>(shared), nullptr, 0, c...);
}
template <class... C>
QUERN_DEVICE void tma_add(const TensorMap& map, const void* shared, CacheHint, C... c) {
  host::bulk(host::CopyForm::add, map, const_cast<void*>(shared), nullptr, 0, c...);
}
QUERN_DEVICE void bulk_load(void* shared, const void* global, u32 bytes, Mbarrier& b, CacheHint) {
  host::bulk_plain(host::CopyForm::load, shared, const_cast<void*>(global), bytes, &b);
}
QUERN_DEVICE void bulk_store(void* global, const void* shared, u32 bytes, CacheHint) {
  host::bulk_plain(host::CopyForm::store, const_cast<void*>(shared), global, bytes, nullptr);
}
QUERN_DEVICE void bulk_add(f32* global, const void* shared, u32 bytes) {
  host::bulk_plain(host::CopyForm::add, const_cast<void*>(shared), global, bytes, nullptr);
}
QUERN_DEVICE void tma_commit() { host::table->bulk_commit(); }
template <int n>
QUERN_DEVICE void tma_wait_read() {
  host::table->bulk_wait(n, 1);
}
template <int n>
QUERN_DEVICE void tma_wait() {
  host::table->bulk_wait(n, 0);
}
// There is one view of memory here. The executor keeps beside it what copies out of shared memory and products are sure
// to see; what lacks the other fence is not found out.
QUERN_DEVICE void fence_async() { host::table->fence_async(); }
QUERN_DEVICE void fence_async_global() {}

// ---- Barriers in shared memory
QUERN_DEVICE void mbarrier_init(Mbarrier& b, u32 arrivals) { host::table->mbarrier_init(&b, arrivals); }
QUERN_DEVICE void fence_mbarrier_init() { host::table->fence_mbarrier_init(); }
QUERN_DEVICE void mbarrier_invalidate(Mbarrier& b) { host::table->mbarrier_invalidate(&b); }
QUERN_DEVICE void mbarrier_arrive(Mbarrier& b) { host::table->mbarrier_arrive(&b, 1, 0); }
QUERN_DEVICE void mbarrier_expect(Mbarrier& b, u32 bytes) { host::table->mbarrier_arrive(&b, 0, bytes); }
QUERN_DEVICE void mbarrier_arrive_expect(Mbarrier& b, u32 bytes) { host::table->mbarrier_arrive(&b, 1, bytes); }
QUERN_DEVICE void mbarrier_arrive_remote(Mbarrier& b, u32 rank) { host::table->mbarrier_arrive_remote(&b, rank, 0); }
QUERN_DEVICE void mbarrier_arrive_remote_relaxed(Mbarrier& b, u32 rank) {
  host::table->mbarrier_arrive_remote(&b, rank, 1);
}
QUERN_DEVICE void copy_async_arrive(Mbarrier& b) {
  if (host::seeded()) {
    host::table->copy_arrive(&b);
  } else {
    mbarrier_arrive(b);  // the copies were made at once
  }
}
QUERN_DEVICE bool mbarrier_try_wait(Mbarrier& b, u32 phase) { return host::table->mbarrier_try_wait(&b, phase) != 0; }
QUERN_DEVICE void mbarrier_wait(Mbarrier& b, u32 phase) { host::table->mbarrier_wait(&b, phase); }
QUERN_DEVICE void mbarrier_wait_cluster(Mbarrier& b, u32 phase) { host::table->mbarrier_wait(&b, phase); }

// ---- Addresses
template <class T>
struct SharedArray {
  const T* first;
  QUERN_DEVICE explicit SharedArray(const T* at) : first(at) {}
};
QUERN_DEVICE Mbarrier& barrier_of(const SharedArray<Mbarrier>& b, i32 i) { return const_cast<Mbarrier*>(b.first)[i]; }
QUERN_DEVICE void mbarrier_wait(const SharedArray<Mbarrier>& b, i32 i, u32 phase) {
  mbarrier_wait(barrier_of(b, i), phase);
}
QUERN_DEVICE void mbarrier_wait_cluster(const SharedArray<Mbarrier>& b, i32 i, u32 phase) {
  mbarrier_wait_cluster(barrier_of(b, i), phase);
}
QUERN_DEVICE void mbarrier_arrive(const SharedArray<Mbarrier>& b, i32 i) { mbarrier_arrive(barrier_of(b, i)); }
QUERN_DEVICE void mbarrier_arrive_remote_relaxed(const SharedArray<Mbarrier>& b, i32 i, u32 rank) {
  mbarrier_arrive_remote_relaxed(barrier_of(b, i), rank);
}
QUERN_DEVICE void mbarrier_arrive_expect(const SharedArray<Mbarrier>& b, i32 i, u32 bytes) {
  mbarrier_arrive_expect(barrier_of(b, i), bytes);
}
QUERN_DEVICE void copy_async_arrive(const SharedArray<Mbarrier>& b, i32 i) { copy_async_arrive(barrier_of(b, i)); }
template <class... C>
QUERN_DEVICE void tma_load(const SharedArray<u8>& to, i32 bytes, const TensorMap& map, const SharedArray<Mbarrier>& b,
                           i32 i, CacheHint hint, C... c) {
  tma_load(const_cast<u8*>(to.first) + bytes, map, barrier_of(b, i), hint, c...);
}
template <int count>
QUERN_DEVICE void load_shared(f32 (&v)[count], const SharedArray<f32>& array, i32 i) {
  static_assert(count == 1 || count == 2, "one or two");
  for (int e = 0; e < count; ++e) v[e] = array.first[i + e];
}
QUERN_DEVICE vec16 load_shared_16(const SharedArray<u8>& array, i32 bytes) { return load16(array.first + bytes); }

// ---- Matrices
namespace host {
struct MatrixLane {
  u32* v;
  u8* row;
};
template <bool transposed, bool store, int count>
void move_matrices(void* const* lanes) {
  const auto lane = [&](int l) { return static_cast<const MatrixLane*>(lanes[l]); };
  for (int m = 0; m < count; ++m) {
    for (int i = 0; i < 64; ++i) {
      const int row = i >> 3, column = i & 7;
      u16* const there = reinterpret_cast<u16*>(lane(8 * m + row)->row) + column;
      const int held_row = transposed ? column : row, held_column = transposed ? row : column;
      u16* const here = reinterpret_cast<u16*>(lane(4 * held_row + (held_column >> 1))->v + m) + (held_column & 1);
      if (store) {
        *there = *here;
      } else {
        *here = *there;
      }
    }
  }
}
}  // namespace host
template <bool transposed, int count>
QUERN_DEVICE void load_matrix(u32 (&v)[count], const void* row) {
  static_assert(count == 1 || count == 2 || count == 4, "ldmatrix loads 1, 2 or 4 matrices");
  host::MatrixLane mine{v, static_cast<u8*>(const_cast<void*>(row))};
  host::table->together(host::Together::load_matrix, &mine, host::move_matrices<transposed, false, count>);
}
template <bool transposed, int count>
QUERN_DEVICE void store_matrix(void* row, const u32 (&v)[count]) {
  static_assert(count == 1 || count == 2 || count == 4, "stmatrix stores 1, 2 or 4 matrices");
  host::MatrixLane mine{const_cast<u32*>(v), static_cast<u8*>(row)};
  host::table->together(host::Together::store_matrix, &mine, host::move_matrices<transposed, true, count>);
}

// ---- Ordinary asynchronous copies with a hint
QUERN_DEVICE void copy_async_16(void* shared, const void* global, bool take, CacheHint) {
  copy_async_16(shared, global, take);
}

// ---- Election, named barriers
QUERN_DEVICE bool elect_one() { return host::table->elect() != 0; }
QUERN_DEVICE void arrive_named(int id, int threads) {
  host::table->arrive_named(static_cast<u32>(id), static_cast<u32>(threads));
}
QUERN_DEVICE void meet_named(int id, int threads) { sync_named(id, threads); }

// ---- Cluster
QUERN_DEVICE u32 cluster_rank() { return host::self()->block->cluster_rank; }
QUERN_DEVICE u32 cluster_size() { return host::self()->block->cluster_size; }
QUERN_DEVICE void cluster_arrive() { host::table->cluster_arrive(0); }
QUERN_DEVICE void cluster_arrive_relaxed() { host::table->cluster_arrive(1); }
QUERN_DEVICE void cluster_arrive_shared() { cluster_arrive(); }
QUERN_DEVICE void cluster_wait() { host::table->cluster_wait(); }
QUERN_DEVICE u32 cluster_address(const void* shared, u32 rank) { return host::table->cluster_address(shared, rank); }
template <class T>
QUERN_DEVICE T load_cluster(u32 address) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8 || sizeof(T) == 16, "4, 8 or 16 bytes");
  return *static_cast<const T*>(host::table->cluster_pointer(address, sizeof(T), 1));
}
template <class T>
QUERN_DEVICE void store_cluster(u32 address, T value) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8 || sizeof(T) == 16, "4, 8 or 16 bytes");
  *static_cast<T*>(host::table->cluster_pointer(address, sizeof(T), 0)) = value;
}
template <class T>
QUERN_DEVICE void store_async(u32 address, T value, u32 barrier) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8 || sizeof(T) == 16, "4, 8 or 16 bytes");
  host::table->store_async(address, &value, sizeof(T), barrier);
}
// What lies there is taken at once: a source that is written too early is not found out.
QUERN_DEVICE void bulk_store_cluster(u32 address, const void* shared, u32 bytes, u32 barrier) {
  for (u32 i = 0; i < bytes; i += 16) {
    host::table->store_async(address + i, static_cast<const u8*>(shared) + i, 16, barrier);
  }
}

}  // namespace q
