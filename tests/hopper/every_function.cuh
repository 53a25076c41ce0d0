// Every function of the layer with every kind of argument, to be compiled: it does nothing sensible, and is not run.
// SPDX-License-Identifier: Apache-2.0
#include "common/sm90/wgmma.cuh"

namespace q::hopper {

struct Params {
  u8* global;
  f32* sums;
  u32 size;
};

template <int rank, class... C>
QUERN_DEVICE void tensor_copies(const TensorMap& map, u8* shared, Mbarrier& b, C... c) {
  tma_load(shared, map, b, CacheHint::normal, c...);
  tma_load_multicast(shared, map, b, 3, CacheHint::evict_last, c...);
  tma_prefetch(map, CacheHint::evict_first, c...);
  tma_store(map, shared, CacheHint::normal, c...);
  tma_add(map, shared, CacheHint::normal, c...);
  if constexpr (rank < 5) tensor_copies<rank + 1>(map, shared, b, c..., rank);
}

template <class A, class B, Major a_major, Major b_major, int n>
QUERN_DEVICE void product(const u8* shared, f32* out) {
  f32 d[n / 2];
  const u32 in_registers[4] = {1, 2, 3, static_cast<u32>(thread_index())};
  const u64 a = matrix_descriptor(
      shared, a_major == Major::k ? k_major_layout(Swizzle::bytes128) : mn_major_layout(Swizzle::bytes64, 16));
  const u64 b = matrix_descriptor(shared + 8192, matrix_layout(Swizzle::none, 128, 256));
  wgmma_fence();
  wgmma<A, B, a_major, b_major>(d, a, b, false);
  wgmma<A, B, a_major, b_major>(d, advanced(a, 32), advanced(b, 32), out != nullptr);
  if constexpr (a_major == Major::k) wgmma<A, B, a_major, b_major>(d, in_registers, b, true);
  wgmma_commit();
  wgmma_wait<0>(d);
  for (int i = 0; i < n / 2; ++i) out[i * 128 + thread_index()] = d[i];
}

template <class T, int n>
QUERN_DEVICE void all_majors(const u8* shared, f32* out) {
  product<T, T, Major::k, Major::k, n>(shared, out);
  product<T, T, Major::k, Major::mn, n>(shared, out);
  product<T, T, Major::mn, Major::k, n>(shared, out);
  product<T, T, Major::mn, Major::mn, n>(shared, out);
}

template <bool transposed, int count>
QUERN_DEVICE void matrices(u8* row) {
  u32 v[count];
  load_matrix<transposed>(v, row);
  store_matrix<transposed>(row + 512, v);
}

}  // namespace q::hopper

#if PART == 0
QUERN_KERNEL(k, 256, 1, QUERN_PARAM q::hopper::Params p, QUERN_PARAM q::TensorMap map) {
  using namespace q;
  QUERN_SHARED(Mbarrier, barriers, 2);
  u8* const shared = tile_shared();
  prefetch_tensor_map(map);
  if (warp() == 0 && elect_one()) {
    mbarrier_init(barriers[0], 1);
    mbarrier_init(barriers[1], 128);
    fence_mbarrier_init();
  }
  sync_cluster();
  hopper::tensor_copies<1>(map, shared, barriers[0], thread_index());
  bulk_load(shared, p.global, p.size, barriers[0], CacheHint::evict_first);
  bulk_store(p.global, shared, p.size, CacheHint::normal);
  bulk_add(p.sums, shared, p.size);
  tma_commit();
  tma_wait_read<1>();
  tma_wait<0>();
  fence_async();
  fence_async_global();
  mbarrier_expect(barriers[0], p.size);
  mbarrier_arrive_expect(barriers[0], p.size);
  mbarrier_arrive(barriers[1]);
  copy_async_16(shared, p.global, true);
  copy_async_arrive(barriers[1]);
  mbarrier_arrive_remote(barriers[1], cluster_rank() ^ 1);
  mbarrier_arrive_remote_relaxed(barriers[1], cluster_rank() ^ 1);
  while (!mbarrier_try_wait(barriers[0], 0)) {
  }
  mbarrier_wait(barriers[1], 1);
  mbarrier_wait_cluster(barriers[1], 1);
  mbarrier_invalidate(barriers[1]);
  hopper::matrices<false, 1>(shared);
  hopper::matrices<false, 2>(shared);
  hopper::matrices<false, 4>(shared);
  hopper::matrices<true, 1>(shared);
  hopper::matrices<true, 2>(shared);
  hopper::matrices<true, 4>(shared);
  arrive_named(1, 256);
  sync_named(2, 256);
  meet_named(3, 256);
  cluster_arrive_relaxed();
  cluster_wait();
  cluster_arrive();
  cluster_wait();
  const u32 there = cluster_address(shared, cluster_size() - 1);
  store_cluster(there, load_cluster<u32>(there + 16));
  store_cluster(there + 16, load_cluster<u64>(there + 32));
  store_cluster(there + 32, load_cluster<vec16>(there + 48));
  const u32 counted = cluster_address(&barriers[1], cluster_size() - 1);
  store_async(there, load_cluster<u32>(there + 16), counted);
  store_async(there + 16, load_cluster<u64>(there + 32), counted);
  store_async(there + 32, load_cluster<vec16>(there + 48), counted);
  bulk_store_cluster(there + 64, shared, 64, counted);
  if (warp() < 4) {
    registers_shrink<40>();
  } else {
    registers_grow<232>();
  }
}
#elif PART == 1
QUERN_KERNEL(k, 128, 1, QUERN_PARAM q::hopper::Params p) {
  using namespace q;
  hopper::all_majors<bf16, 64>(tile_shared(), p.sums);
  hopper::all_majors<f16, 24>(tile_shared(), p.sums);
  hopper::product<e4m3, e4m3, Major::k, Major::k, 128>(tile_shared(), p.sums);
  hopper::product<e4m3, e5m2, Major::k, Major::k, 64>(tile_shared(), p.sums);
  hopper::product<e5m2, e4m3, Major::k, Major::k, 40>(tile_shared(), p.sums);
  hopper::product<e5m2, e5m2, Major::k, Major::k, 8>(tile_shared(), p.sums);
}
#else
QUERN_KERNEL(k, 128, 1, QUERN_PARAM q::hopper::Params p) {
  using namespace q;
  hopper::product<e4m3, e4m3, Major::k, Major::k, N>(tile_shared(), p.sums);
  hopper::product<bf16, bf16, Major::k, Major::k, N>(tile_shared(), p.sums);
}
#endif
