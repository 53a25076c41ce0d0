// The tiles of a product whose number of rows is known before the launch.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gemm/kernels/shared/stream_k.cuh"

namespace q {

// Iterates over the tiles of one block of threads. Without stream-K a block takes every block_count-th tile; with
// stream-K the k blocks of all tiles are divided evenly among the blocks of threads, so that a block may begin or end
// within a tile.
//
// With cluster multicast the `peers` blocks of a cluster take tiles of the same columns, one below the other, and
// p.tiles_m counts the tiles of all peers as one. Cluster multicast and stream-K exclude each other.
class DenseTiles {
 public:
  QUERN_DEVICE explicit DenseTiles(const GemmParams& p) : DenseTiles(p, block_index(0), block_count(0)) {}
  // The tiles of block (or cluster) number `index` of `all`; `rank` is the block's number among its peers.
  QUERN_DEVICE DenseTiles(const GemmParams& p, i32 index, i32 all, i32 peers = 1, i32 rank = 0)
      : p_(p),
        peers_(peers),
        rank_(rank),
        k_blocks_(static_cast<i32>((static_cast<u32>(p.k) + (kBlockK - 1)) / kBlockK)),
        all_(all) {
    if constexpr (kStreamK) {
      unit_ = static_cast<u32>(schedule().begin(index)), end_ = static_cast<u32>(schedule().begin(index + 1));
    } else {
      unit_ = static_cast<u32>(index), end_ = static_cast<u32>(tiles());
    }
  }
  QUERN_DEVICE bool more() const { return unit_ < end_; }
  QUERN_DEVICE bool next(Work& work) {
    if (!more()) return false;
    const i32 units = units_of_tile();
    work = work_of(static_cast<i32>(unit_) / (kStreamK ? units : 1));
    if constexpr (!kStreamK) {
      unit_ += static_cast<u32>(all_);
    } else if (units == 1) {
      ++unit_;
    } else {
      work.first_k_block = static_cast<i32>(unit_) - work.tile * units;
      const i32 left = static_cast<i32>(end_ - unit_);
      if (left < k_blocks_ - work.first_k_block) work.end_k_block = work.first_k_block + left;
      unit_ += static_cast<u32>(work.end_k_block - work.first_k_block);
    }
    return true;
  }
  // Tile number `tile` with all of its k blocks.
  QUERN_DEVICE Work at(i32 tile) const { return work_of(tile); }
  // How the units of work are divided among the blocks of threads. A unit is a k block, or a tile where tiles are not
  // divided.
  QUERN_DEVICE StreamKSchedule schedule() const { return {tiles() * units_of_tile(), all_, units_of_tile()}; }

 private:
  QUERN_DEVICE i32 tiles() const { return p_.tiles; }
  QUERN_DEVICE i32 units_of_tile() const { return kStreamK && p_.whole_tiles == 0 ? k_blocks_ : 1; }
  // Tiles are numbered in panels of a few rows of tiles, column after column within a panel, so that blocks that run at
  // the same time find the same parts of a and b in L2.
  QUERN_DEVICE Work work_of(i32 tile) const {
    Work work{};
    work.rows = p_.m;
    work.end_k_block = k_blocks_;
    work.tile = tile;
    // A product of few rows has one row of tiles. Its first copy waits for this computation, so it takes the short way.
    if (kTileM < 256 && p_.tiles_m == 1 && p_.groups == 1) {
      work.row = rank_ * kTileM;
      work.column = tile * kOutTileN;
      return work;
    }
    i32 within = tile;
    if (p_.groups > 1) {
      stay_in_branch();
      work.group = tile / p_.group_tiles;
      within -= work.group * p_.group_tiles.value;
    }
    const i32 panel = within / p_.panel_tiles, first = panel * p_.panel_height.value,
              place = within - panel * p_.panel_tiles.value;
    i32 height = p_.panel_height.value, column = place / p_.panel_height;
    if (first + height > p_.tiles_m) {
      stay_in_branch();
      height = p_.last_panel_height.value, column = place / p_.last_panel_height;
    }
    work.row = ((first + place - column * height) * peers_ + rank_) * kTileM;
    work.column = column * kOutTileN;
    return work;
  }

  const GemmParams& p_;
  i32 peers_, rank_, k_blocks_, all_;
  u32 unit_, end_;  // unsigned, because a block's next unit may lie beyond the last of up to 2^31 - 1
};

}  // namespace q
