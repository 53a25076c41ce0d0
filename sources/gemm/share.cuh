// Tiles that several blocks of threads share: each sums some of the k steps and leaves its sums in the workspace; the last to
// arrive adds them up in the order of the steps, whoever it is, so that the result does not depend on who was faster.
//
// The steps of all tiles, tile after tile, are dealt out evenly, the first blocks having one more where they cannot be: each begins
// in the middle of at most one tile and ends in the middle of at most one, so it needs two slots.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gemm/tile.cuh"

namespace q {

struct Deal {
  i32 units, steps;  // of all tiles, of a tile
  i32 share, longer;  // units of a block; so many blocks have one more

  QUERN_DEVICE Deal(i32 units, i32 blocks, i32 steps) : units(units), steps(steps), share(units / blocks), longer(units - units / blocks * blocks) {}
  QUERN_DEVICE i32 begin(i32 block) const { return block * share + (block < longer ? block : longer); }
  // The block that has a unit, of which there may be fewer than blocks.
  QUERN_DEVICE i32 owner(i32 unit) const {
    const i32 edge = longer * (share + 1);
    const bool first = unit < edge;
    return (first ? 0 : longer) + (first ? unit : unit - edge) / (first ? share + 1 : share);
  }
};

// The blocks that share tile number `tile`, first to last. A block's first slot is for the tile that it begins with.
struct Sharers {
  i32 first, last;
  bool cut;  // the first one begins with an earlier tile

  Sharers() = default;
  QUERN_DEVICE Sharers(const Deal& deal, i32 tile) {
    const i32 unit = tile * deal.steps;
    first = deal.owner(unit), last = deal.owner(unit + deal.steps - 1), cut = deal.begin(first) < unit;
  }
  QUERN_DEVICE i64 slot_of(i32 block) const { return 2 * static_cast<i64>(block) + (block == first && cut ? 1 : 0); }

  // Whether all blocks have left their sums, this one too: true in the last to arrive.
  QUERN_DEVICE bool all_arrived(const GemmParams& p, i32 tile, i32* flag) const {
    sync_block();
    if (thread_index() == 0) *flag = arrive(p, tile);
    sync_block();
    fence();
    return *flag != 0;
  }
  // The same by one thread, after all of the block's have met.
  QUERN_DEVICE bool arrive(const GemmParams& p, i32 tile) const {
    fence();
    const bool all = atomic_add(p.arrived + tile, 1u) + 1 == static_cast<u32>(last - first + 1);
    if (all) p.arrived[tile] = 0;
    return all;
  }
};

template <class Sums>
struct Slots {
  static QUERN_DEVICE f32* slot(const GemmParams& p, i64 index) { return p.partials + index * (static_cast<i64>(kThreads) * Sums::kHeld) + thread_index(); }
};

// The tiles that a block begins and ends in the middle of. What it has of them it leaves when it comes to it, and says so when it has
// nothing else to do: to say so it waits for memory, and copies of the next tile's steps would wait as well.
template <class Sums>
class OpenTiles {
 public:
  // `flags` has room for two, in shared memory.
  QUERN_DEVICE OpenTiles(const GemmParams& p, const Deal& deal, i32* flags) : p_(p), deal_(deal), flags_(flags) {}

  // Whether `sums` are all of a tile's. If not they are left for the others.
  QUERN_DEVICE bool whole(const Work& work, Sums& sums) const {
    if (work.last_step - work.first_step == deal_.steps || deal_.steps == 1) return true;
    const i32 block = block_index(0);
    const bool second = deal_.begin(block) < work.tile * deal_.steps;
    sums.write(Slots<Sums>::slot(p_, 2 * static_cast<i64>(block) + (second ? 1 : 0)));
    return false;
  }
  // When there are no more: the next tile of which all have left their sums, this block as the last. They are in `sums` then.
  template <class Tiles>
  QUERN_DEVICE bool next(const Tiles& tiles, Work& work, Sums& sums) {
    if (deal_.steps == 1) return false;
    if (seen_ < 0) {
      arrive();
      seen_ = 0;
    }
    while (seen_ < 2 && flags_[seen_] == 0) ++seen_;
    if (seen_ == 2) return false;
    const i32 tile = tile_of(seen_++);
    add_all(tile, sums);
    work = tiles.at(tile);
    return true;
  }

 private:
  // The one that the block begins with, and that it ends with.
  QUERN_DEVICE i32 tile_of(i32 end) const { return (end == 0 ? deal_.begin(block_index(0)) : deal_.begin(block_index(0) + 1) - 1) / deal_.steps; }

  QUERN_DEVICE void arrive() const {
    sync_block();
    const i32 end = thread_index();
    if (end < 2) {
      bool all = false;
      const i32 tile = tile_of(end);
      if (end == 0 || tile != tile_of(0)) {
        const Sharers sharers(deal_, tile);
        if (sharers.first != sharers.last) all = sharers.arrive(p_, tile);
      }
      flags_[end] = all;
    }
    sync_block();
    fence();
  }
  QUERN_DEVICE void add_all(i32 tile, Sums& sums) const {
    const Sharers sharers(deal_, tile);
    sums.clear();
    QUERN_ROLLED for (i32 block = sharers.first; block <= sharers.last; block += Sums::kAtOnce) {
      const i32 left = sharers.last - block;
      const f32* from[Sums::kAtOnce];
      QUERN_UNROLL for (i32 i = 0; i < Sums::kAtOnce; ++i) from[i] = Slots<Sums>::slot(p_, sharers.slot_of(block + (i < left ? i : left)));
      sums.add(from, left + 1);
    }
  }

  const GemmParams& p_;
  Deal deal_;
  i32* flags_;
  i32 seen_ = -1;
};

}  // namespace q
