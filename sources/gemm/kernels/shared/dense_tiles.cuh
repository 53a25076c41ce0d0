// Which tiles there are when the rows are known before the launch.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gemm/kernels/shared/stream_k.cuh"

namespace q {

// The tiles of one block of threads in a product whose rows are known: every so many, or as many steps as every other block.
// Of `peers` blocks side by side each has a tile of the same columns: p.tiles_m counts peers' tiles as one. Tiles are not both
// shared and dealt out to peers.
class DenseTiles {
 public:
  QUERN_DEVICE explicit DenseTiles(const GemmParams& p) : DenseTiles(p, block_index(0), block_count(0)) {}
  // Of `all` blocks (or clusters), those of number `index`.
  QUERN_DEVICE DenseTiles(const GemmParams& p, i32 index, i32 all, i32 peers = 1, i32 rank = 0)
      : p_(p), peers_(peers), rank_(rank), steps_(static_cast<i32>((static_cast<u32>(p.k) + (kStepK - 1)) / kStepK)), all_(all) {
    if constexpr (kShared) {
      unit_ = static_cast<u32>(stream_k_part().begin(index)), end_ = static_cast<u32>(stream_k_part().begin(index + 1));
    } else {
      unit_ = static_cast<u32>(index), end_ = static_cast<u32>(tiles());
    }
  }
  QUERN_DEVICE bool more() const { return unit_ < end_; }
  QUERN_DEVICE bool next(Work& work) {
    if (!more()) return false;
    const i32 units = units_of_tile();
    work = work_of(static_cast<i32>(unit_) / (kShared ? units : 1));
    if constexpr (!kShared) {
      unit_ += static_cast<u32>(all_);
    } else if (units == 1) {
      ++unit_;
    } else {
      work.first_step = static_cast<i32>(unit_) - work.tile * units;
      const i32 left = static_cast<i32>(end_ - unit_);
      if (left < steps_ - work.first_step) work.last_step = work.first_step + left;
      unit_ += static_cast<u32>(work.last_step - work.first_step);
    }
    return true;
  }
  // Any of them, whole.
  QUERN_DEVICE Work at(i32 tile) const { return work_of(tile); }
  // Whole tiles are dealt out as one unit each.
  QUERN_DEVICE StreamKPart stream_k_part() const { return {tiles() * units_of_tile(), all_, units_of_tile()}; }

 private:
  QUERN_DEVICE i32 tiles() const { return p_.tiles; }
  QUERN_DEVICE i32 units_of_tile() const { return kShared && p_.whole_tiles == 0 ? steps_ : 1; }
  // Tiles are taken in panels of some rows of tiles, column after column, so that blocks at work together share a and b in L2.
  QUERN_DEVICE Work work_of(i32 tile) const {
    Work work{};
    work.rows = p_.m;
    work.last_step = steps_;
    work.tile = tile;
    // Of few rows the first copy waits for this.
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
    const i32 panel = within / p_.panel_tiles, first = panel * p_.panel_height.value, place = within - panel * p_.panel_tiles.value;
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
  i32 peers_, rank_, steps_, all_;
  u32 unit_, end_;  // of fewer than 2^31 tiles or steps, behind which a block's next one still lies within 32 bits
};

}  // namespace q
