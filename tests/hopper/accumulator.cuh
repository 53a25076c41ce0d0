// Two products in a row as attention has them: D[64][N] = A B^T, then E[64][64] = P V with P = D as an operand in
// registers. Between them what common/sm90/accumulator.cuh does with D.
// SPDX-License-Identifier: Apache-2.0
#include "common/sm90/accumulator.cuh"
#include "common/sm90/wgmma.cuh"

namespace q::accumulator {

struct Params {
  const void* a;  // [64][128 bytes]
  const void* b;  // [N][128 bytes]
  const void* v;  // 16 bits: [N][64]; 8 bits: [64][N], its k laid out by operand_column
  f32* rows;      // [64][3]: maximum, sum, how many threads said so
  f32* kept;      // [64][N]
  f32* e;         // [64][64]
  u32* turned;    // [N / 32][64][4][4]: which row and column each word of two columns came from, as bytes
};

inline constexpr bool kWide = sizeof(TYPE) == 2;
inline constexpr int kSteps = N / (kWide ? 16 : 32);

QUERN_DEVICE void multiply(f32 (&e)[32], const f32 (&d)[N / 2], const u8* v) {
  u32 p[kSteps][4];
  to_operand<TYPE>(d, p);
  wgmma_fence();
  QUERN_UNROLL for (int step = 0; step < kSteps; ++step) {
    if constexpr (kWide) {
      const u64 at = matrix_descriptor(v + step * 16 * 128, mn_major_layout(Swizzle::bytes128, N));
      wgmma<TYPE, TYPE, Major::k, Major::mn>(e, p[step], at, step > 0);
    } else {
      const u64 at = matrix_descriptor(v, k_major_layout(Swizzle::bytes128));
      wgmma<TYPE>(e, p[step], advanced(at, static_cast<u32>(step) * 32), step > 0);
    }
  }
  wgmma_commit();
  wgmma_wait<0>(e);
}

}  // namespace q::accumulator

QUERN_KERNEL(k, 128, 1, QUERN_PARAM q::accumulator::Params p) {
  using namespace q;
  u8* const tile_a = tile_shared();
  u8* const tile_b = tile_a + 8192;
  u8* const tile_v = tile_b + N * 128;
  const int t = thread_index();
  const auto fill = [&](u8* tile, const void* from, int bytes) {
    for (int at = t; at < bytes; at += 128) {
      tile[swizzled(static_cast<u32>(at), Swizzle::bytes128)] = static_cast<const u8*>(from)[at];
    }
  };
  fill(tile_a, p.a, 64 * 128);
  fill(tile_b, p.b, N * 128);
  fill(tile_v, p.v, accumulator::kWide ? N * 128 : 64 * 128);
  fence_async();
  sync_block();
  f32 d[N / 2];
  const u64 a = matrix_descriptor(tile_a, k_major_layout(Swizzle::bytes128));
  const u64 b = matrix_descriptor(tile_b, k_major_layout(Swizzle::bytes128));
  wgmma_fence();
  QUERN_UNROLL for (u32 k = 0; k < 128; k += 32) wgmma<TYPE>(d, advanced(a, k), advanced(b, k), k > 0);
  wgmma_commit();
  wgmma_wait<0>(d);

  f32 most[2] = {-infinity(), -infinity()}, total[2] = {0.0f, 0.0f};
  maximum(d, most);
  sum(d, total);
  for (int h = 0; h < 2; ++h) {
    f32* const row = p.rows + accumulator_row(t, h) * 3;
    const f32 all = quad_sum(total[h]), top = quad_max(most[h]);
    if (t % 4 == 3) row[0] = top, row[1] = all;
    atomic_add(row + 2, 1.0f);
  }
  f32 kept[N / 2];
  i32 from[2], to[2];
  for (int h = 0; h < 2; ++h) {
    const i32 row = accumulator_row(t, h);
    from[h] = row % 7 - 2;
    to[h] = row % 11 == 0 ? from[h] - 1 : N - row % 5;
  }
  QUERN_UNROLL for (int i = 0; i < N / 2; ++i) kept[i] = d[i];
  keep_columns(kept, t, from, to);
  QUERN_UNROLL for (int i = 0; i < N / 2; ++i) {
    p.kept[accumulator_row(t, half_of(i)) * N + accumulator_column(t, i)] = kept[i];
  }
  QUERN_UNROLL for (int i = 0; i + 16 <= N / 2; i += 16) {
    QUERN_UNROLL for (int h = 0; h < 2; ++h) {
      u32 v[4];
      QUERN_UNROLL for (int j = 0; j < 4; ++j) {
        v[j] = static_cast<u32>(accumulator_row(t, h) << 8 | accumulator_column(t, i + j * 4));
      }
      transpose_quad(v, t);
      u32* const to = p.turned + ((i / 16 * 64 + accumulator_row(t, h)) * 4 + t % 4) * 4;
      QUERN_UNROLL for (int j = 0; j < 4; ++j) to[j] = v[j];
    }
  }
  f32 e[32];
  accumulator::multiply(e, d, tile_v);
  const f32 factors[2] = {2.0f, 0.5f};
  scale_rows(e, factors);
  QUERN_UNROLL for (int i = 0; i < 32; ++i) {
    p.e[accumulator_row(t, half_of(i)) * 64 + accumulator_column(t, i)] = e[i];
  }
}
