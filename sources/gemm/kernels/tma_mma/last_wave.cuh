// Tiles in waves: each block of threads takes every block_count-th tile; the tiles of an incomplete last wave may be
// divided among all blocks by stream-K.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gemm/kernels/shared/dense_tiles.cuh"
#include "gemm/kernels/shared/partial_sums.cuh"

namespace q {

// Iterates over the work of one block: its whole tiles, then its k blocks of the last wave, if that is divided.
class WaveTiles {
 public:
  QUERN_DEVICE explicit WaveTiles(const GemmParams& p)
      : tiles_(p), k_blocks_(div_up(p.k, kBlockK)), blocks_(block_count(0)), tile_(block_index(0)) {
    const i32 all = p.groups * p.tiles_m * p.tiles_n;
    rest_ = p.whole_tiles == 0 ? all % blocks_ : 0;
    whole_ = all - rest_;
    // With few k blocks fewer blocks take part.
    const i32 most = rest_ * k_blocks_ / kFewestKBlocks;
    last_wave_blocks_ = most > blocks_ ? blocks_ : most > rest_ ? most : rest_;
    if (block_index(0) < last_wave_blocks_)
      first_ = schedule().begin(block_index(0)), last_ = schedule().begin(block_index(0) + 1);
  }
  // Where a block has k blocks of two tiles it begins with the later tile, whose first k blocks it has: so all blocks
  // are about as far in k.
  QUERN_DEVICE bool next(Work& work) {
    if (tile_ < whole_) {
      work = tiles_.at(tile_);
      tile_ += blocks_;
      return true;
    }
    if (first_ == last_) return false;
    const i32 tile = (last_ - 1) / k_blocks_, begin = tile * k_blocks_, from = first_ > begin ? first_ : begin;
    work = tiles_.at(whole_ + tile);
    work.tile = tile;
    work.first_k_block = from - begin, work.end_k_block = last_ - begin;
    last_ = from;
    return true;
  }
  QUERN_DEVICE bool whole(const Work& work) const { return work.first_k_block == 0 && work.end_k_block == k_blocks_; }
  QUERN_DEVICE StreamKSchedule schedule() const { return {rest_ * k_blocks_, last_wave_blocks_, k_blocks_}; }

 private:
  static constexpr i32 kFewestKBlocks = 4;  // of a block in the last wave
  DenseTiles tiles_;
  i32 k_blocks_, blocks_, tile_, rest_, whole_, last_wave_blocks_;
  i32 first_ = 0, last_ = 0;  // the block's remaining k blocks, counted over the tiles of the last wave
};

// Stores the results of a tile that one block has computed. Of a divided tile it writes the partial sums to the
// workspace, and the last block to arrive adds up and stores the results.
template <class Sums>
QUERN_DEVICE void store(const GemmParams& p, const Work& work, const WaveTiles& tiles, const Sums& sums,
                        SliceOfThread::Vectors& gathered, f32* staged, i32* flag) {
  const bool whole = tiles.whole(work);
  Contributors contributors{};
  if (!whole) contributors = Contributors(tiles.schedule(), work.tile);
  QUERN_ROLLED for (i32 slice = 0; slice < kSlices; ++slice) {
    stage<0>(slice, sums, staged);
    sync_block();
    if (whole) {
      store_slice(p, work, slice, staged);
    } else {
      SliceOfThread(p, staged, slice).write_partial(contributors.slot_of(block_index(0)));
    }
    sync_block();
  }
  if (whole || !contributors.all_arrived(p, work.tile, flag)) return;
  // The accumulators' registers are free for the sums that are read back.
  QUERN_ROLLED for (i32 slice = 0; slice < kSlices; ++slice) {
    SliceOfThread(p, staged, slice).gather(contributors, gathered);
    sync_block();
    store_slice(p, work, slice, staged);
    sync_block();
  }
}

}  // namespace q
