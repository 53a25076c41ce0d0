// Stream-K: several blocks of threads contribute to a tile. Each sums some of its k blocks and writes these partial
// sums to the workspace; the last block to arrive, whichever it is, adds them up in the order of the k blocks, so that
// the result does not depend on timing.
//
// The k blocks of all tiles, tile after tile, are divided evenly among the blocks of threads; where the division leaves
// a remainder the first blocks have one more. A block begins within at most one tile and ends within at most one, so it
// needs two slots for partial sums.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/arrival.cuh"
#include "gemm/kernels/shared/tile.cuh"

namespace q {

// How `units` k blocks of all tiles are divided among blocks of threads.
struct StreamKSchedule {
  i32 units, k_blocks;       // in all tiles; in one tile
  i32 share, longer_blocks;  // units of a block; how many blocks have one unit more

  QUERN_DEVICE StreamKSchedule(i32 units, i32 blocks, i32 k_blocks)
      : units(units), k_blocks(k_blocks), share(units / blocks), longer_blocks(units - units / blocks * blocks) {}
  QUERN_DEVICE i32 begin(i32 block) const { return block * share + (block < longer_blocks ? block : longer_blocks); }
  // The block that has unit number `unit`. There may be fewer units than blocks.
  QUERN_DEVICE i32 owner(i32 unit) const {
    const i32 edge = longer_blocks * (share + 1);
    const bool first = unit < edge;
    return (first ? 0 : longer_blocks) + (first ? unit : unit - edge) / (first ? share + 1 : share);
  }
};

// The blocks that contribute to tile number `tile`, first to last. The first of a block's two slots is for the tile
// that its units begin with.
struct Contributors {
  i32 first, last;
  bool starts_earlier;  // the first contributor's units begin within an earlier tile

  Contributors() = default;
  QUERN_DEVICE Contributors(const StreamKSchedule& schedule, i32 tile) {
    const i32 unit = tile * schedule.k_blocks;
    first = schedule.owner(unit), last = schedule.owner(unit + schedule.k_blocks - 1),
    starts_earlier = schedule.begin(first) < unit;
  }
  QUERN_DEVICE i64 slot_of(i32 block) const {
    return 2 * static_cast<i64>(block) + (block == first && starts_earlier ? 1 : 0);
  }

  // Counts this block's partial sums as written. Returns true in the last contributor to arrive. Called by all threads;
  // `flag` is in shared memory.
  QUERN_DEVICE bool all_arrived(const GemmParams& p, i32 tile, i32* flag) const {
    return arrived_last(
        thread_index() == 0, flag, [] { sync_block(); }, [&] { return p.arrived + tile; },
        [&] { return static_cast<u32>(last - first + 1); });
  }
};

template <class Sums>
struct Slots {
  static QUERN_DEVICE f32* slot(const GemmParams& p, i64 index) {
    return p.partials + index * (static_cast<i64>(kThreads) * Sums::kHeld) + thread_index();
  }
};

// Writes this block's sums of `work` to the workspace where other blocks contribute to the tile as well. Returns true
// in the block that is to finish the tile, with the sums of all contributors in `sums`.
template <class Sums>
QUERN_DEVICE bool reduce_partial_sums(const GemmParams& p, const StreamKSchedule& schedule, const Work& work,
                                      Sums& sums, i32* flag) {
  const Contributors contributors(schedule, work.tile);
  if (contributors.first == contributors.last) return true;
  const auto slot_of = [&](i32 block) { return Slots<Sums>::slot(p, contributors.slot_of(block)); };
  sums.write(slot_of(block_index(0)));
  if (!contributors.all_arrived(p, work.tile, flag)) return false;
  sums.clear();
  QUERN_ROLLED for (i32 block = contributors.first; block <= contributors.last; block += Sums::kAtOnce) {
    const i32 left = contributors.last - block;
    const f32* from[Sums::kAtOnce];
    QUERN_UNROLL for (i32 i = 0; i < Sums::kAtOnce; ++i) from[i] = slot_of(block + (i < left ? i : left));
    sums.add(from, left + 1);
  }
  return true;
}

}  // namespace q
