// A warp-specialised product of matrices, D[m][n] = A[m][k] B[n][k]^T: one warp brings tiles by TMA, warpgroups
// multiply them, a ring of stages between. Persistent; blocks of a cluster share B by multicast. With A_MN A is stored
// [k][m], with B_MN B [k][n]. BUG plants one mistake, 0 none.
// SPDX-License-Identifier: Apache-2.0
#include "common/sm90/wgmma.cuh"

#define BUG_NO_FULL_WAIT 1
#define BUG_NO_EMPTY_WAIT 2
#define BUG_EARLY_RELEASE 3  // a stage is handed back before its products have read it
#define BUG_WRONG_PHASE 4    // the consumers' phase does not turn with the ring
#define BUG_TOO_FEW_BYTES 5  // of the transaction count
#define BUG_TOO_MANY_BYTES 6
#define BUG_WRONG_COUNT 7       // the empty barrier does not count every consumer
#define BUG_WRONG_STRIDE 8      // of the descriptor
#define BUG_NO_BLOCK_BARRIER 9  // after the barriers are initialised
#define BUG_NO_PRODUCT_WAIT 10  // accumulators read too soon
#define BUG_STAGING_REUSED 11   // results written over those that a store still reads
#define BUG_PRODUCER_PHASE 12   // the producer's phase begins the wrong way round
#define BUG_WRONG_LEADING 13    // of the descriptor of an mn-major B: the next 64 columns begin too soon
#define BUG_WRONG_ADVANCE 14    // from one product's k to the next one's, as if tiles were k-major
#define BUG_WRONG_MAJOR 15      // the instruction takes mn-major tiles for k-major ones

namespace q::gemm {

inline constexpr int kM = 64 * CONSUMERS, kN = TILE_N, kK = 128 / static_cast<int>(sizeof(TYPE));
inline constexpr u32 kBytesA = kM * 128, kBytesB = kN * 128, kStageBytes = kBytesA + kBytesB;
// mn-major tiles come by boxes of 64 rows of A or B, kK below each other.
inline constexpr int kSpan = 64, kSpanBytes = kSpan * 128;
static_assert(!B_MN || kN % (kSpan * CLUSTER) == 0);

// How the instruction finds an operand; `leading` is of mn-major ones.
template <bool mn>
struct Operand {
  static constexpr Major kMajor = mn && BUG != BUG_WRONG_MAJOR ? Major::mn : Major::k;
  static constexpr u32 kNext = mn && BUG != BUG_WRONG_ADVANCE ? 16 * 128 : 32;
  static constexpr u32 kLeading = mn ? kSpanBytes / (BUG == BUG_WRONG_LEADING ? 2 : 1) : 16;
  static constexpr u64 kLayout = matrix_layout(Swizzle::bytes128, kLeading, BUG == BUG_WRONG_STRIDE ? 512 : 1024);
};

struct Params {
  f32* d;  // [m][n], where results are not stored by TMA
  int m, n, k;
};

struct Ring {
  int stage = 0;
  u32 phase = 0;
  QUERN_DEVICE void next() {
    if (++stage < STAGES) return;
    stage = 0;
    phase ^= 1;
  }
};

struct Shared {
  u8* tiles;
  Mbarrier* full;
  Mbarrier* empty;
  QUERN_DEVICE u8* a(int stage) const { return tiles + stage * kStageBytes; }
  QUERN_DEVICE u8* b(int stage) const { return a(stage) + kBytesA; }
  QUERN_DEVICE u8* staging(int consumer) const { return tiles + STAGES * kStageBytes + consumer * 64 * kN * 2; }
};

// Tiles of a cluster lie side by side in m.
struct Walk {
  int tile, tiles, step, columns;
  QUERN_DEVICE explicit Walk(const Params& p)
      : tile(block_index(0) / CLUSTER),
        tiles(div_up(div_up(p.m, kM), CLUSTER) * div_up(p.n, kN)),
        step(block_count(0) / CLUSTER),
        columns(div_up(p.n, kN)) {}
  QUERN_DEVICE int row() const { return (tile / columns * CLUSTER + static_cast<int>(cluster_rank())) * kM; }
  QUERN_DEVICE int column() const { return tile % columns * kN; }
};

QUERN_DEVICE void produce(const Params& p, const Shared& s, const TensorMap& map_a, const TensorMap& map_b) {
  Ring ring;
  constexpr u32 kOff = BUG == BUG_TOO_FEW_BYTES ? u32(-128) : BUG == BUG_TOO_MANY_BYTES ? 128 : 0;
  for (Walk walk(p); walk.tile < walk.tiles; walk.tile += walk.step) {
    for (int k = 0; k < p.k; k += kK, ring.next()) {
      Mbarrier& full = s.full[ring.stage];
      if (BUG != BUG_NO_EMPTY_WAIT) mbarrier_wait(s.empty[ring.stage], ring.phase ^ (BUG != BUG_PRODUCER_PHASE));
      mbarrier_arrive_expect(full, kStageBytes + kOff);
      if constexpr (A_MN) {
        for (int i = 0; i < CONSUMERS; ++i) {
          tma_load(s.a(ring.stage) + i * kSpanBytes, map_a, full, CacheHint::evict_first, walk.row() + i * kSpan, k);
        }
      } else {
        tma_load(s.a(ring.stage), map_a, full, CacheHint::evict_first, k, walk.row());
      }
      if constexpr (B_MN) {
        for (int i = 0; i < kN / kSpan / CLUSTER; ++i) {
          const int box = static_cast<int>(cluster_rank()) * (kN / kSpan / CLUSTER) + i;
          u8* const to = s.b(ring.stage) + box * kSpanBytes;
          if (CLUSTER == 1) {
            tma_load(to, map_b, full, CacheHint::evict_last, walk.column() + box * kSpan, k);
          } else {
            tma_load_multicast(to, map_b, full, (1u << CLUSTER) - 1, CacheHint::normal, walk.column() + box * kSpan, k);
          }
        }
      } else if (CLUSTER == 1) {
        tma_load(s.b(ring.stage), map_b, full, CacheHint::evict_last, k, walk.column());
      } else {
        const int part = static_cast<int>(cluster_rank()) * (kN / CLUSTER);
        tma_load_multicast(s.b(ring.stage) + part * 128, map_b, full, (1u << CLUSTER) - 1, CacheHint::normal, k,
                           walk.column() + part);
      }
    }
  }
}

QUERN_DEVICE void release(const Shared& s, int stage) {
  if (thread_index() % 128 != 0) return;
  if (CLUSTER == 1) {
    mbarrier_arrive(s.empty[stage]);
  } else {
    for (u32 rank = 0; rank < CLUSTER; ++rank) mbarrier_arrive_remote(s.empty[stage], rank);
  }
}

// Results as bf16 through shared memory: 64 columns, 128 bytes, at a time.
QUERN_DEVICE void store_tile(const Shared& s, const TensorMap& map_d, int consumer, int row, int column,
                             f32 (&d)[kN / 2]) {
  const int t = thread_index() % 128;
  u8* const staging = s.staging(consumer);
  if (BUG != BUG_STAGING_REUSED) {
    if (t == 0) tma_wait_read<0>();
    sync_named(1 + consumer, 128);
  }
  QUERN_UNROLL
  for (int i = 0; i < kN / 2; i += 8) {
    const u32 v[4] = {pack<bf16>(d[i], d[i + 1]), pack<bf16>(d[i + 2], d[i + 3]), pack<bf16>(d[i + 4], d[i + 5]),
                      pack<bf16>(d[i + 6], d[i + 7])};
    // Matrices: rows 0-7 and 8-15 of 8 columns, then of the next 8.
    const int in_tile = t / 32 * 16 + t % 16, column_bytes = (i * 2 + t % 32 / 16 * 8) * 2;
    const u32 at = static_cast<u32>(in_tile * 128 + column_bytes % 128 + column_bytes / 128 * 64 * 128);
    store_matrix<false>(staging + swizzled(at, Swizzle::bytes128), v);
  }
  fence_async();
  sync_named(1 + consumer, 128);
  if (t != 0) return;
  for (int c = 0; c < kN; c += 64) tma_store(map_d, staging + c * 128, CacheHint::normal, column + c, row);
  tma_commit();
}

QUERN_DEVICE void consume(const Params& p, const Shared& s, const TensorMap& map_d, int consumer) {
  Ring ring;
  using A = Operand<A_MN>;
  using B = Operand<B_MN>;
  const int t = thread_index() % 128;
  for (Walk walk(p); walk.tile < walk.tiles; walk.tile += walk.step) {
    f32 d[kN / 2];
    int before = -1;  // the stage that the youngest products but one read
    for (int k = 0; k < p.k; k += kK, ring.next()) {
      if (BUG != BUG_NO_FULL_WAIT) {
        mbarrier_wait(s.full[ring.stage], BUG == BUG_WRONG_PHASE ? 0 : ring.phase);
      }
      const u64 a = matrix_descriptor(s.a(ring.stage) + consumer * 64 * 128, A::kLayout);
      const u64 b = matrix_descriptor(s.b(ring.stage), B::kLayout);
      wgmma_fence();
      QUERN_UNROLL
      for (int i = 0; i < 4; ++i) {
        wgmma<TYPE, TYPE, A::kMajor, B::kMajor>(d, advanced(a, A::kNext * i), advanced(b, B::kNext * i), k + i > 0);
      }
      wgmma_commit();
      if (BUG == BUG_EARLY_RELEASE) {
        release(s, ring.stage);
        continue;
      }
      wgmma_wait<1>();
      if (before >= 0) release(s, before);
      before = ring.stage;
    }
    if (BUG != BUG_NO_PRODUCT_WAIT) wgmma_wait<0>(d);
    if (before >= 0) release(s, before);
    const int row = walk.row() + consumer * 64;
#if STORE_BY_TMA
    store_tile(s, map_d, consumer, row, walk.column(), d);
#else
    for (int i = 0; i < kN / 2; ++i) {
      const int m = row + wgmma_row(t, i), n = walk.column() + wgmma_column(t, i);
      if (m < p.m && n < p.n) p.d[static_cast<i64>(m) * p.n + n] = d[i];
    }
#endif
    if (BUG == BUG_NO_PRODUCT_WAIT) wgmma_wait<0>(d);
  }
  if (STORE_BY_TMA && t == 0) tma_wait<0>();
}

}  // namespace q::gemm

QUERN_KERNEL(k, 128 * (CONSUMERS + 1), 1, QUERN_PARAM q::gemm::Params p, QUERN_PARAM q::TensorMap map_a,
             QUERN_PARAM q::TensorMap map_b, QUERN_PARAM q::TensorMap map_d) {
  using namespace q;
  QUERN_SHARED(Mbarrier, full, STAGES);
  QUERN_SHARED(Mbarrier, empty, STAGES);
  const gemm::Shared s{tile_shared(), full, empty};
  if (warp() == 0 && elect_one()) {
    prefetch_tensor_map(map_a);
    prefetch_tensor_map(map_b);
    for (int i = 0; i < STAGES; ++i) {
      mbarrier_init(full[i], 1);
      mbarrier_init(empty[i], CONSUMERS * CLUSTER - (BUG == BUG_WRONG_COUNT));
    }
    fence_mbarrier_init();
  }
  if (CLUSTER > 1) {
    sync_cluster();
  } else if (BUG != BUG_NO_BLOCK_BARRIER) {
    sync_block();
  }
  if (warp() < 4) {
    registers_shrink<40>();
    if (warp() == 0 && elect_one()) gemm::produce(p, s, map_a, map_b);
  } else {
    registers_grow<232>();
    gemm::consume(p, s, map_d, warp() / 4 - 1);
  }
  if (CLUSTER > 1) sync_cluster();
}
