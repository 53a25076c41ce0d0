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

// How many units of `mode` a sequence has.
QUERN_DEVICE i64 units_of(const AttentionParams& p, const Sequence& s, Mode mode) {
  const i64 items = static_cast<i64>(s.tiles) * p.kv_heads;
  if (mode == Mode::whole) return items;
  if (mode == Mode::split) return items * (s.blocks + kItemPrice);
  if (items == 0) return 0;
  return items * div_up(s.blocks, invariant_blocks(s));
}

struct ScheduleScratch {
  i64 sums[16];
  i64 base;
  i32 longest[16];
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
    const i32 longest = count();
    if (kMayBeWhole && mode_ == Mode::split && longest <= total_ / p.parts) {
      mode_ = Mode::whole;
      count();
    }
    if (mode_ == Mode::split) {
      parts_ = total_ < p.parts ? static_cast<i32>(total_) : p.parts;
      at_ = block_index(0) < parts_ ? run_begin(block_index(0)) : total_;
      end_ = block_index(0) < parts_ ? run_begin(block_index(0) + 1) : total_;
    } else {
      parts_ = block_count(0);
      at_ = block_index(0);
      end_ = total_;
    }
    after_ = -1;
  }

  // The next piece of this thread block; false when there is none left.
  QUERN_DEVICE bool next(Sequence* s, Piece* piece) {
    for (;;) {
      if (at_ >= end_) return false;
      const i64 unit = at_;
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
        const i32 local = static_cast<i32>(unit - base_);
        *piece = mode_ == Mode::whole ? uncut_piece(*s, local % p.kv_heads, s->tiles - 1 - local / p.kv_heads)
                                      : invariant_piece(*s, local);
        return true;
      }
      if (split_piece(*s, piece)) return true;
    }
  }

 private:
  // Sums the units of all sequences; returns the units of the longest item.
  QUERN_DEVICE i32 count() {
    i64 own = 0;
    i32 longest = 0;
    for (i32 i = from_; i < to_; ++i) {
      const Sequence s = sequence_at(p, i);
      own += units_of(p, s, mode_);
      if (s.tiles > 0 && s.blocks > longest) longest = s.blocks;
    }
    i64 prefix = own;  // inclusive, over the warp
    QUERN_UNROLL for (int d = 1; d < kWarp; d *= 2) {
      const i64 below = shuffle_up(prefix, d);
      if (lane() >= d) prefix += below;
    }
    QUERN_UNROLL for (int d = kWarp / 2; d > 0; d /= 2) {
      const i32 other = shuffle_xor(longest, d);
      longest = other > longest ? other : longest;
    }
    if (lane() == kWarp - 1) scratch_->sums[warp()] = prefix, scratch_->longest[warp()] = longest;
    sync_block();
    i64 before = 0;
    total_ = 0;
    QUERN_UNROLL for (int w = 0; w < kThreads / kWarp; ++w) {
      if (w < warp()) before += scratch_->sums[w];
      total_ += scratch_->sums[w];
      longest = scratch_->longest[w] > longest ? scratch_->longest[w] : longest;
    }
    before_ = before + prefix - own;
    own_ = own;
    sync_block();
    return longest;
  }

  // Finds the sequence that a unit belongs to: one thread has it among its own.
  QUERN_DEVICE void locate(i64 unit) {
    sync_block();  // whoever still reads the last answer
    if (unit >= before_ && unit < before_ + own_) {
      i64 base = before_;
      i32 i = from_;
      for (;; ++i) {
        const i64 units = units_of(p, sequence_at(p, i), mode_);
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

  QUERN_DEVICE i64 run_begin(i32 part) const { return part * total_ / parts_; }
  QUERN_DEVICE i32 part_of(i64 unit) const { return static_cast<i32>(((unit + 1) * parts_ - 1) / total_); }

  // The run's share of the item that `at_` lies in; false when that is the item's price alone.
  QUERN_DEVICE bool split_piece(const Sequence& s, Piece* piece) {
    const i32 length = s.blocks + kItemPrice;
    const i32 item = static_cast<i32>((at_ - base_) / length);
    const i64 start = base_ + static_cast<i64>(item) * length;
    const i32 from = static_cast<i32>(at_ - start), to = end_ - start < length ? static_cast<i32>(end_ - start) : length;
    *piece = uncut_piece(s, item / s.tiles, item % s.tiles);
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
    const i32 item = local / count;
    Piece piece = uncut_piece(s, item / s.tiles, item % s.tiles);
    piece.index = local % count;
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
  i64 before_, own_;         // the units before them, and theirs
  i64 total_;
  i32 parts_;
  i64 at_, end_;             // what is left of this thread block's units
  i32 index_;                // the sequence in hand, its first unit and the first one after it
  i64 base_, after_;
};

}  // namespace q
