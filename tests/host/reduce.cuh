// Exercises common/reduce.cuh and common/philox.cuh: reduce_test.cpp works out what must come of it.
// SPDX-License-Identifier: Apache-2.0
#include "common/philox.cuh"
#include "common/reduce.cuh"

namespace q {

inline constexpr int kThreads = 256, kPerThread = 4, kBins = kThreads * kPerThread;

// out: rows of kThreads words. input: kThreads words below kBins.
QUERN_DEVICE void reduce_all(const u32* input, u32 wanted, u32* out, u32* bins_out) {
  QUERN_SHARED(u32, scratch, kThreads / kWarp + 4);
  QUERN_SHARED(u64, wide, kThreads / kWarp);
  QUERN_SHARED(f32, reals, kThreads / kWarp);
  QUERN_SHARED(u32, bins, kBins);
  const int t = thread_index();
  const u32 v = input[t];
  const auto put = [&](int row, u32 value) { out[row * kThreads + t] = value; };
  put(0, warp_sum(v));
  put(1, warp_max(v));
  put(2, warp_min(v));
  put(3, warp_scan(v));
  put(4, block_sum<kThreads>(v, scratch));
  put(5, bits_of(block_max<kThreads>(static_cast<f32>(v), reals)));
  const u64 sum = block_sum<kThreads>(static_cast<u64>(v) << 30, wide);
  put(6, static_cast<u32>(sum >> 30));
  sync_block();
  put(7, block_min<kThreads>(v, scratch));
  sync_block();
  u32 total;
  put(8, block_scan<kThreads>(v, scratch, &total));
  put(9, total);
  bins_zero<kThreads>(bins, kBins);
  sync_block();
  count_in(bins, v, t % 5 != 0);
  count_in(bins, 7, true);
  count_in(bins, t % 2 == 0 ? 9u : 11u, true);
  sync_block();
  const FoundBin<u32> found = find_from_top<kThreads, kPerThread>(bins, wanted, scratch);
  put(10, static_cast<u32>(found.bin));
  put(11, found.above);
  put(12, found.in);
  QUERN_UNROLL for (int i = 0; i < kPerThread; ++i) bins_out[t + i * kThreads] = bins[t + i * kThreads];
  put(13, popcount(v) | leading_zeros(v) << 8 | trailing_zeros(v) << 16);
  const u64 w = static_cast<u64>(v) << 32 | (v & 1);
  put(14, popcount(w) | leading_zeros(w) << 8 | trailing_zeros(w) << 16);
  bins[t] = 0;
  sync_block();
  put(15, atomic_cas(bins, 0u, static_cast<u32>(t) + 1));
  const Philox p = philox(static_cast<u64>(v) << 40 | 5, wanted, static_cast<u64>(t));
  QUERN_UNROLL for (int i = 0; i < 4; ++i) put(16 + i, p.x[i]);
}

QUERN_KERNEL(quern_reduce, 256, 1, const u32* input, u32 wanted, u32* out, u32* bins_out) {
  reduce_all(input, wanted, out, bins_out);
}

}  // namespace q
