// Split-K within a cluster: each block sums its part of a tile's k blocks into its own shared memory and then finishes
// some of the tile's rows, for which it reads the sums of all blocks and adds them up in the order of the k blocks. So
// the result does not depend on timing, and no sums go through global memory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/sm90/warpgroup.cuh"
#include "gemm/kernels/shared/operand.cuh"
#include "gemm/kernels/shared/tile.cuh"

namespace q {

// The position of a block in its cluster, which is the first dimension of the grid: rank = part * peers + peer. Blocks
// with the same `part` (the peers) work on neighbouring tiles and the same k blocks and share copies of a by cluster
// multicast; blocks with the same `peer` share a tile by split-K.
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

// Iterates over one block's work: of each of `tiles`, where the tiles of all peers count as one, its peer's tile and
// its part of the k blocks.
template <class Tiles>
class ClusterTiles {
 public:
  QUERN_DEVICE ClusterTiles(const Tiles& tiles, const ClusterPosition& position) : tiles_(tiles), position_(position) {}
  QUERN_DEVICE bool next(Work& work) {
    if (!tiles_.next(work)) return false;
    const i32 k_blocks = work.end_k_block;
    work.first_k_block = k_blocks * position_.part / position_.parts;
    work.end_k_block = k_blocks * (position_.part + 1) / position_.parts;
    work.column = work.column * position_.peers + position_.peer * kOutTileN;
    return true;
  }
  QUERN_DEVICE bool more() const { return tiles_.more(); }

 private:
  Tiles tiles_;
  ClusterPosition position_;
};

struct ExchangeBarriers {
  Mbarrier written, read;  // one arrival for each warp of each block that shares the tile
};

// The exchange of partial sums: every block writes its staged sums, then all blocks read them, then they may be
// overwritten.
template <i32 warps>
class Exchange {
 public:
  static QUERN_DEVICE void init(ExchangeBarriers& barriers, const ClusterPosition& position) {
    mbarrier_init(barriers.written, static_cast<u32>(position.parts * warps));
    mbarrier_init(barriers.read, static_cast<u32>(position.parts * warps));
  }
  QUERN_DEVICE Exchange(ExchangeBarriers& barriers, const ClusterPosition& position)
      : barriers_(barriers), position_(position) {}

  QUERN_DEVICE const ClusterPosition& position() const { return position_; }
  // Waits for the consumer warps of this block only.
  QUERN_DEVICE void wait_for_block() { sync_named(kBarrier, warps * kWarp); }
  // Waits until all blocks have read this block's sums: before it writes the next ones, and before it returns.
  QUERN_DEVICE void wait_until_read() {
    if (position_.parts > 1) {
      mbarrier_wait(barriers_.read, phase_ ^ 1);
    } else {
      wait_for_block();
    }
  }
  // Says that this block's sums are written, and waits until those of all blocks are.
  QUERN_DEVICE void wait_until_written() {
    if (position_.parts > 1) {
      sync_warp();
      if (lane() < position_.parts)
        mbarrier_arrive_remote(barriers_.written, position_.rank_of(lane(), position_.peer));
      mbarrier_wait_cluster(barriers_.written, phase_);
    } else {
      wait_for_block();
    }
  }
  // Says that this warp has read the sums of all blocks. Its loads are complete, since their values have been added;
  // stores of its results need not be.
  QUERN_DEVICE void release() {
    if (position_.parts > 1) {
      sync_warp();
      if (lane() < position_.parts)
        mbarrier_arrive_remote_relaxed(barriers_.read, position_.rank_of(lane(), position_.peer));
    }
    phase_ ^= 1;
  }
  // Sums eight values at `place` over all blocks.
  QUERN_DEVICE Eight sum(const f32* place) const {
    if (position_.parts == 1) return read_eight(place);
    Eight sums{};
    // Several blocks' loads are issued before the first is used, so that they overlap.
    QUERN_ROLLED for (i32 first = 0; first < position_.parts; first += kAtOnce) {
      vec16 v[kAtOnce][2];
      QUERN_UNROLL for (i32 i = 0; i < kAtOnce; ++i) {
        if (first + i < position_.parts) {
          const u32 there = cluster_address(place, position_.rank_of(first + i, position_.peer));
          v[i][0] = load_cluster<vec16>(there), v[i][1] = load_cluster<vec16>(there + 16);
        }
      }
      QUERN_UNROLL for (i32 i = 0; i < kAtOnce; ++i) {
        if (first + i < position_.parts) {
          QUERN_UNROLL for (i32 e = 0; e < kEight; ++e) sums.x[e] += f32_of(v[i][e / 4].x[e % 4]);
        }
      }
    }
    return sums;
  }

 private:
  static constexpr i32 kBarrier = 1, kAtOnce = 2;
  ExchangeBarriers& barriers_;
  ClusterPosition position_;
  u32 phase_ = 0;
};

}  // namespace q
