// Tiles that several blocks of threads share: each sums some of the k steps and leaves its sums in the workspace; the last to
// arrive adds them up in the order of the steps, whoever it is, so that the result does not depend on who was faster.
//
// The steps of all tiles, tile after tile, are dealt out evenly, the first blocks having one more where they cannot be: each begins
// in the middle of at most one tile and ends in the middle of at most one, so it needs two slots.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gemm/kernels/shared/tile.cuh"

namespace q {

struct StreamKPart {
  i32 units, steps;  // of all tiles, of a tile
  i32 share, longer;  // units of a block; so many blocks have one more

  QUERN_DEVICE StreamKPart(i32 units, i32 blocks, i32 steps) : units(units), steps(steps), share(units / blocks), longer(units - units / blocks * blocks) {}
  QUERN_DEVICE i32 begin(i32 block) const { return block * share + (block < longer ? block : longer); }
  // The block that has a unit, of which there may be fewer than blocks.
  QUERN_DEVICE i32 owner(i32 unit) const {
    const i32 edge = longer * (share + 1);
    const bool first = unit < edge;
    return (first ? 0 : longer) + (first ? unit : unit - edge) / (first ? share + 1 : share);
  }
};

// The blocks that share tile number `tile`, first to last. A block's first slot is for the tile that it begins with.
struct SharingBlocks {
  i32 first, last;
  bool cut;  // the first one begins with an earlier tile

  SharingBlocks() = default;
  QUERN_DEVICE SharingBlocks(const StreamKPart& stream_k_part, i32 tile) {
    const i32 unit = tile * stream_k_part.steps;
    first = stream_k_part.owner(unit), last = stream_k_part.owner(unit + stream_k_part.steps - 1), cut = stream_k_part.begin(first) < unit;
  }
  QUERN_DEVICE i64 slot_of(i32 block) const { return 2 * static_cast<i64>(block) + (block == first && cut ? 1 : 0); }

  // Whether all blocks have left their sums, this one too: true in the last to arrive.
  QUERN_DEVICE bool all_arrived(const GemmParams& p, i32 tile, i32* flag) const {
    fence();
    sync_block();
    if (thread_index() == 0) {
      const bool all = atomic_add(p.arrived + tile, 1u) + 1 == static_cast<u32>(last - first + 1);
      if (all) p.arrived[tile] = 0;
      *flag = all;
    }
    sync_block();
    fence();
    return *flag != 0;
  }
};

template <class Sums>
struct Slots {
  static QUERN_DEVICE f32* slot(const GemmParams& p, i64 index) { return p.partials + index * (static_cast<i64>(kThreads) * Sums::kHeld) + thread_index(); }
};

// Sums of `work`, of which this block has the steps of `stream_k_part` only. True if what `sums` then holds is the tile's whole result.
template <class Sums>
QUERN_DEVICE bool shared_sums(const GemmParams& p, const StreamKPart& stream_k_part, const Work& work, Sums& sums, i32* flag) {
  const SharingBlocks sharing_blocks(stream_k_part, work.tile);
  if (sharing_blocks.first == sharing_blocks.last) return true;
  const auto slot_of = [&](i32 block) { return Slots<Sums>::slot(p, sharing_blocks.slot_of(block)); };
  sums.write(slot_of(block_index(0)));
  if (!sharing_blocks.all_arrived(p, work.tile, flag)) return false;
  sums.clear();
  QUERN_ROLLED for (i32 block = sharing_blocks.first; block <= sharing_blocks.last; block += Sums::kAtOnce) {
    const i32 left = sharing_blocks.last - block;
    const f32* from[Sums::kAtOnce];
    QUERN_UNROLL for (i32 i = 0; i < Sums::kAtOnce; ++i) from[i] = slot_of(block + (i < left ? i : left));
    sums.add(from, left + 1);
  }
  return true;
}

}  // namespace q
