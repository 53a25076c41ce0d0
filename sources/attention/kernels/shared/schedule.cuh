// Who does what, decided on the device from the lengths that lie there: no plan on the host, and one captured graph serves
// lengths that change.
//
// An item is one tile of rows of one KV head of one sequence. Items stand in the order of their sequences; within a sequence
// its last tile comes first, because the last tiles of a causal sequence are the longest, and the heads of one tile, which end
// together, stand side by side. A block of threads takes pieces of items: an item and a range of its KV blocks. An item is so
// many units long:
//
//  whole      one: a piece is an item. Taken, where the kernel allows it, when no item is longer than an even share.
//  split      one for each KV block, and a fixed price. All units are cut into equal runs, one a thread block. A run covers
//             the end of one item, some whole items and the beginning of another.
//  invariant  one for so many KV blocks as the sequence's own length tells; a piece is a unit.
//
// The pieces of a cut item leave partial results in slots of the workspace. A run ends at most one cut item and begins at
// most one, so two slots a run are enough.
//
// This runs once a piece, so the code is written to be small: loops stay rolled, and what is needed twice stands in one loop.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "attention/kernels/shared/problem.cuh"

namespace q {

// What an item costs beyond its KV blocks, in KV blocks: filling the pipeline and writing the result.
inline constexpr i32 kItemPrice = ITEM_PRICE;
// An invariant piece has at least this many keys.
inline constexpr i32 kInvariantKeys = 256;

enum class Mode : i32 { whole, split, invariant };

struct Piece {
  i32 head, tile;
  i32 begin, end;    // KV blocks of the sequence, counted from Sequence::first
  i32 index, count;  // which of the item's pieces; count 1: the item is not cut
  i32 slot, slot_step;
  i32 counter;
};
// Of a cut item's piece `i`. With a step of 2 piece 0 lies at the end of its run, whose slots begin at `slot`, and the others
// at the beginning of theirs.
QUERN_DEVICE i32 slot_of_piece(const Piece& piece, i32 i) {
  return piece.slot + (i == 0 ? piece.slot_step - 1 : i * piece.slot_step);
}

// Of numbers that are not negative: cheaper than signed.
QUERN_DEVICE i32 quotient(i32 a, i32 b) { return static_cast<i32>(static_cast<u32>(a) / static_cast<u32>(b)); }

// The state of a thread block's schedule is in shared memory: in registers it would be in the way of the loop over the keys.
struct ScheduleScratch {
  Sequence sequence;  // of the piece in hand
  Piece piece;
  Mode mode;
  i32 at, end;  // what is left of this thread block's units; at -1: they are still to be counted
  i32 each;     // units of a run; the last run may have fewer
  i32 before[THREADS];  // the units before each thread's sequences
  i32 units[16];        // of each warp's sequences
  i32 longest[16];      // of each warp's items, in KV blocks
};

// Built and asked by all threads of the block together; all of them get the same answers.
template <int kThreads, bool kMayBeWhole, bool kMayBeInvariant>
class Schedule {
 public:
  QUERN_DEVICE Schedule(const AttentionParams& params, ScheduleScratch* scratch) : p(params), scratch_(scratch) {
    if (thread_index() == 0) {
      scratch_->mode = kMayBeInvariant && p.invariant ? Mode::invariant : Mode::split;
      scratch_->at = -1;
      scratch_->end = 0;
    }
    sync_block();
  }

  // One step towards the end of this thread block's units. Then a piece and its sequence are in the scratch memory; the piece may
  // be empty: the first steps only count, and have none.
  QUERN_DEVICE void next() {
    const i32 at = scratch_->at;
    sync_block();  // whoever still reads what was put into the scratch memory last
    // Each thread walks over its sequences: at first to count their units, then to find the one that unit `at` belongs to.
    i32 start = at < 0 ? 0 : scratch_->before[thread_index()], longest = 0;
    QUERN_ROLLED for (i32 i = thread_index(); i < p.batch; i += kThreads) {
      const Sequence s = sequence_at(p, i);
      if (s.tiles <= 0) continue;
      const i32 each = unit_blocks(s), length = item_units(s, each);
      const i32 units = s.tiles * p.kv_heads * length;  // the caller sees to it that all of a call stay below 2^31
      // No unit is at -1. (Were that asked for here, the compiler would make two loops of this one.)
      if (at - start >= 0 && at - start < units) put(s, at, start, each, length);
      start += units;
      longest = s.blocks > longest ? s.blocks : longest;
    }
    if (at < 0) sum_up(start, longest);
    sync_block();
  }
  // Whether there is a further step.
  QUERN_DEVICE bool more() const { return scratch_->at < scratch_->end; }

 private:
  // KV blocks of a unit. An invariant item may be cut into so many pieces that one KV head's tiles have kInvariantPieces in
  // all.
  QUERN_DEVICE i32 unit_blocks(const Sequence& s) const {
    if (scratch_->mode == Mode::split) return 1;
    if (!kMayBeInvariant || scratch_->mode == Mode::whole) return s.blocks;
    const i32 most = invariant_most(s), least = div_up(kInvariantKeys, kBlock);
    const i32 even = quotient(s.blocks + most - 1, most);
    return even > least || most == 1 ? even : least;
  }
  // kInvariantPieces divided by the tiles, or 1. (As a division it would be a call.)
  QUERN_DEVICE static i32 invariant_most(const Sequence& s) {
    i32 most = 1;
    QUERN_ROLLED while ((most + 1) * s.tiles <= kInvariantPieces) ++most;
    return most;
  }
  QUERN_DEVICE i32 price() const { return scratch_->mode == Mode::split ? kItemPrice : 0; }
  // Units of an item whose units have `each` KV blocks.
  QUERN_DEVICE i32 item_units(const Sequence& s, i32 each) const {
    if (scratch_->mode == Mode::split) return s.blocks + kItemPrice;
    return kMayBeInvariant ? quotient(s.blocks + each - 1, each) : 1;
  }

  // From the units of each thread's sequences, and their longest item's KV blocks, to what this thread block does.
  QUERN_DEVICE void sum_up(i32 own, i32 longest) {
    i32 units = own;
    QUERN_ROLLED for (int d = 1; d < kWarp; d *= 2) {  // inclusive prefix sums over the warp
      const i32 below = shuffle_up(units, d), other = shuffle_xor(longest, d);
      if (lane() >= d) units += below;
      longest = other > longest ? other : longest;
    }
    if (lane() == kWarp - 1) scratch_->units[warp()] = units, scratch_->longest[warp()] = longest;
    sync_block();
    i32 total = 0;
    QUERN_ROLLED for (int w = 0; w < kThreads / kWarp; ++w) {
      if (w == warp()) scratch_->before[thread_index()] = total + units - own;
      total += scratch_->units[w];
      longest = scratch_->longest[w] > longest ? scratch_->longest[w] : longest;
    }
    if (thread_index() != 0) return;
    scratch_->piece.begin = scratch_->piece.end = 0;
    const u32 all = static_cast<u32>(total), parts = static_cast<u32>(p.parts), block = static_cast<u32>(block_index(0));
    u32 at = block, end = all;
    if (scratch_->mode == Mode::split) {
      const u32 each = (all + parts - 1) / parts;
      if (kMayBeWhole && static_cast<u32>(longest) <= each) {
        scratch_->mode = Mode::whole;  // to be counted again
        return;
      }
      scratch_->each = static_cast<i32>(each);
      at = (block < parts ? block : parts) * each;
      end = at + each < all ? at + each : all;
    }
    scratch_->at = static_cast<i32>(at < all ? at : all);
    scratch_->end = static_cast<i32>(end);
  }

  // The piece that begins at unit `at`: in sequence `s`, which begins at unit `start` and has items of `length` units of
  // `each` KV blocks.
  QUERN_DEVICE void put(const Sequence& s, i32 at, i32 start, i32 each, i32 length) {
    const i32 item = quotient(at - start, length), tile = quotient(item, p.kv_heads);
    start += item * length;  // of the item
    const i32 from = at - start, end = scratch_->end;
    const bool split = scratch_->mode == Mode::split;
    const i32 to = !split ? from + 1 : end - start < length ? end - start : length;
    Piece piece;
    piece.head = item - tile * p.kv_heads;
    piece.tile = s.tiles - 1 - tile;
    piece.begin = from > price() ? (from - price()) * each : 0;
    piece.end = (to - price()) * each < s.blocks ? (to - price()) * each : s.blocks;
    piece.index = 0;
    piece.count = 1;
    piece.slot = piece.counter = 0;
    piece.slot_step = 2;
    if (kMayBeInvariant && scratch_->mode == Mode::invariant) {
      const i32 head = (s.index * p.kv_heads + piece.head) * kInvariantPieces;  // a KV head's slots and counters
      piece.index = from;
      piece.count = length;
      piece.slot = head + piece.tile * invariant_most(s);
      piece.slot_step = 1;
      piece.counter = head + piece.tile;
    } else if (piece.end - piece.begin < s.blocks) {
      i32 first = 0, last = 0;  // the runs of the item's first and last KV block
      QUERN_ROLLED for (int end = 0; end < 2; ++end) {
        first = last;
        last = quotient(end == 0 ? start + kItemPrice : start + length - 1, scratch_->each);
      }
      piece.index = block_index(0) - first;
      piece.count = last - first + 1;
      piece.slot = 2 * first;
      piece.counter = first;
    }
    scratch_->sequence = s;
    scratch_->piece = piece;
    scratch_->at = split ? start + length : at + block_count(0);
  }

  const AttentionParams& p;
  ScheduleScratch* scratch_;
};

}  // namespace q
