// Bulk copies one at a time: a box into shared memory, whose bytes are then written out as they lie; and bytes as they
// lie out of shared memory into a tensor.
// SPDX-License-Identifier: Apache-2.0
#include "common/sm90/warpgroup.cuh"

#if RANK == 1
#define COORDINATES p.at[0]
#elif RANK == 2
#define COORDINATES p.at[0], p.at[1]
#elif RANK == 3
#define COORDINATES p.at[0], p.at[1], p.at[2]
#elif RANK == 4
#define COORDINATES p.at[0], p.at[1], p.at[2], p.at[3]
#else
#define COORDINATES p.at[0], p.at[1], p.at[2], p.at[3], p.at[4]
#endif

namespace q::copies {

enum Mode : int { kLoad, kStore, kAdd, kPlainLoad, kPlainStore, kPlainAdd };

struct Params {
  u8* image;   // what lies in shared memory, `bytes` of it
  u8* memory;  // of the plain copies
  u32 bytes;
  int mode;
  int at[5];
};

QUERN_DEVICE void load(const Params& p, const TensorMap& map, u8* tile, Mbarrier& full) {
  if (thread_index() == 0) {
    mbarrier_init(full, 1);
    fence_mbarrier_init();
    mbarrier_arrive_expect(full, p.bytes);
    if (p.mode == kPlainLoad) {
      bulk_load(tile, p.memory, p.bytes, full, CacheHint::evict_first);
    } else {
      prefetch_tensor_map(map);
      tma_prefetch(map, CacheHint::normal, COORDINATES);
      tma_load(tile, map, full, CacheHint::normal, COORDINATES);
    }
  }
  sync_block();
  mbarrier_wait(full, 0);
  for (u32 i = static_cast<u32>(thread_index()); i < p.bytes; i += 64) p.image[i] = tile[i];
}

QUERN_DEVICE void store(const Params& p, const TensorMap& map, u8* tile) {
  for (u32 i = static_cast<u32>(thread_index()); i < p.bytes; i += 64) tile[i] = p.image[i];
  fence_async();
  sync_block();
  if (thread_index() != 0) return;
  if (p.mode == kPlainStore) {
    bulk_store(p.memory, tile, p.bytes, CacheHint::normal);
  } else if (p.mode == kPlainAdd) {
    bulk_add(reinterpret_cast<f32*>(p.memory), tile, p.bytes);
  } else if (p.mode == kStore) {
    tma_store(map, tile, CacheHint::evict_last, COORDINATES);
  } else {
    tma_add(map, tile, CacheHint::normal, COORDINATES);
  }
  tma_commit();
  tma_wait_read<0>();
  tma_wait<0>();
}

}  // namespace q::copies

QUERN_KERNEL(k, 64, 1, QUERN_PARAM q::copies::Params p, QUERN_PARAM q::TensorMap map) {
  using namespace q;
  QUERN_SHARED(Mbarrier, full, 1);
  if (p.mode == copies::kLoad || p.mode == copies::kPlainLoad) {
    copies::load(p, map, tile_shared(), full[0]);
  } else {
    copies::store(p, map, tile_shared());
  }
}
