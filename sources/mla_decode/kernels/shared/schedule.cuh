// Who does what, decided on the device from the lengths that lie there: no plan on the host, and one captured graph
// serves lengths that change.
//
// An item is a group of tiles of rows of one sequence: `side_by_side` tiles, which as many neighbouring blocks of
// threads take at the same time, so that what one reads of the cache the others find in L2. Items stand in the order of
// their sequences. Each group of blocks of threads takes pieces of items: an item and a range of its blocks of keys. An
// item is so many units long:
//
//  split      one for each block of keys, and a fixed price. All units are cut into equal runs, one a group of blocks
//             of threads. A run covers the end of one item, some whole items and the beginning of another.
//  whole      one for each piece; a piece is a unit. Where sequences are few or much alike, every group can have one
//             piece, or as many whole items, and none takes longer than a run would: nothing is cut in vain then.
//  invariant  one for each piece that the sequence's own length asks for; a piece is a unit.
//
// The pieces of a cut item leave partial results in slots of the workspace, which another kernel joins. A run ends at
// most one cut item and begins at most one, so two slots a run are enough.
//
// Every warp counts for itself, and comes to the same result: there is nothing to wait for.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/reduce.cuh"
#include "mla_decode/kernels/shared/problem.cuh"

namespace q {

// What an item costs beyond its blocks of keys, in such blocks: filling the pipeline and writing the result.
inline constexpr i32 kItemPrice = ITEM_PRICE;
// What a run costs that begins and ends within items, beyond its units: two tasks more, and joining their results.
inline constexpr i32 kCutPrice = CUT_PRICE;
// Whether pieces are planned before the first is asked for, where later there are no registers to spare.
inline constexpr bool kPlansAhead = PLANS_AHEAD != 0;

struct Piece {
  i32 group;         // of tiles
  i32 begin, end;    // blocks of keys of the sequence, counted from Sequence::first; none where end <= begin
  i32 index, count;  // which of the item's pieces; count 1: the item is not cut
  i32 slot, slot_step;
  i32 cut;  // the entry of MlaParams::cuts that its first piece fills
};
// The slot of piece `i`. With a step of 2 piece 0 lies at the end of its run, whose slots begin at `slot`, and the
// others at the beginning of theirs.
QUERN_DEVICE i32 slot_of_piece(i32 slot, i32 step, i32 i) { return slot + (step == 2 && i == 0 ? 1 : i * step); }

// Of numbers that are not negative: cheaper than signed.
QUERN_DEVICE i32 quotient(i32 a, i32 b) { return static_cast<i32>(static_cast<u32>(a) / static_cast<u32>(b)); }

// Blocks of keys of a piece of a batch-invariant call.
QUERN_DEVICE i32 invariant_blocks(const MlaParams& p, const Sequence& s) {
  const i32 pieces = invariant_pieces(kListed ? p.top_k : s.kv_len - s.first);
  return quotient(s.blocks + pieces - 1, pieces);
}

// Of `blocks` blocks in pieces of `piece` each.
QUERN_DEVICE i32 pieces_of(i32 blocks, i32 piece) { return quotient(blocks + piece - 1, piece); }

// The units of one of a sequence's items; `whole`: blocks of keys of a piece, 0 where a piece is no unit.
QUERN_DEVICE i32 item_units(const MlaParams& p, const Sequence& s, i32 whole = 0) {
  if (p.invariant) return pieces_of(s.blocks, invariant_blocks(p, s));
  return whole > 0 ? pieces_of(s.blocks, whole) : s.blocks + kItemPrice;
}

// Where sequences are many, the warps of a block of threads count together, in `counted`. Of more than kWarp sequences
// and up to kPlannedChunks times as many they note what each has, its groups and blocks, so that all can be weighed
// against each other; of fewer who schedules notes them. Of more counted[c] is the units of sequences c * kWarp and on,
// for as many chunks as there are, or nothing where that is more than kCountedChunks. Then comes a barrier.
inline constexpr i32 kCountedChunks = 256, kPlannedChunks = kCountedChunks / (2 * kWarp);
QUERN_DEVICE i32 chunk_count(const MlaParams& p) { return div_up(sequence_count(p), kWarp); }
QUERN_DEVICE bool is_planned(const MlaParams& p) {
  return !p.invariant && sequence_count(p) > 1 && chunk_count(p) <= kPlannedChunks;
}
QUERN_DEVICE bool is_counted(const MlaParams& p) {
  return chunk_count(p) <= kCountedChunks && (p.invariant || chunk_count(p) > 1 || kPlansAhead);
}
QUERN_DEVICE void note_sequence(i32* counted, i32 index, i32 groups, i32 blocks) {
  counted[2 * index] = groups, counted[2 * index + 1] = blocks;
}
QUERN_DEVICE void count_together(const MlaParams& p, i32 warps, i32* counted) {
  const i32 count = chunk_count(p);
  if (!is_counted(p)) return;
  QUERN_ROLLED for (i32 c = warp(); c < count; c += warps) {
    const i32 index = c * kWarp + lane();
    i32 groups = 0, blocks = 0, units = 0;
    if (index < sequence_count(p)) {
      const Sequence s = sequence_at(p, index);
      groups = s.groups, blocks = s.blocks;
      units = groups * item_units(p, s);
    }
    if (is_planned(p)) {
      note_sequence(counted, index, groups, blocks);
      continue;
    }
    units = warp_sum(units);
    if (lane() == 0) counted[c] = units;
  }
}

class Schedule {
 public:
  // `counted` is what count_together made, or null.
  QUERN_DEVICE explicit Schedule(const MlaParams& params, const i32* counted = nullptr)
      : p(params), run_(block_index(0) / params.by_side), each_(1), whole_(0), at_(-1), end_(0), chunk_(0), start_(0) {
    if (!counted || !is_counted(p)) return;
    if (!is_planned(p)) {
      begin_counted(counted);
    } else if constexpr (kPlansAhead) {
      begin_planned(counted);
    }
  }
  QUERN_DEVICE i32 run() const { return run_; }
  // As if all had been planned: what next() says then means nothing.
  QUERN_DEVICE void pretend() { at_ = 0, end_ = whole_ = 1; }

  // The next piece and its sequence; false when there is none. The piece may be empty, and then is not to be looked at
  // further. All lanes of the warp together; all get the same answers. `counted` is what the constructor was given; of
  // few sequences it is needed the first time, and may be written.
  QUERN_DEVICE bool next(Sequence& s, Piece& piece, i32* counted = nullptr) {
    i32 begin, units;  // of the sequence's units
    bool loaded = false;
    QUERN_ROLLED for (;;) {
      // Each lane has one of a chunk of sequences: at first to count their units, then to find the one that unit at_
      // belongs to.
      if (at_ >= end_ && at_ >= 0) return false;
      const bool planned = !kPlansAhead && at_ < 0 && counted && is_planned(p);
      if (!loaded && (!planned || chunk_count(p) == 1)) {
        s = {};
        s.blocks = 1;
        const i32 index = chunk_ + lane();
        if (index < sequence_count(p)) s = sequence_at(p, index);
      }
      loaded = planned && chunk_count(p) == 1;
      if (planned) {
        if (loaded) note_sequence(counted, lane(), s.groups, s.blocks);
        sync_warp();
        begin_planned(counted);
        continue;
      }
      units = s.groups * item_units(p, s, whole_);
      const i32 sum = warp_scan(units);
      const i32 all = shuffle(sum, kWarp - 1);
      begin = start_ + sum - units;
      if (at_ >= start_ && at_ - start_ < all) break;
      start_ += all;
      chunk_ += kWarp;
      if (chunk_ < sequence_count(p)) continue;
      begin_run(start_);
    }
    // From the one lane whose sequence it is to all.
    i32 source = at_ >= begin && at_ - begin < units ? lane() : 0;
    source = warp_max(source);
    begin = shuffle(begin, source);
    s.index = chunk_ + source;
    s.q_begin = shuffle(s.q_begin, source);
    s.q_len = shuffle(s.q_len, source);
    s.position = shuffle(s.position, source);
    s.kv_len = shuffle(s.kv_len, source);
    s.groups = shuffle(s.groups, source);
    s.first = shuffle(s.first, source);
    s.blocks = shuffle(s.blocks, source);
    put(s, begin, piece);
    return true;
  }

 private:
  // The first chunk of sequences that this run has any of, from what was counted together.
  QUERN_DEVICE void begin_counted(const i32* chunks) {
    const i32 count = chunk_count(p);
    i32 total = 0;
    QUERN_ROLLED for (i32 c = lane(); c < count; c += kWarp) total += chunks[c];
    begin_run(warp_sum(total));
    QUERN_ROLLED for (i32 first = 0; first < count; first += kWarp) {
      const i32 units = first + lane() < count ? chunks[first + lane()] : 0;
      const i32 sum = warp_scan(units);
      // Whole chunks that end before the run's first unit.
      const bool passed = first + lane() < count && start_ + sum <= at_;
      const i32 skipped = static_cast<i32>(popcount(ballot(passed)));
      const i32 units_skipped = shuffle(sum, skipped > 0 ? skipped - 1 : 0);
      chunk_ += skipped * kWarp;
      if (skipped > 0) start_ += units_skipped;
      if (skipped < kWarp) break;
    }
  }
  // The lane's units of a chunk that was noted; `inverse` is 1 / whole_. Adding half a block keeps quotients of less
  // than 2^21 blocks from being rounded to the next.
  QUERN_DEVICE i32 noted_units(const i32* counted, i32 chunk, f32 inverse) const {
    const i32 index = chunk * kWarp + lane(), groups = counted[2 * index], blocks = counted[2 * index + 1];
    if (whole_ == 0) return groups * (blocks + kItemPrice);
    return groups * static_cast<i32>((static_cast<f32>(blocks + whole_) - 0.5f) * inverse);
  }
  // Chooses between runs of units and whole pieces: several items a run are not cut, else pieces are as small as can be
  // without being too many.
  QUERN_DEVICE void begin_planned(const i32* counted) {
    const i32 chunks = chunk_count(p);
    i32 items = 0, keys = 0, most = 0;
    QUERN_ROLLED for (i32 c = 0; c < chunks; ++c) {
      const i32 index = c * kWarp + lane(), groups = counted[2 * index], blocks = counted[2 * index + 1];
      items += groups, keys += groups * blocks;
      most = groups > 0 && blocks > most ? blocks : most;
    }
    items = warp_sum(items), keys = warp_sum(keys), most = static_cast<i32>(warp_max(static_cast<u32>(most)));
    i32 total = keys + items * kItemPrice;
    const i32 budget = (total + p.parts - 1) / p.by_parts + kCutPrice;
    each_ = (items + p.parts - 1) / p.by_parts;
    f32 inverse = 0.0f;
    if (each_ > 1) {
      if (each_ * (most + kItemPrice) <= budget) whole_ = most, total = items;
      inverse = rcp(static_cast<f32>(most));
    } else if (items > 0 && keys < 1 << 20) {
      const i32 largest = budget - kItemPrice, least = (keys + p.parts - 1) / p.by_parts;
      bool fits = false;  // whether there are few enough of the largest
      i32 piece = largest;
      QUERN_ROLLED while (least <= largest) {
        whole_ = piece;
        inverse = rcp(static_cast<f32>(piece));
        i32 pieces = 0;
        QUERN_ROLLED for (i32 c = 0; c < chunks; ++c) pieces += noted_units(counted, c, inverse);
        pieces = warp_sum(pieces);
        if (pieces <= p.parts) {
          total = pieces;
          if (fits || least == largest) break;
          fits = true, piece = least;
        } else if (fits) {
          ++piece;
        } else {
          whole_ = 0;
          break;
        }
      }
    }
    begin_run(total);
    // The chunks that end before the run's first unit.
    QUERN_ROLLED for (i32 c = 0; c + 1 < chunks; ++c) {
      const i32 all = warp_sum(noted_units(counted, c, inverse));
      if (start_ + all > at_) break;
      start_ += all, chunk_ += kWarp;
    }
  }

  // All units have been counted: what this run has of them.
  QUERN_DEVICE void begin_run(i32 total) {
    chunk_ = start_ = 0;
    at_ = run_;
    end_ = total;
    if (p.invariant) return;
    if (whole_ == 0) each_ = (total + p.parts - 1) / p.by_parts;
    if (each_ < 1) each_ = 1;
    at_ = run_ * each_;  // at most a run's units beyond all of them
    end_ = at_ + each_ < total ? at_ + each_ : total;
  }
  // The piece at unit at_, of a sequence whose units begin at `begin`.
  QUERN_DEVICE void put(const Sequence& s, i32 begin, Piece& piece) {
    const i32 length = item_units(p, s, whole_), item = quotient(at_ - begin, length), start = begin + item * length;
    const i32 from = at_ - start, to = end_ - start < length ? end_ - start : length;
    piece.group = item;
    if (p.invariant) {
      const i32 each = invariant_blocks(p, s);
      piece.begin = from * each;
      piece.end = piece.begin + each < s.blocks ? piece.begin + each : s.blocks;
      piece.index = from;
      piece.count = length;
      piece.cut = s.index * p.most_groups + item;
      piece.slot = piece.cut * p.most_pieces;
      piece.slot_step = 1;
      at_ += p.parts;
    } else if (whole_ > 0) {
      const i32 each = quotient(s.blocks + length - 1, length);  // about equally many
      piece.begin = from * each;
      piece.end = piece.begin + each < s.blocks ? piece.begin + each : s.blocks;
      piece.index = from;
      piece.count = length;
      piece.cut = start;
      piece.slot = 2 * start;
      piece.slot_step = 2;
      at_ += 1;
    } else {
      piece.begin = from > kItemPrice ? from - kItemPrice : 0;
      piece.end = to - kItemPrice;
      const i32 first = quotient(start + kItemPrice, each_), last = quotient(start + length - 1, each_);
      piece.index = run_ - first;
      piece.count = last - first + 1;
      piece.cut = first;
      piece.slot = 2 * first;
      piece.slot_step = 2;
      at_ = start + length;
    }
  }

  const MlaParams& p;
  i32 run_;
  i32 each_;      // units of a run; the last may have fewer
  i32 whole_;     // blocks of keys of a piece where pieces are units, else 0
  i32 at_, end_;  // what is left of this run's units; at -1: they are still to be counted
  i32 chunk_;     // the first of the sequences that the lanes have next, and the units before them
  i32 start_;
};

// What the kernel that joins must know of an item that was cut.
QUERN_DEVICE MlaCut cut_of(const MlaParams& p, const Sequence& s, i32 group, i32 slot, i32 step, i32 count) {
  return {count, slot, step, s.q_begin, s.q_len * p.heads, group * p.side_by_side * kRows};
}
// Written by the first block of threads of the group that has the item's first piece, by the one thread that `writes`;
// each group says first that it cuts none. Of a batch-invariant call it is computed again instead.
QUERN_DEVICE void note_no_cut(const MlaParams& p, i32 run, bool writes) {
  if (!p.invariant && writes && tile_of_block(p) == 0 && run < p.cut_count) p.cuts[run].count = 0;
}
QUERN_DEVICE void note_cut(const MlaParams& p, const Sequence& s, const Piece& piece, bool writes) {
  if (p.invariant || piece.index != 0 || piece.count <= p.joined || !writes || tile_of_block(p) != 0) return;
  p.cuts[piece.cut] = cut_of(p, s, piece.group, piece.slot, piece.slot_step, piece.count);
}
QUERN_DEVICE MlaCut invariant_cut(const MlaParams& p, i32 entry) {
  const i32 index = quotient(entry, p.most_groups), group = entry - index * p.most_groups;
  Sequence s = sequence_at(p, index);
  if (group >= s.groups) return {};
  if (kListed && listed_of(p, index).sequence < 0) s.q_len = 0;
  const i32 each = invariant_blocks(p, s);
  return cut_of(p, s, group, entry * p.most_pieces, 1, quotient(s.blocks + each - 1, each));
}

QUERN_DEVICE f32* slot_at(const MlaParams& p, i32 slot, i32 tile) {
  return p.partials + (static_cast<i64>(slot) * p.side_by_side + tile) * p.slot_floats;
}

}  // namespace q
