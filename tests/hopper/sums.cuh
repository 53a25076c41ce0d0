// What WarpgroupSums do with a tile's product, D[64][2 COUNT] = A[64][k] B[2 COUNT][k]^T with 128 bytes of k.
// SPDX-License-Identifier: Apache-2.0
#include "common/registers/warpgroup_sums.cuh"

namespace q::sums {

struct Params {
  const void* a;       // [64][128 bytes]
  const void* b;       // [2 COUNT][128 bytes]
  const f32* columns;  // [2 COUNT], scales
  f32* added;          // [COUNT][128]: the product, twice in each thread's first row, and, where sums can be added
                       // so, itself times `factor`
  f32* negated;        // [groups][128][8]: eight of each group of these, scaled and turned
  f32* pairs;          // [groups][128][2]: two of them
  u8* boxes;           // [groups][4][2048]: the groups of each warp, scaled, turned and, the first eight, negated
};

inline constexpr int kGroups = (COUNT + 31) / 32;
using Sums = WarpgroupSums<0, COUNT>;
using Part = WarpgroupSums<kGroups, COUNT>;
// What sums are stored as.
template <class T>
struct StoredAs {
  using Type = T;
};
template <>
struct StoredAs<i8> {
  using Type = bf16;
};
using Stored = StoredAs<TYPE>::Type;

struct Factor {
  QUERN_DEVICE f32 operator()(int i, int h) const { return (i / 4 + h) % 2 == 0 ? 1.0f : 3.0f; }
};

template <int group>
QUERN_DEVICE void each_group(const Params& p, Sums& sums, const f32* columns, u8* boxes) {
  if constexpr (COUNT - group * 32 >= 16) {
    const int t = thread_index();
    const f32 rows[2] = {2.0f, 0.5f};
    sums.template scale<group>(columns + group * 64, rows);
    sums.template scale<group>(columns + group * 64);
    sums.template rotate<group>();
    f32 x[8];
    sums.template read<group * 32>(x);
    for (int i = 0; i < 8; ++i) p.negated[(group * 128 + t) * 8 + i] = x[i] = -x[i];
    sums.template write<group * 32>(x);
    f32 pair[2];
    sums.template read<group * 32 + 10>(pair);
    for (int i = 0; i < 2; ++i) p.pairs[(group * 128 + t) * 2 + i] = pair[i];
    u8* box = boxes + t / 32 * 2048;
    sums.template store<Stored, group>(box);
    sync_warp();
    for (int i = t % 32; i < 2048; i += 32) p.boxes[(group * 4 + t / 32) * 2048 + i] = box[i];
    sync_warp();
    if constexpr (group + 1 < kGroups) each_group<group + 1>(p, sums, columns, boxes);
  }
}

}  // namespace q::sums

QUERN_KERNEL(k, 128, 1, QUERN_PARAM q::sums::Params p) {
  using namespace q;
  sums::Sums all;
  sums::Part part;
  QUERN_SHARED(f32, columns, 256);
  u8* const tile_a = tile_shared();
  u8* const tile_b = tile_a + 8192;
  u8* const boxes = tile_b + 32768;
  const int t = thread_index();
  for (int at = t; at < 64 * 128; at += 128) {
    tile_a[swizzled(static_cast<u32>(at), Swizzle::bytes128)] = static_cast<const u8*>(p.a)[at];
  }
  for (int at = t; at < 2 * COUNT * 128; at += 128) {
    tile_b[swizzled(static_cast<u32>(at), Swizzle::bytes128)] = static_cast<const u8*>(p.b)[at];
  }
  for (int at = t; at < 4 * 2048; at += 128) boxes[at] = 0;
  for (int at = t; at < 2 * COUNT; at += 128) columns[at] = p.columns[at];
  fence_async();
  sync_block();
  const u64 a = matrix_descriptor(tile_a, k_major_layout(Swizzle::bytes128));
  const u64 b = matrix_descriptor(tile_b, k_major_layout(Swizzle::bytes128));
  // The first half of k from shared memory, the second from registers.
  u32 rest[2][4];
  for (int step = 0; step < 2; ++step) {
    for (int r = 0; r < 4; ++r) {
      const int at = wgmma_a_row(t, r) * 128 + (step + 2) * 32 + wgmma_a_k<TYPE>(t, r) * static_cast<int>(sizeof(TYPE));
      rest[step][r] = *reinterpret_cast<const u32*>(static_cast<const u8*>(p.a) + at);
    }
  }
  wgmma_fence();
  for (u32 k = 0; k < 64; k += 32)
    part.template multiply<TYPE, TYPE, Major::k, Major::k>(advanced(a, k), advanced(b, k), k > 0);
  part.template multiply_steps<TYPE, TYPE, Major::k, 32>(rest, advanced(b, 64));
  wgmma_commit();
  wgmma_wait<0>();
  if constexpr (kIntegerSums<TYPE>) part.integers_to_f32();
  const f32 rows[2] = {2.0f, 1.0f};
  part.scale_rows(rows);
  all.clear();
  all.template add<0>(part);
  if constexpr (COUNT % 32 != 24) all.template add_scaled<0>(part, sums::Factor());
  f32 x[COUNT];
  all.read_all(x);
  for (int i = 0; i < COUNT; ++i) p.added[i * 128 + t] = x[i];
  sums::each_group<0>(p, all, columns, boxes);
}
