// Which tiles there are when the rows are known before the launch.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gemm/share.cuh"

namespace q {

// The tiles of one block of threads in a product whose rows are known: every so many, or as many steps as every other block.
// Of `peers` blocks side by side each has a tile of the same columns: p.tiles_m counts peers' tiles as one. Tiles are not both
// shared and dealt out to peers.
class DenseTiles {
 public:
  QUERN_DEVICE explicit DenseTiles(const GemmParams& p) : DenseTiles(p, block_index(0), block_count(0)) {}
  // Of `all` blocks (or clusters), those of number `index`.
  QUERN_DEVICE DenseTiles(const GemmParams& p, i32 index, i32 all, i32 peers = 1, i32 rank = 0)
      : p_(p), peers_(peers), rank_(rank), steps_(div_up(p.k, kStepK)), all_(all) {
    if constexpr (kShared) {
      unit_ = deal().begin(index), end_ = deal().begin(index + 1);
    } else {
      unit_ = index, end_ = tiles();
    }
  }
  QUERN_DEVICE bool more() const { return unit_ < end_; }
  QUERN_DEVICE bool next(Work& work) {
    if (!more()) return false;
    const i32 units = units_of_tile();
    work = work_of(static_cast<i32>(unit_) / (kShared ? units : 1));
    if constexpr (!kShared) {
      unit_ += all_;
    } else if (units == 1) {
      ++unit_;
    } else {
      work.first_step = static_cast<i32>(unit_) - work.tile * units;
      const i32 left = static_cast<i32>(end_ - unit_);
      if (left < steps_ - work.first_step) work.last_step = work.first_step + left;
      unit_ += work.last_step - work.first_step;
    }
    return true;
  }
  // Any of them, whole.
  QUERN_DEVICE Work at(i32 tile) const { return work_of(tile); }
  // Whole tiles are dealt out as one unit each.
  QUERN_DEVICE Deal deal() const { return {tiles() * units_of_tile(), all_, units_of_tile()}; }

 private:
  QUERN_DEVICE i32 tiles() const { return p_.groups * p_.tiles_m * p_.tiles_n; }
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
    work.group = tile / p_.group_tiles;
    const i32 within = tile - work.group * p_.group_tiles.value, panel = within / p_.panel_tiles, first = panel * p_.panel_height.value;
    const Divisor& height = first + p_.panel_height.value > p_.tiles_m ? p_.last_panel_height : p_.panel_height;
    const i32 place = within - panel * p_.panel_tiles.value, column = place / height;
    work.row = ((first + place - column * height.value) * peers_ + rank_) * kTileM;
    work.column = column * kOutTileN;
    return work;
  }

  const GemmParams& p_;
  i32 peers_, rank_, steps_, all_;
  i64 unit_, end_;
};

}  // namespace q
