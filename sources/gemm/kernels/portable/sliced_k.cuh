// Sliced-K: the teams of a block divide a tile's k blocks, and where tiles are few so do several blocks. Each team has
// consecutive k blocks: taken in turn, teams would read the same lines of b at a time, which memory delivers more
// slowly. Teams add up their sums in shared memory, blocks in the workspace, each in a fixed order.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gemm/kernels/shared/dense_tiles.cuh"
#include "gemm/kernels/shared/partial_sums.cuh"
#include "gemm/kernels/shared/source.cuh"
#include "gemm/kernels/shared/teams.cuh"

namespace q {

// Iterates over the work of one block of threads: every tile is divided into p.parts parts, and the block takes every
// block_count-th of all parts.
class SlicedTiles {
 public:
  QUERN_DEVICE explicit SlicedTiles(const GemmParams& p) : p_(p), tiles_(p), unit_(block_index(0)) {}
  QUERN_DEVICE bool next(Work& work) {
    const i32 parts = p_.parts.value;
    if (unit_ >= p_.groups * p_.tiles_m * p_.tiles_n * parts) return false;
    const i32 tile = unit_ / p_.parts, part = unit_ - tile * parts;
    work = tiles_.at(tile);
    const StreamKSchedule schedule(work.end_k_block, parts, work.end_k_block);
    work.first_k_block = schedule.begin(part), work.end_k_block = schedule.begin(part + 1);
    unit_ += block_count(0);
    return true;
  }
  // The blocks that contribute to a tile: one for each part.
  QUERN_DEVICE Contributors contributors(const Work& work) const {
    Contributors all;
    all.first = work.tile * p_.parts.value, all.last = all.first + p_.parts.value - 1, all.starts_earlier = false;
    return all;
  }

 private:
  const GemmParams& p_;
  DenseTiles tiles_;
  i32 unit_;
};

// The k blocks of `work` that belong to this team.
QUERN_DEVICE Work of_team(Work work) {
  const i32 k_blocks = work.end_k_block - work.first_k_block;
  const StreamKSchedule schedule(k_blocks, kTeams, k_blocks);
  work.end_k_block = work.first_k_block + schedule.begin(team() + 1);
  work.first_k_block += schedule.begin(team());
  return work;
}

// Reads row and column scales into L2, so that the epilogue finds them there.
QUERN_DEVICE void fetch_scales(const GemmParams& p, const Work& work) {
  if constexpr (!kScaled) return;
  const i32 i = thread_index(), row = i < kTileM ? source_row(p, work, i) : -1;
  const i32 column = i < kTileN ? source_column(p, work, i) : -1;
  if (row >= 0) load_volatile(p.scale_a + work.group * p.scale_a_group + row * p.scale_a_row);
  if (column >= 0) load_volatile(p.scale_b + work.group * p.scale_b_group + column * p.scale_b_row);
}

// Stores the results of a tile. All threads have finished with the stages, where the teams' sums now meet:
// [kTeams][kSliceRows][kStagedPitch] floats.
template <class Sums>
QUERN_DEVICE void store_sliced(const GemmParams& p, const Contributors& contributors, const Work& work,
                               const Sums& sums, SliceOfThread::Vectors& gathered, f32* staged, i32* flag) {
  static_assert(kTeams == 1 || kSlices == 1, "a tile has one slice of rows");
  constexpr i32 kApart = kSliceRows * kStagedPitch;
  static_assert(kTeams == 1 || kApart * 4 <= kTeamBytes);
  stage_slice<0, kStagedPitch>(sums, staged + team() * kApart);
  sync_block();
  const SliceOfThread slice(p, staged, 0);
  slice.add_up<kTeams, kApart>();
  if (contributors.first != contributors.last) {
    slice.write_partial(contributors.slot_of(block_index(0)));
    if (!contributors.all_arrived(p, work.tile, flag)) return;
    slice.gather(contributors, gathered);
  }
  sync_block();
  store_slice(p, work, 0, staged);
  sync_block();
}

}  // namespace q
