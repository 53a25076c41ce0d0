// Where each key of a tile stands when the tile is sorted by one digit, stably: Satish, Harris and Garland, "Designing
// efficient sorting algorithms for manycore GPUs", 2009, with a warp's keys counted by ballots.
//
// A warp has kItems * kWarp neighbouring keys, item i of lane l being number i * kWarp + l of them: the order of items,
// and then of lanes, is theirs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/reduce.cuh"
#include "sort/params.cuh"

namespace q {

// A bit for each lane, no wider than a warp.
template <int lanes>
struct LaneBits {
  using Type = u32;
};
template <>
struct LaneBits<64> {
  using Type = u64;
};
using Lanes = LaneBits<kWarp>::Type;

// The lanes whose digit is this lane's. All lanes take part.
QUERN_DEVICE Lanes lanes_with(u32 digit) {
  Lanes with = ~Lanes{0};
  QUERN_UNROLL for (int b = 0; b < 8; ++b) {
    const bool bit = (digit >> b & 1) != 0;
    const Lanes set = static_cast<Lanes>(ballot(bit));
    with &= bit ? set : ~set;
  }
  return with;
}

// `rank` has the digits, and receives the places. `begins` [kDigits] in shared memory: where each digit's keys begin.
// All threads take part; there is a barrier behind the last write, and whoever writes to `begins` again needs one
// before.
template <int threads, int items>
QUERN_DEVICE void rank_by_digit(u32 (&rank)[items], u32* begins) {
  constexpr int kWarps = threads / kWarp, kOwn = kDigits > threads ? kDigits / threads : 1;
  QUERN_SHARED(u32, counts, kWarps * kDigits);
  QUERN_SHARED(u32, scratch, kWarps);
  QUERN_ROLLED for (int i = thread_index(); i < kWarps * kDigits; i += threads) counts[i] = 0;
  sync_block();
  u32* mine = counts + warp() * kDigits;
  QUERN_UNROLL for (int i = 0; i < items; ++i) {
    const u32 digit = rank[i];
    const Lanes with = lanes_with(digit);
    const u32 below = popcount(with & ((Lanes{1} << lane()) - 1));
    const u32 before = mine[digit];
    sync_warp();
    if (below == 0) mine[digit] = before + popcount(with);
    sync_warp();
    rank[i] = digit << 16 | (before + below);
  }
  sync_block();
  // From each warp's counts to where its keys of the digit begin.
  u32 own[kOwn], sum = 0;
  QUERN_UNROLL for (int j = 0; j < kOwn; ++j) {
    const int d = thread_index() * kOwn + j;
    own[j] = 0;
    if (d < kDigits) {
      QUERN_UNROLL for (int w = 0; w < kWarps; ++w) {
        const u32 here = counts[w * kDigits + d];
        counts[w * kDigits + d] = own[j];
        own[j] += here;
      }
    }
    sum += own[j];
  }
  u32 total;
  u32 begin = block_scan<threads>(sum, scratch, &total);
  QUERN_UNROLL for (int j = 0; j < kOwn; ++j) {
    const int d = thread_index() * kOwn + j;
    if (d < kDigits) {
      begins[d] = begin;
      QUERN_UNROLL for (int w = 0; w < kWarps; ++w) counts[w * kDigits + d] += begin;
    }
    begin += own[j];
  }
  sync_block();
  QUERN_UNROLL for (int i = 0; i < items; ++i) rank[i] = mine[rank[i] >> 16] + (rank[i] & 0xffffu);
}

}  // namespace q
