// One tile's product by wgmma, D[64][n] = A[64][k] B[n][k]^T with 128 bytes of k, out of tiles that are put together
// here element by element: what holds the layouts, descriptors and fragments against each other.
// SPDX-License-Identifier: Apache-2.0
#include "common/sm90/wgmma.cuh"

#define FORM_K 0          // in shared memory, k-major
#define FORM_MN 1         // in shared memory, mn-major
#define FORM_REGISTERS 2  // A only

namespace q::products {

struct Params {
  const void* a;  // [64][128 bytes]
  const void* b;  // [n][128 bytes]
  f32* d;         // [64][n]
  int n;
  int swizzle;
};

template <class T>
inline constexpr int kDepth = 128 / static_cast<int>(sizeof(T));

// Where element (i, k) of an operand of `count` rows lies from the tile's beginning, before swizzling; i counts m or n.
template <class T, int form>
QUERN_DEVICE u32 place(Swizzle s, int count, int i, int k) {
  const int span = static_cast<int>(swizzle_span(s));
  if (form == FORM_K) {
    const int byte = k * static_cast<int>(sizeof(T));
    return static_cast<u32>(byte / span * count * span + i * span + byte % span);
  }
  const int byte = i * static_cast<int>(sizeof(T));
  if (s == Swizzle::none) return static_cast<u32>((byte / 16 * (kDepth<T> / 8) + k / 8) * 128 + k % 8 * 16 + byte % 16);
  return static_cast<u32>(byte / span * kDepth<T> * span + k * span + byte % span);
}

template <class T, int form>
QUERN_DEVICE u64 layout(Swizzle s, int count) {
  if (form == FORM_K) return s == Swizzle::none ? matrix_layout(s, count * 16, 128) : k_major_layout(s);
  return s == Swizzle::none ? matrix_layout(s, 128, kDepth<T> / 8 * 128) : mn_major_layout(s, kDepth<T>);
}

template <class T, int form>
QUERN_DEVICE void fill(u8* tile, const void* from, Swizzle s, int count) {
  for (int at = thread_index(); at < count * kDepth<T>; at += 128) {
    const u32 to = swizzled(place<T, form>(s, count, at / kDepth<T>, at % kDepth<T>), s);
    *reinterpret_cast<T*>(tile + to) = static_cast<const T*>(from)[at];
  }
}

template <int n>
QUERN_DEVICE void product(const Params& p, const u8* tile_a, const u8* tile_b) {
  constexpr Major kMajorA = A_FORM == FORM_MN ? Major::mn : Major::k,
                  kMajorB = B_FORM == FORM_MN ? Major::mn : Major::k;
  constexpr int kStep = kWgmmaK<TYPE_A>;
  const Swizzle s = static_cast<Swizzle>(p.swizzle);
  const int t = thread_index();
  const u64 a = matrix_descriptor(tile_a, layout<TYPE_A, A_FORM>(s, 64));
  const u64 b = matrix_descriptor(tile_b, layout<TYPE_B, B_FORM>(s, n));
  f32 d[n / 2];
  wgmma_fence();
  QUERN_UNROLL
  for (int k = 0; k < kDepth<TYPE_A>; k += kStep) {
    const u64 b_here = advanced(b, place<TYPE_B, B_FORM>(s, n, 0, k));
    if constexpr (A_FORM == FORM_REGISTERS) {
      u32 held[4];
      for (int r = 0; r < 4; ++r) {
        const int at = wgmma_a_row(t, r) * kDepth<TYPE_A> + k + wgmma_a_k<TYPE_A>(t, r);
        held[r] = *reinterpret_cast<const u32*>(static_cast<const TYPE_A*>(p.a) + at);
      }
      wgmma_fence();
      wgmma<TYPE_A, TYPE_B, kMajorA, kMajorB>(d, held, b_here, k > 0);
    } else {
      wgmma<TYPE_A, TYPE_B, kMajorA, kMajorB>(d, advanced(a, place<TYPE_A, A_FORM>(s, 64, 0, k)), b_here, k > 0);
    }
    wgmma_commit();
  }
  wgmma_wait<1>();
  wgmma_wait<0>(d);
  for (int i = 0; i < n / 2; ++i) p.d[wgmma_row(t, i) * n + wgmma_column(t, i)] = d[i];
}

// Whichever of the instruction shapes that were asked for is the one of this launch.
template <int n, int left>
QUERN_DEVICE void choose(const Params& p, const u8* tile_a, const u8* tile_b) {
  if (p.n == n) {
    product<n>(p, tile_a, tile_b);
  } else if constexpr (left > 1) {
    choose<n + N_STEP, left - 1>(p, tile_a, tile_b);
  }
}

}  // namespace q::products

QUERN_KERNEL(k, 128, 1, QUERN_PARAM q::products::Params p) {
  using namespace q;
  u8* const tile_a = tile_shared();
  u8* const tile_b = tile_a + 16384;
  const Swizzle s = static_cast<Swizzle>(p.swizzle);
  if (A_FORM != FORM_REGISTERS) products::fill<TYPE_A, A_FORM>(tile_a, p.a, s, 64);
  products::fill<TYPE_B, B_FORM>(tile_b, p.b, s, p.n);
  fence_async();
  sync_block();
  products::choose<N_FIRST, N_COUNT>(p, tile_a, tile_b);
}
