// Who does what, decided on the device from the lengths that lie there: no plan on the host, and one captured graph serves
// lengths that change.
//
// An item is one tile of rows of one KV head of one sequence. Items stand in the order sequence, KV head, tile; a block of
// threads takes pieces of items: an item and a range of its KV blocks.
//
//  whole      one item a piece, a sequence's tiles in reverse order: the longest of a causal sequence begin first, and the
//             heads of one tile, which end together, stand side by side. Taken, where the kernel allows it, when no item is
//             longer than an even share.
//  split      every KV block, and a fixed price for each item, is a unit; the units are cut into equal runs, one a thread
//             block. A run covers the end of one item, some whole items and the beginning of another.
//  invariant  every item is cut into pieces by its own sequence's length alone.
//
// The pieces of a cut item leave partial results in slots of the workspace. A run ends at most one cut item and begins at
// most one, so two slots a run are enough.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "attention/problem.cuh"

namespace q {

// What an item costs beyond its KV blocks, in KV blocks: filling the pipeline and writing the result.
inline constexpr i32 kItemPrice = ITEM_PRICE;
// An invariant piece has at least this many keys.
inline constexpr i32 kInvariantKeys = 256;

enum class Mode : i32 { whole, split, invariant };

struct Piece {
  i32 head, tile;
  i32 begin, end;  // KV blocks of the sequence, counted from Sequence::first
  i32 index, count;  // which of the item's pieces; count 1: the item is not cut
  i32 first_slot, next_slot, slot_step;  // piece i's slot: first_slot, or next_slot + (i - 1) * slot_step
  i32 counter;
};
QUERN_DEVICE i32 slot_of_piece(const Piece& piece, i32 i) {
  return i == 0 ? piece.first_slot : piece.next_slot + (i - 1) * piece.slot_step;
}

// Into how many pieces an item of a sequence may be cut: so many that one KV head's tiles have kInvariantPieces in all.
QUERN_DEVICE i32 invariant_most(const Sequence& s) { return s.tiles < kInvariantPieces ? kInvariantPieces / s.tiles : 1; }
QUERN_DEVICE i32 invariant_blocks(const Sequence& s) {
  const i32 most = invariant_most(s), least = div_up(kInvariantKeys, kBlock), even = div_up(s.blocks, most);
  return even > least || most == 1 ? even : least;
}

// How many units of `mode` a sequence has. The caller sees to it that all units of a call stay below 2^31.
QUERN_DEVICE i32 units_of(const AttentionParams& p, const Sequence& s, Mode mode) {
  const i32 items = s.tiles * p.kv_heads;
  if (mode == Mode::whole || items == 0) return items;
  return items * (mode == Mode::split ? s.blocks + kItemPrice : div_up(s.blocks, invariant_blocks(s)));
}

// Of numbers that are not negative: cheaper than signed.
QUERN_DEVICE i32 quotient(i32 a, i32 b) { return static_cast<i32>(static_cast<u32>(a) / static_cast<u32>(b)); }

struct ScheduleScratch {
  i32 units[16];  // of each warp's sequences
  i32 items[16];
  i32 longest[16];
  i32 base;
  i32 sequence;
};

// Built and asked by all threads of the block together; all of them get the same answers.
template <int kThreads, bool kMayBeWhole>
class Schedule {
 public:
  QUERN_DEVICE Schedule(const AttentionParams& params, ScheduleScratch* scratch) : p(params), scratch_(scratch) {
    const i32 each = div_up(p.batch, kThreads);
    from_ = thread_index() * each < p.batch ? thread_index() * each : p.batch;
    to_ = from_ + each < p.batch ? from_ + each : p.batch;
    mode_ = p.invariant ? Mode::invariant : Mode::split;
    count();
    if (mode_ == Mode::split) {
      parts_ = total_ < p.parts ? static_cast<i32>(total_) : p.parts;
      const bool idle = block_index(0) >= parts_;
      each_ = idle ? 0 : quotient(total_, parts_);
      at_ = idle ? total_ : run_begin(block_index(0));
      end_ = idle ? total_ : run_begin(block_index(0) + 1);
    } else {
      parts_ = block_count(0);
      at_ = block_index(0);
      end_ = total_;
    }
    after_ = -1;
  }

  // The next piece of this thread block; false when there is none left.
  QUERN_DEVICE bool next(Sequence* s, Piece* piece) {
    QUERN_ROLLED for (;;) {
      if (at_ >= end_) return false;
      const i32 unit = at_;
      if (mode_ == Mode::split && after_ == unit) {
        ++index_;  // a run goes on with the next sequence
        base_ = after_;
      } else if (mode_ != Mode::split || unit > after_) {
        locate(unit);
      }
      *s = sequence_at(p, index_);
      after_ = base_ + units_of(p, *s, mode_);
      if (unit >= after_) continue;  // a sequence without queries
      if (mode_ != Mode::split) {
        at_ += parts_;
        const i32 local = unit - base_;
        if (mode_ == Mode::whole) {
          const i32 tile = quotient(local, p.kv_heads);
          *piece = uncut_piece(*s, local - tile * p.kv_heads, s->tiles - 1 - tile);
        } else {
          *piece = invariant_piece(*s, local);
        }
        return true;
      }
      if (split_piece(*s, piece)) return true;
    }
  }

 private:
  // Sums the units of all sequences, and decides whether items are taken whole.
  QUERN_DEVICE void count() {
    i32 units = 0, items = 0, longest = 0;
    QUERN_ROLLED for (i32 i = from_; i < to_; ++i) {
      const Sequence s = sequence_at(p, i);
      units += units_of(p, s, mode_);
      items += s.tiles * p.kv_heads;
      if (s.tiles > 0 && s.blocks > longest) longest = s.blocks;
    }
    own_ = units;
    own_items_ = items;
    QUERN_UNROLL for (int d = 1; d < kWarp; d *= 2) {  // inclusive prefix sums over the warp
      const i32 units_below = shuffle_up(units, d), items_below = shuffle_up(items, d), other = shuffle_xor(longest, d);
      if (lane() >= d) units += units_below, items += items_below;
      longest = other > longest ? other : longest;
    }
    if (lane() == kWarp - 1) {
      scratch_->units[warp()] = units;
      scratch_->items[warp()] = items;
      scratch_->longest[warp()] = longest;
    }
    sync_block();
    i32 units_before = 0, items_before = 0, all_items = 0;
    total_ = 0;
    QUERN_UNROLL for (int w = 0; w < kThreads / kWarp; ++w) {
      if (w == warp()) units_before = total_, items_before = all_items;
      total_ += scratch_->units[w];
      all_items += scratch_->items[w];
      longest = scratch_->longest[w] > longest ? scratch_->longest[w] : longest;
    }
    before_ = units_before + units - own_;
    if (kMayBeWhole && mode_ == Mode::split && longest <= quotient(total_, p.parts)) {
      mode_ = Mode::whole;
      total_ = all_items;
      own_ = own_items_;
      before_ = items_before + items - own_items_;
    }
  }

  // Finds the sequence that a unit belongs to: one thread has it among its own.
  QUERN_DEVICE void locate(i32 unit) {
    sync_block();  // whoever still reads the last answer
    if (unit >= before_ && unit < before_ + own_) {
      i32 base = before_;
      i32 i = from_;
      QUERN_ROLLED for (;; ++i) {
        const i32 units = units_of(p, sequence_at(p, i), mode_);
        if (unit < base + units) break;
        base += units;
      }
      scratch_->sequence = i;
      scratch_->base = base;
    }
    sync_block();
    index_ = scratch_->sequence;
    base_ = scratch_->base;
  }

  QUERN_DEVICE static Piece uncut_piece(const Sequence& s, i32 head, i32 tile) {
    return {head, tile, 0, s.blocks, 0, 1, 0, 0, 0, 0};
  }

  QUERN_DEVICE static Piece item_piece(const Sequence& s, i32 item) {
    const i32 head = quotient(item, s.tiles);
    return uncut_piece(s, head, item - head * s.tiles);
  }

  // Runs have each_ units, and the first of them one more until the remainder is used up.
  QUERN_DEVICE i32 remainder() const { return total_ - each_ * parts_; }
  QUERN_DEVICE i32 run_begin(i32 part) const { return part * each_ + (part < remainder() ? part : remainder()); }
  QUERN_DEVICE i32 part_of(i32 unit) const {
    const i32 longer = remainder() * (each_ + 1);
    return unit < longer ? quotient(unit, each_ + 1) : remainder() + quotient(unit - longer, each_);
  }

  // The run's share of the item that `at_` lies in; false when that is the item's price alone.
  QUERN_DEVICE bool split_piece(const Sequence& s, Piece* piece) {
    const i32 length = s.blocks + kItemPrice;
    const i32 item = quotient(at_ - base_, length), start = base_ + item * length;
    const i32 from = at_ - start, to = end_ - start < length ? end_ - start : length;
    *piece = item_piece(s, item);
    piece->begin = from > kItemPrice ? from - kItemPrice : 0;
    piece->end = to - kItemPrice;
    at_ = start + length;
    if (piece->end <= piece->begin) return false;
    if (piece->end - piece->begin < s.blocks) {
      const i32 first = part_of(start + kItemPrice), last = part_of(start + length - 1);
      piece->index = block_index(0) - first;
      piece->count = last - first + 1;
      piece->first_slot = 2 * first + 1;
      piece->next_slot = 2 * first + 2;
      piece->slot_step = 2;
      piece->counter = first;
    }
    return true;
  }

  QUERN_DEVICE Piece invariant_piece(const Sequence& s, i32 local) const {
    const i32 each = invariant_blocks(s), count = div_up(s.blocks, each);
    const i32 item = quotient(local, count);
    Piece piece = item_piece(s, item);
    piece.index = local - item * count;
    piece.count = count;
    piece.begin = piece.index * each;
    piece.end = piece.begin + each < s.blocks ? piece.begin + each : s.blocks;
    const i32 head = (s.index * p.kv_heads + piece.head) * kInvariantPieces;  // a KV head's slots and counters
    piece.first_slot = head + piece.tile * invariant_most(s);
    piece.next_slot = piece.first_slot + 1;
    piece.slot_step = 1;
    piece.counter = head + piece.tile;
    return piece;
  }

  const AttentionParams& p;
  ScheduleScratch* scratch_;
  Mode mode_;
  i32 from_, to_;            // this thread's sequences,
  i32 before_, own_;         // the units before them, and theirs
  i32 own_items_;
  i32 total_;
  i32 parts_;
  i32 each_;                 // units of a run
  i32 at_, end_;             // what is left of this thread block's units
  i32 index_;                // the sequence in hand, its first unit and the first one after it
  i32 base_, after_;
};

}  // namespace q
