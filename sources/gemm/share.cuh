// Tiles that several blocks of threads share: each sums some of the k steps and leaves its sums in the workspace; the last to
// arrive adds them up in the order of the steps, whoever it is, so that the result does not depend on who was faster.
//
// The steps of all tiles, tile after tile, are dealt out evenly: block b has the units b U / B to (b + 1) U / B - 1. It begins in
// the middle of at most one tile and ends in the middle of at most one: so it needs two slots.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gemm/tile.cuh"

namespace q {

struct Deal {
  i64 units;
  i32 blocks, steps;  // of a tile

  QUERN_DEVICE i64 begin(i32 block) const { return block * units / blocks; }
  // The block that has a unit, of which there may be fewer than blocks: the first that ends behind it.
  QUERN_DEVICE i32 owner(i64 unit) const { return static_cast<i32>(((unit + 1) * blocks - 1) / units); }
};

template <class Sums>
struct Slots {
  static QUERN_DEVICE f32* slot(const GemmParams& p, i64 index) { return p.partials + index * (static_cast<i64>(kThreads) * Sums::kHeld) + thread_index(); }
};

// Sums of `work`, of which this block has the steps of `deal` only. True if what `sums` then holds is the tile's whole result.
template <class Sums>
QUERN_DEVICE bool shared_sums(const GemmParams& p, const Deal& deal, const Work& work, Sums& sums, i32* flag) {
  const i64 first_unit = static_cast<i64>(work.tile) * deal.steps;
  const i32 first = deal.owner(first_unit), last = deal.owner(first_unit + deal.steps - 1);
  if (first == last) return true;
  // A block's first slot is for the tile that it begins with.
  const auto slot_of = [&](i32 block) { return Slots<Sums>::slot(p, 2 * static_cast<i64>(block) + (deal.begin(block) < first_unit ? 1 : 0)); };
  sums.write(slot_of(block_index(0)));
  fence();
  sync_block();
  if (thread_index() == 0) {
    const bool all = atomic_add(p.arrived + work.tile, 1u) + 1 == static_cast<u32>(last - first + 1);
    if (all) p.arrived[work.tile] = 0;
    *flag = all;
  }
  sync_block();
  fence();
  if (*flag == 0) return false;
  sums.clear();
  QUERN_ROLLED for (i32 block = first; block <= last; ++block) sums.add(slot_of(block));
  return true;
}

}  // namespace q
