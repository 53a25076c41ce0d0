// Tiles that the blocks of a cluster share: each sums some of the k steps into its own shared memory, and then finishes some of the
// rows, for which it adds up the sums of all of them in the order of the steps. So the result does not depend on who was faster,
// and no sums go through global memory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/sm90/warpgroup.cuh"
#include "gemm/kernels/shared/operand.cuh"
#include "gemm/kernels/shared/tile.cuh"

namespace q {

// Where a block stands in its cluster, which is the grid's first dimension: rank = part * peers + peer. Blocks of one part, peers,
// have the same steps of tiles side by side; those of one peer share a tile.
struct ClusterPosition {
  i32 part, parts, peer, peers;

  QUERN_DEVICE explicit ClusterPosition(const GemmParams& p) : peers(p.peers) {
    const i32 rank = block_index(0), blocks = block_count(0), shift = peers == 2 ? 1 : 0;
    part = rank >> shift, parts = blocks >> shift;
    peer = rank & (peers - 1);
  }
  QUERN_DEVICE i32 blocks() const { return parts * peers; }
  QUERN_DEVICE u32 rank_of(i32 of_part, i32 of_peer) const { return static_cast<u32>(of_part * peers + of_peer); }
};

// The pieces of `tiles` that are one block's: of tiles of which peers' count as one.
template <class Tiles>
class Pieces {
 public:
  QUERN_DEVICE Pieces(const Tiles& tiles, const ClusterPosition& standing) : tiles_(tiles), standing_(standing) {}
  QUERN_DEVICE bool next(Work& work) {
    if (!tiles_.next(work)) return false;
    const i32 steps = work.last_step;
    work.first_step = steps * standing_.part / standing_.parts;
    work.last_step = steps * (standing_.part + 1) / standing_.parts;
    work.column = work.column * standing_.peers + standing_.peer * kOutTileN;
    return true;
  }
  QUERN_DEVICE bool more() const { return tiles_.more(); }

 private:
  Tiles tiles_;
  ClusterPosition standing_;
};

struct ExchangeBarriers {
  Mbarrier written, read;  // by every warp of every block that shares the tile
};

// Sums change hands: `staged` of every block is written, then read by all, then free again.
template <i32 warps>
class Exchange {
 public:
  static QUERN_DEVICE void init(ExchangeBarriers& barriers, const ClusterPosition& standing) {
    mbarrier_init(barriers.written, static_cast<u32>(standing.parts * warps));
    mbarrier_init(barriers.read, static_cast<u32>(standing.parts * warps));
  }
  QUERN_DEVICE Exchange(ExchangeBarriers& barriers, const ClusterPosition& standing) : barriers_(barriers), standing_(standing) {}

  QUERN_DEVICE const ClusterPosition& standing() const { return standing_; }
  // The block's own warps alone.
  QUERN_DEVICE void wait_for_block() { sync_named(kBarrier, warps * kWarp); }
  // Before this block's are written, and before it returns.
  QUERN_DEVICE void wait_until_read() {
    if (standing_.parts > 1) {
      mbarrier_wait(barriers_.read, phase_ ^ 1);
    } else {
      wait_for_block();
    }
  }
  // This block's are written: until all are.
  QUERN_DEVICE void wait_until_written() {
    if (standing_.parts > 1) {
      sync_warp();
      if (lane() < standing_.parts) mbarrier_arrive_remote(barriers_.written, standing_.rank_of(lane(), standing_.peer));
      mbarrier_wait_cluster(barriers_.written, phase_);
    } else {
      wait_for_block();
    }
  }
  // This warp has read them: what it read has arrived, since it was added up, and its results need not have.
  QUERN_DEVICE void release() {
    if (standing_.parts > 1) {
      sync_warp();
      if (lane() < standing_.parts) mbarrier_arrive_remote_relaxed(barriers_.read, standing_.rank_of(lane(), standing_.peer));
    }
    phase_ ^= 1;
  }
  // Eight sums, of which every block has a part at this place.
  QUERN_DEVICE Eight sum(const f32* place) const {
    if (standing_.parts == 1) return read_eight(place);
    Eight sums{};
    // Some at a time, so that their loads overlap.
    QUERN_ROLLED for (i32 first = 0; first < standing_.parts; first += kAtOnce) {
      vec16 v[kAtOnce][2];
      QUERN_UNROLL for (i32 i = 0; i < kAtOnce; ++i) {
        if (first + i < standing_.parts) {
          const u32 there = cluster_address(place, standing_.rank_of(first + i, standing_.peer));
          v[i][0] = load_cluster<vec16>(there), v[i][1] = load_cluster<vec16>(there + 16);
        }
      }
      QUERN_UNROLL for (i32 i = 0; i < kAtOnce; ++i) {
        if (first + i < standing_.parts) {
          QUERN_UNROLL for (i32 e = 0; e < kEight; ++e) sums.x[e] += f32_of(v[i][e / 4].x[e % 4]);
        }
      }
    }
    return sums;
  }

 private:
  static constexpr i32 kBarrier = 1, kAtOnce = 2;
  ExchangeBarriers& barriers_;
  ClusterPosition standing_;
  u32 phase_ = 0;
};

}  // namespace q
