// Tiles in waves: each block has every so many of them, and a share of those that are too few for a last wave.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gemm/kernels/shared/partial_sums.cuh"
#include "gemm/kernels/shared/dense_tiles.cuh"

namespace q {

// The tiles of one block: every so many, and of what is then left for less than a wave its share of the steps, where tiles are shared.
class WaveTiles {
 public:
  QUERN_DEVICE explicit WaveTiles(const GemmParams& p) : tiles_(p), steps_(div_up(p.k, kStepK)), blocks_(block_count(0)), tile_(block_index(0)) {
    const i32 all = p.groups * p.tiles_m * p.tiles_n;
    rest_ = p.whole_tiles == 0 ? all % blocks_ : 0;
    whole_ = all - rest_;
    // Few steps are shared by fewer blocks.
    const i32 most = rest_ * steps_ / kFewestSteps;
    sharers_ = most > blocks_ ? blocks_ : most > rest_ ? most : rest_;
    if (block_index(0) < sharers_) first_ = stream_k_part().begin(block_index(0)), last_ = stream_k_part().begin(block_index(0) + 1);
  }
  // A share that is of two tiles begins with the later one, whose first steps it has: so all blocks are about as far in k.
  QUERN_DEVICE bool next(Work& work) {
    if (tile_ < whole_) {
      work = tiles_.at(tile_);
      tile_ += blocks_;
      return true;
    }
    if (first_ == last_) return false;
    const i32 tile = (last_ - 1) / steps_, begin = tile * steps_, from = first_ > begin ? first_ : begin;
    work = tiles_.at(whole_ + tile);
    work.tile = tile;
    work.first_step = from - begin, work.last_step = last_ - begin;
    last_ = from;
    return true;
  }
  QUERN_DEVICE bool whole(const Work& work) const { return work.first_step == 0 && work.last_step == steps_; }
  QUERN_DEVICE StreamKPart stream_k_part() const { return {rest_ * steps_, sharers_, steps_}; }

 private:
  static constexpr i32 kFewestSteps = 4;  // of a block that shares a tile
  DenseTiles tiles_;
  i32 steps_, blocks_, tile_, rest_, whole_, sharers_;
  i32 first_ = 0, last_ = 0;  // of the steps of all tiles that are shared, those still to be done
};

// Results of a tile; of one that is shared, this block's sums, and once all have left theirs, results.
template <class Sums>
QUERN_DEVICE void store(const GemmParams& p, const Work& work, const WaveTiles& tiles, const Sums& sums, SliceOfThread::Vectors& gathered, f32* staged, i32* flag) {
  const bool whole = tiles.whole(work);
  SharingBlocks sharing_blocks{};
  if (!whole) sharing_blocks = SharingBlocks(tiles.stream_k_part(), work.tile);
  QUERN_ROLLED for (i32 slice = 0; slice < kSlices; ++slice) {
    stage<0>(slice, sums, staged);
    sync_block();
    if (whole) {
      store_slice(p, work, slice, staged);
    } else {
      SliceOfThread(p, staged, slice).leave(sharing_blocks.slot_of(block_index(0)));
    }
    sync_block();
  }
  if (whole || !sharing_blocks.all_arrived(p, work.tile, flag)) return;
  // The sums' registers are free for what comes back.
  QUERN_ROLLED for (i32 slice = 0; slice < kSlices; ++slice) {
    SliceOfThread(p, staged, slice).gather(sharing_blocks, gathered);
    sync_block();
    store_slice(p, work, slice, staged);
    sync_block();
  }
}

}  // namespace q
