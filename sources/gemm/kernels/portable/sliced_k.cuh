// Tiles whose steps the teams of a block have between them, and, where tiles are few, the teams of so many blocks. Each team has steps
// side by side: taken in turn they would read the same lines of b at a time, which memory gives out more slowly. Teams add up in shared
// memory, blocks in the workspace; each in its order.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gemm/kernels/shared/partial_sums.cuh"
#include "gemm/kernels/shared/source.cuh"
#include "gemm/kernels/shared/teams.cuh"
#include "gemm/kernels/shared/dense_tiles.cuh"

namespace q {

// What one block of threads has: every so many of the parts of all tiles, each p.parts of them.
class SlicedTiles {
 public:
  QUERN_DEVICE explicit SlicedTiles(const GemmParams& p) : p_(p), tiles_(p), unit_(block_index(0)) {}
  QUERN_DEVICE bool next(Work& work) {
    const i32 parts = p_.parts.value;
    if (unit_ >= p_.groups * p_.tiles_m * p_.tiles_n * parts) return false;
    const i32 tile = unit_ / p_.parts, part = unit_ - tile * parts;
    work = tiles_.at(tile);
    const StreamKPart stream_k_part(work.last_step, parts, work.last_step);
    work.first_step = stream_k_part.begin(part), work.last_step = stream_k_part.begin(part + 1);
    unit_ += block_count(0);
    return true;
  }
  // Shared tiles have a block for each part.
  QUERN_DEVICE SharingBlocks sharing_blocks(const Work& work) const {
    SharingBlocks all;
    all.first = work.tile * p_.parts.value, all.last = all.first + p_.parts.value - 1, all.cut = false;
    return all;
  }

 private:
  const GemmParams& p_;
  DenseTiles tiles_;
  i32 unit_;
};

// Of the steps of `work`, those of this team.
QUERN_DEVICE Work of_team(Work work) {
  const i32 steps = work.last_step - work.first_step;
  const StreamKPart stream_k_part(steps, kTeams, steps);
  work.last_step = work.first_step + stream_k_part.begin(team() + 1);
  work.first_step += stream_k_part.begin(team());
  return work;
}

// Scales that are not applied step by step are wanted at the end only: by then they are in L2.
QUERN_DEVICE void fetch_scales(const GemmParams& p, const Work& work) {
  if constexpr (!kScaled) return;
  const i32 i = thread_index(), row = i < kTileM ? source_row(p, work, i) : -1;
  const i32 column = i < kTileN ? source_column(p, work, i) : -1;
  if (row >= 0) load_volatile(p.scale_a + work.group * p.scale_a_group + row * p.scale_a_row);
  if (column >= 0) load_volatile(p.scale_b + work.group * p.scale_b_group + column * p.scale_b_row);
}

// All of the block has left its stages, where the sums meet: [kTeams][kSliceRows][kStagedPitch] floats.
template <class Sums>
QUERN_DEVICE void store_sliced(const GemmParams& p, const SharingBlocks& sharing_blocks, const Work& work, const Sums& sums, SliceOfThread::Vectors& gathered, f32* staged, i32* flag) {
  static_assert(kTeams == 1 || kSlices == 1, "a tile of one slice of rows");
  constexpr i32 kApart = kSliceRows * kStagedPitch;
  static_assert(kTeams == 1 || kApart * 4 <= kTeamBytes);
  stage_slice<0, kStagedPitch>(sums, staged + team() * kApart);
  sync_block();
  const SliceOfThread slice(p, staged, 0);
  slice.add_up<kTeams, kApart>();
  if (sharing_blocks.first != sharing_blocks.last) {
    slice.leave(sharing_blocks.slot_of(block_index(0)));
    if (!sharing_blocks.all_arrived(p, work.tile, flag)) return;
    slice.gather(sharing_blocks, gathered);
  }
  sync_block();
  store_slice(p, work, 0, staged);
  sync_block();
}

}  // namespace q
