// The smaller instruments, each by itself. Every thread writes one u32 a row; PART chooses what is tried.
// SPDX-License-Identifier: Apache-2.0
#include "common/sm90/warpgroup.cuh"

namespace q::instruments {

inline constexpr int kThreads = 256;

struct Params {
  u32* out;  // [rows][blocks][kThreads]
  const u8* global;
};

QUERN_DEVICE void put(const Params& p, int row, u32 value) {
  p.out[(row * block_count(0) + block_index(0)) * kThreads + thread_index()] = value;
}

// 8x8 matrices: element e of matrix m of warp w is w * 1000 + m * 100 + e, in rows 32 bytes apart.
QUERN_DEVICE u16 element(int w, int m, int e) { return static_cast<u16>(w * 1000 + m * 100 + e); }

template <bool transposed, int count>
QUERN_DEVICE void matrices(const Params& p, int row, u8* mine) {
  const int l = lane();
  for (int e = l; e < count * 64; e += 32) {
    reinterpret_cast<u16*>(mine)[e / 8 * 16 + e % 8] = element(warp(), e / 64, e % 64);
  }
  sync_warp();
  u32 v[count];
  load_matrix<transposed>(v, mine + l % (8 * count) * 32);
  for (int m = 0; m < count; ++m) put(p, row + m, v[m]);
  sync_warp();
  // Back to where each matrix's bytes 16 to 31 of a row are still free.
  store_matrix<transposed>(mine + l % (8 * count) * 32 + 16, v);
  sync_warp();
  for (int m = 0; m < count; ++m) {
    u32 word = 0;
    for (int i = 0; i < 2; ++i) {
      const int e = m * 64 + l * 2 + i;
      word |= static_cast<u32>(reinterpret_cast<u16*>(mine)[e / 8 * 16 + 8 + e % 8]) << 16 * i;
    }
    put(p, row + count + m, word);
  }
  sync_warp();
}

QUERN_DEVICE void matrix_moves(const Params& p) {
  u8* const mine = tile_shared() + warp() * 1024;
  matrices<false, 1>(p, 0, mine);
  matrices<false, 2>(p, 2, mine);
  matrices<false, 4>(p, 6, mine);
  matrices<true, 1>(p, 14, mine);
  matrices<true, 2>(p, 16, mine);
  matrices<true, 4>(p, 20, mine);
}

QUERN_DEVICE void election_and_barriers(const Params& p) {
  QUERN_SHARED(u32, words, kThreads);
  QUERN_SHARED(Mbarrier, b, 2);
  const int t = thread_index();
  const u64 first = ballot(elect_one()), second = ballot(elect_one());
  put(p, 0, first == second);
  u32 elected = 0;
  for (int l = 0; l < 32; ++l) elected += static_cast<u32>(first >> l & 1);
  put(p, 1, elected);
  put(p, 2, cluster_rank());
  put(p, 3, cluster_size());
  put(p, 4, static_cast<u32>(reinterpret_cast<u64>(tile_shared()) % 1024));

  // The first half tells the second that its words are there, and does not wait for it.
  if (t < 128) {
    words[t] = static_cast<u32>(t * 3);
    arrive_named(5, kThreads);
  } else {
    sync_named(5, kThreads);
    words[t] = words[t - 128] + 1;
  }
  sync_block();
  put(p, 5, words[t]);
  sync_block();

  // Both wait, each at a place of its own, until the other's words are there; a warp of the first half tells and does
  // not wait.
  words[t] = static_cast<u32>(t * 5);
  u32 of_other = 0;
  if (t < 32) {
    arrive_named(6, kThreads);
  } else if (t < 128) {
    meet_named(6, kThreads);
    of_other = words[t + 128];
  } else {
    meet_named(6, kThreads);
    of_other = words[t - 128];
  }
  put(p, 8, of_other);

  // Three phases of a barrier that half of the threads arrive on, and whose words the others read.
  if (t == 0) {
    mbarrier_init(b[0], 128);
    mbarrier_init(b[1], 128);
    fence_mbarrier_init();
  }
  sync_block();
  mbarrier_wait(b[0], 1);
  sync_block();
  u32 sum = 0;
  for (u32 round = 0; round < 3; ++round) {
    if (t < 128) {
      words[t] = static_cast<u32>(t) + 1000 * round;
      mbarrier_arrive(b[0]);
      mbarrier_wait(b[1], round & 1);
    } else {
      while (!mbarrier_try_wait(b[0], round & 1)) {
      }
      sum += words[(t + 13) % 128];
      mbarrier_arrive(b[1]);
    }
  }
  put(p, 6, sum);
  sync_block();
  if (t == 0) mbarrier_invalidate(b[0]);
  sync_block();
  if (t < 128) {
    registers_shrink<64>();
  } else {
    registers_grow<200>();
  }
  put(p, 7, static_cast<u32>(t));
}

// Blocks of a cluster read, write and signal each other.
QUERN_DEVICE void cluster(const Params& p) {
  QUERN_SHARED(u32, words, kThreads + 4);
  QUERN_SHARED(Mbarrier, b, 1);
  const int t = thread_index();
  const u32 rank = cluster_rank(), size = cluster_size(), next = (rank + 1) % size;
  words[t] = static_cast<u32>(t) + 1000 * rank;
  if (t == 0) {
    mbarrier_init(b[0], size * 2);
    fence_mbarrier_init();
  }
  sync_cluster();
  put(p, 0, rank);
  put(p, 1, size);
  put(p, 2, load_cluster<u32>(cluster_address(words, next) + static_cast<u32>(t) * 4));
  const vec16 four = load_cluster<vec16>(cluster_address(words, next) + static_cast<u32>(t / 4) * 16);
  put(p, 3, four.x[t % 4]);
  const u64 two = load_cluster<u64>(cluster_address(&words[t / 2 * 2], next));
  put(p, 4, static_cast<u32>(two >> 32 * (t & 1)));
  sync_cluster();
  store_cluster(cluster_address(&words[t], next), static_cast<u32>(t) + 5000 * rank);
  cluster_arrive();
  cluster_wait();
  put(p, 5, words[t]);
  cluster_arrive_relaxed();
  cluster_wait();
  // Two threads of each block, on every block's barrier.
  if (t < 2) {
    for (u32 r = 0; r < size; ++r) mbarrier_arrive_remote(b[0], r);
  }
  mbarrier_wait(b[0], 0);
  put(p, 6, 1);
  sync_cluster();
}

// Each block of the cluster sends a part to all of them.
QUERN_DEVICE void multicast(const Params& p, const TensorMap& map) {
  QUERN_SHARED(Mbarrier, b, 1);
  const u32 rank = cluster_rank(), size = cluster_size();
  if (thread_index() == 0) {
    mbarrier_init(b[0], 1);
    fence_mbarrier_init();
    mbarrier_arrive_expect(b[0], size * 256);
  }
  sync_cluster();
  if (thread_index() == 0) {
    tma_load_multicast(tile_shared() + rank * 256, map, b[0], (1u << size) - 1, CacheHint::normal, 0,
                       static_cast<int>(rank));
  }
  mbarrier_wait(b[0], 0);
  for (u32 i = 0; i < size; ++i) {
    if (thread_index() < 64)
      put(p, static_cast<int>(i), reinterpret_cast<u32*>(tile_shared())[i * 64 + thread_index()]);
  }
  sync_cluster();
}

// Twice each block sends every other words of three widths and a piece of its memory, counted by the receiver's
// barrier; before the second time all have read the first.
QUERN_DEVICE void asynchronous_stores(const Params& p) {
  struct alignas(16) Received {
    vec16 fours[kThreads];
    u64 twos[kThreads];
    u32 ones[kThreads];
    vec16 piece[kThreads / 4];
  };
  constexpr u32 kBytes = kThreads * (16 + 8 + 4 + 4), kMost = 4;
  QUERN_SHARED(Received, received, kMost);
  QUERN_SHARED(vec16, piece, kThreads / 4);
  QUERN_SHARED(Mbarrier, b, 1);
  const u32 t = static_cast<u32>(thread_index()), rank = cluster_rank(), size = cluster_size();
  if (t == 0) {
    mbarrier_init(b[0], 1);
    fence_mbarrier_init();
    mbarrier_arrive_expect(b[0], (size - 1) * kBytes);
  }
  cluster_arrive_relaxed();
  cluster_wait();
  for (u32 round = 0; round < 2; ++round) {
    // Every thread's words land where those of another would lie.
    const u32 value = 1000000 * round + 10000 * rank + t, at = (t + 77 * (rank + 1)) % kThreads;
    piece[t / 4].x[t % 4] = value + 7;
    fence_async();
    sync_block();
    for (u32 other = 1; other < size; ++other) {
      const u32 to = (rank + other) % size, barrier = cluster_address(&b[0], to);
      const u32 sent = value + 1000 * to;
      Received& there = received[rank];
      store_async(cluster_address(&there.fours[at], to), vec16{sent, sent + 1, sent + 2, sent + 3}, barrier);
      store_async(cluster_address(&there.twos[at], to), static_cast<u64>(sent + 5) << 32 | (sent + 4), barrier);
      store_async(cluster_address(&there.ones[at], to), sent + 6, barrier);
      if (t == 0) bulk_store_cluster(cluster_address(there.piece, to), piece, sizeof(there.piece), barrier);
    }
    mbarrier_wait_cluster(b[0], round);
    for (u32 other = 1; other < size; ++other) {
      const u32 from = (rank + other) % size;
      const u32 slot = (t + 77 * (from + 1)) % kThreads;
      const Received& here = received[from];
      const u32 expected = 1000000 * round + 10000 * from + t + 1000 * rank;
      u32 right = 0;
      for (u32 e = 0; e < 4; ++e) right += here.fours[slot].x[e] == expected + e;
      right += here.twos[slot] == (static_cast<u64>(expected + 5) << 32 | (expected + 4));
      right += here.ones[slot] == expected + 6;
      right += here.piece[t / 4].x[t % 4] == 1000000 * round + 10000 * from + t + 7;
      put(p, static_cast<int>(round * kMost + other), right);
    }
    sync_block();
    if (t == 0 && round == 0) mbarrier_arrive_expect(b[0], (size - 1) * kBytes);
    sync_cluster();
  }
}

}  // namespace q::instruments

QUERN_KERNEL(k, q::instruments::kThreads, 1, QUERN_PARAM q::instruments::Params p, QUERN_PARAM q::TensorMap map) {
  using namespace q::instruments;
  if (PART == 0) matrix_moves(p);
  if (PART == 1) election_and_barriers(p);
  if (PART == 2) cluster(p);
  if (PART == 3) multicast(p, map);
  if (PART == 4) asynchronous_stores(p);
}
