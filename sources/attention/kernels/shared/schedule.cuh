// Who does what, decided on the device from the lengths that lie there: no plan on the host, and one captured graph
// serves lengths that change.
//
// An item is one tile of rows of one KV head of one sequence. Items stand in the order of their sequences; within a
// sequence its last tile comes first, because the last tiles of a causal sequence are the longest, and the heads of one
// tile, which end together, stand side by side. A block of threads takes pieces of items: an item and a range of its KV
// blocks. An item is so many units long:
//
//  whole      one: a piece is an item. Taken, where the kernel allows it, when no item is longer than an even share; by
//             a team that draws its items, where that is done sooner than by the second way.
//  split      one for each KV block, and a fixed price. All units are cut into equal runs, one a thread block. A run
//             covers the end of one item, some whole items and the beginning of another.
//  invariant  one for so many KV blocks as the sequence's own length tells; a piece is a unit.
//
// The pieces of a cut item leave partial results in slots of the workspace. A run ends at most one cut item and begins
// at most one, so two slots a run are enough.
//
// The code is written to be small: loops stay rolled, and what is needed twice stands in one loop.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "attention/kernels/shared/problem.cuh"
#include "common/reduce.cuh"

namespace q {

// What an item costs beyond its KV blocks, in KV blocks: filling the pipeline and writing the result.
inline constexpr i32 kItemPrice = ITEM_PRICE;
// An invariant piece has at least this many keys.
inline constexpr i32 kInvariantKeys = 256;
// What it costs to join the pieces of items that even runs cut, in KV blocks.
inline constexpr i32 kCutPrice = 6;
// How many pieces can be joined in the time that a block of keys takes.
inline constexpr i32 kPieceTime = 9;

// Keys and values of the heads that are worked on side by side by a team that draws its items, bytes at most: they are
// read by several blocks of threads, and L2 is to hold them until then. 0: all heads are side by side.
#ifndef SECTION_BYTES
#define SECTION_BYTES 0
#endif

enum class Mode : i32 { whole, split, invariant };

struct Piece {
  i32 head, tile;
  i32 begin, end;    // KV blocks of the sequence, counted from Sequence::first
  i32 index, count;  // which of the item's pieces; count 1: the item is not cut
  i32 slot, slot_step;
  i32 counter;
};
// Of a cut item's piece `i`. With a step of 2 piece 0 lies at the end of its run, whose slots begin at `slot`, and the
// others at the beginning of theirs.
QUERN_DEVICE i32 slot_of_piece(const Piece& piece, i32 i) {
  return piece.slot + (i == 0 ? piece.slot_step - 1 : i * piece.slot_step);
}

// Of numbers that are not negative: cheaper than signed.
QUERN_DEVICE i32 quotient(i32 a, i32 b) { return static_cast<i32>(static_cast<u32>(a) / static_cast<u32>(b)); }
// Of less than 2^12, as thread blocks are: a half above `a` no rounding reaches the next whole number.
QUERN_DEVICE i32 small_quotient(i32 a, i32 b) {
  return static_cast<i32>((static_cast<f32>(a) + 0.5f) * rcp_approx(static_cast<f32>(b)));
}

// Who builds and asks a schedule: the whole block of threads, each thread block taking every so many items. Side by
// side: whole items are taken where they are even, so many at once that all heads of a token are read at the same time.
struct WholeBlock {
  static constexpr int kThreads = THREADS;
  static constexpr bool kDraws = false, kSideBySide = false;
  QUERN_DEVICE static int index() { return thread_index(); }
  QUERN_DEVICE static int warp() { return q::warp(); }
  QUERN_DEVICE static void sync() { sync_block(); }
  QUERN_DEVICE static i32 block() { return block_index(0); }
  QUERN_DEVICE static i32 blocks() { return block_count(0); }
};
// One warp of it, for others to be told. Whole items are drawn: a block that is done sooner takes more of them.
struct OneWarp {
  static constexpr int kThreads = kWarp;
  static constexpr bool kDraws = true, kSideBySide = false;
  QUERN_DEVICE static int index() { return lane(); }
  QUERN_DEVICE static int warp() { return 0; }
  QUERN_DEVICE static void sync() { sync_warp(); }
};

struct PieceOfSequence {
  Sequence sequence;
  Piece piece;
};

// The state of a thread block's schedule is in shared memory: in registers it would be in the way of the loop over the
// keys.
template <class Team>
struct ScheduleScratchOf : PieceOfSequence {  // the piece in hand
  static constexpr int kWarps = div_up(Team::kThreads, kWarp);
  Mode mode;
  i32 at, end;                 // what is left of this thread block's units; at -1: they are still to be counted
  i32 each;                    // units of a run; the last run may have fewer
  i32 before[Team::kThreads];  // the units before each thread's sequences
  i32 units[kWarps];           // of each warp's sequences
  i32 whole[kWarps];           // the same as whole items
  i32 longest[kWarps];         // of each warp's items, in KV blocks
};
// What a team that draws knows of all items, as they are when they are not cut: in KV blocks that rows see.
struct WholeItems {
  i32 count, blocks, longest, shortest;
};
using ScheduleScratch = ScheduleScratchOf<WholeBlock>;

// Built and asked by all threads of the team together; all of them get the same answers.
template <bool kMayBeWhole, bool kMayBeInvariant, class Team = WholeBlock>
class Schedule {
 public:
  using Scratch = ScheduleScratchOf<Team>;
  QUERN_DEVICE Schedule(const AttentionParams& params, Scratch* scratch) : p(params), scratch_(scratch) {
    if (Team::index() == 0) {
      scratch_->mode = kMayBeInvariant && p.invariant ? Mode::invariant : Mode::split;
      scratch_->at = -1;
      scratch_->end = 0;
    }
    if (!kBeginsApart) Team::sync();
  }

  // The first step, by a team that works side by side.
  QUERN_DEVICE void begin() {
    static_assert(kBeginsApart, "others begin with next()");
    if (p.batch <= kWarp) return begin_with_few();
    Team::sync();
    next();
  }

  // One step towards the end of this thread block's units. Then a piece and its sequence are in the scratch memory; the
  // piece may be empty: the first steps only count, and have none.
  QUERN_DEVICE void next() {
    if (Team::kDraws && scratch_->at == kToBeDrawn) draw();
    const i32 at = scratch_->at;
    if (kMayBeginWithFew && !kBeginsApart && at < 0 && p.batch <= kWarp && scratch_->mode == Mode::split)
      return begin_with_few();
    Team::sync();  // whoever still reads what was put into the scratch memory last
    // Each thread walks over its sequences: at first to count their units, then to find the one that unit `at` belongs
    // to.
    i32 start = at < 0 ? 0 : scratch_->before[Team::index()], whole = 0, longest = 0;
    WholeItems items{0, 0, 0, 0x7fffffff};
    QUERN_ROLLED for (i32 i = Team::index(); i < p.batch; i += Team::kThreads) {
      const Sequence s = sequence_at(p, i);
      if (s.tiles <= 0) continue;
      const i32 each = unit_blocks(s), length = item_units(s, each);
      const i32 units = s.tiles * p.kv_heads * length;  // the caller sees to it that all of a call stay below 2^31
      // No unit is at -1. (Were that asked for here, the compiler would make two loops of this one.)
      if (at - start >= 0 && at - start < units) put(s, at, start, each, length);
      start += units, whole += s.tiles * p.kv_heads;
      longest = s.blocks > longest ? s.blocks : longest;
      if (Team::kDraws && at < 0) add_items(s, items);
    }
    if (at < 0) sum_up(start, whole, items, longest);
    Team::sync();
  }
  // Whether there is a further step. An item that is to be drawn counts as one: there may be none left.
  QUERN_DEVICE bool more() const { return scratch_->at < scratch_->end; }

  // By a team that draws, once there is no further step: the last thread block to come leaves the counters at zero.
  QUERN_DEVICE void finish() {
    if (scratch_->mode != Mode::whole || Team::index() != 0) return;
    if (atomic_add(p.counters + 1, 1u) + 1 != static_cast<u32>(Team::blocks())) return;
    p.counters[0] = 0;
    p.counters[1] = 0;
  }

 private:
  static constexpr i32 kToBeDrawn = -2;
  // The step that only counts, where a warp has a lane for each sequence, is one of its own.
  static constexpr bool kBeginsApart = Team::kSideBySide;
  static constexpr bool kMayBeginWithFew = !kMayBeInvariant && (!kMayBeWhole || Team::kSideBySide);

  // The first step where a warp has a lane for each sequence: it counts, and finds the first piece too.
  QUERN_DEVICE void begin_with_few() {
    if (!kBeginsApart) Team::sync();  // all have seen that nothing has been counted
    if (Team::warp() == 0) {
      sync_warp();  // what the constructor wrote
      Sequence s{};
      i32 length = 0;
      if (lane() < p.batch) s = sequence_at(p, lane());
      if (s.tiles > 0) length = item_units(s, 1);
      i32 longest;
      const i32 each = cut_alike(s, length, longest);
      if (Team::kSideBySide && each > 0) {
        put_alike(s, each, longest);
      } else {
        if (each > 0 && s.tiles > 0) length = quotient(length + each - 1, each) * each;
        const i32 units = s.tiles > 0 ? s.tiles * p.kv_heads * length : 0;
        const i32 behind = warp_scan(units), start = behind - units;
        scratch_->before[lane()] = start;
        if (lane() == kWarp - 1) set_run(behind, each, longest);
        sync_warp();
        const i32 at = scratch_->at;
        sync_warp();  // one of the lanes sets it to what comes after its piece
        if (at >= start && at - start < units) put(s, at, start, 1, length);  // -1: to be counted again, as whole items
      }
    }
    Team::sync();
  }

  // The only piece of this thread block, where all items are of `length` units, one a KV head, and cut alike: what
  // set_run() and put() would come to in more steps.
  QUERN_DEVICE void put_alike(const Sequence& s, i32 each, i32 length) {
    const i32 runs = quotient(length + each - 1, each), item = small_quotient(Team::block(), runs);
    const i32 of_batch = small_quotient(item, p.kv_heads), index = Team::block() - item * runs;
    const u64 all = ballot(s.tiles > 0);
    if (lane() == 0) {
      scratch_->at = scratch_->end = 0;
      scratch_->piece.begin = scratch_->piece.end = 0;  // unless there is one
      scratch_->piece.count = 0;
    }
    sync_warp();
    if (s.tiles <= 0 || static_cast<i32>(popcount(all & ((u64{1} << lane()) - 1))) != of_batch) return;
    i32 empty = 0;  // runs in which there is nothing but the item's price
    QUERN_UNROLL for (i32 i = 1; i <= kItemPrice; ++i) empty += i * each <= kItemPrice ? 1 : 0;
    const i32 begin = index * each - kItemPrice, end = begin + each;
    Piece piece;
    piece.head = item - of_batch * p.kv_heads;
    piece.tile = 0;
    piece.begin = begin > 0 ? begin : 0;
    piece.end = end < s.blocks ? end : s.blocks;
    piece.count = runs - empty;
    piece.index = piece.count > 1 ? index - empty : 0;
    piece.counter = piece.count > 1 ? item * runs + empty : 0;
    piece.slot = 2 * piece.counter;
    piece.slot_step = 2;
    scratch_->sequence = s;
    scratch_->piece = piece;
  }

  // Whether whole items, the longest of `longest` units, take hardly longer than even runs of `each`.
  QUERN_DEVICE bool are_even(i32 longest, i32 each) const {
    const i32 rounds = quotient(p.batch * p.kv_heads + p.side_by_side - 1, p.side_by_side);
    return static_cast<i64>(rounds) * longest * 32 <= static_cast<i64>(each) * 33;
  }

  // `most` is the longest item. Where all sequences are of one length, and the thread blocks nearly a multiple of the
  // items: the units of runs that cut each item alike, else 0. Heads of a token, which lie side by side, are then read
  // at the same time. Short items are left whole: to join their pieces would take longer than to read them.
  QUERN_DEVICE i32 cut_alike(const Sequence& s, i32 length, i32& most) const {
    const i32 least = static_cast<i32>(warp_min(s.tiles > 0 ? static_cast<u32>(length) : 0x7fffffffu));
    most = static_cast<i32>(warp_max(static_cast<u32>(length)));
    const i32 items = static_cast<i32>(warp_sum(static_cast<u32>(s.tiles > 0 ? s.tiles : 0))) * p.kv_heads;
    if (most != least || items > p.parts) return 0;
    if (Team::kSideBySide && most <= kCutPrice + kItemPrice) return most;
    const i32 pieces = small_quotient(p.parts, items);
    if (items * pieces * 32 < p.parts * 31) return 0;
    i32 each = quotient(most + pieces - 1, pieces);
    // A piece's blocks take their time, and so do an item's pieces when they are joined: their sum is least where both
    // are alike.
    QUERN_ROLLED while (Team::kSideBySide && static_cast<i64>(each) * each * kPieceTime < most)++ each;
    return each;
  }

  // The run of this thread block, of `total` units in all; of `given` units where that is not 0.
  QUERN_DEVICE void set_run(i32 total, i32 given, i32 longest) {
    const u32 all = static_cast<u32>(total), parts = static_cast<u32>(p.parts), block = static_cast<u32>(Team::block());
    const u32 each = given > 0 ? static_cast<u32>(given) : (all + parts - 1) / parts;
    const u32 at = (block < parts ? block : parts) * each;
    scratch_->piece.begin = scratch_->piece.end = 0;  // shared memory holds whatever the launch before left there
    scratch_->piece.count = 0;
    if (kMayBeWhole && given == 0 && are_even(longest, static_cast<i32>(each))) {
      scratch_->mode = Mode::whole;  // to be counted again
      return;
    }
    scratch_->each = static_cast<i32>(each);
    scratch_->at = static_cast<i32>(at < all ? at : all);
    scratch_->end = static_cast<i32>(at + each < all ? at + each : all);
  }

  static constexpr bool kSections = Team::kDraws && SECTION_BYTES != 0;

  QUERN_DEVICE void draw() {
    Team::sync();
    if (Team::index() == 0) {
      const i32 item = Team::blocks() + static_cast<i32>(atomic_add(p.counters, 1u));
      scratch_->at = item < scratch_->end ? item : scratch_->end;
      scratch_->piece.begin = scratch_->piece.end = 0;
      scratch_->piece.count = 0;  // unless there is one
    }
    Team::sync();
  }

  // KV blocks of a unit. An invariant item may be cut into so many pieces that one KV head's tiles have
  // kInvariantPieces in all.
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
    QUERN_ROLLED while ((most + 1) * s.tiles <= kInvariantPieces)++ most;
    return most;
  }
  QUERN_DEVICE i32 price() const { return scratch_->mode == Mode::split ? kItemPrice : 0; }
  // Units of an item whose units have `each` KV blocks.
  QUERN_DEVICE i32 item_units(const Sequence& s, i32 each) const {
    if (scratch_->mode == Mode::split) return s.blocks + kItemPrice;
    return kMayBeInvariant ? quotient(s.blocks + each - 1, each) : 1;
  }

  // From the units of each thread's sequences, as they are when they are split or as whole items, and their longest
  // item's KV blocks, to what this thread block does.
  QUERN_DEVICE void sum_up(i32 own, i32 own_whole, WholeItems items, i32 longest) {
    const Mode mode = scratch_->mode;
    i32 units = own, whole = own_whole;
    QUERN_ROLLED for (int d = 1; d < kWarp; d *= 2) {  // inclusive prefix sums over the warp
      const i32 below = shuffle_up(units, d), whole_below = shuffle_up(whole, d), other = shuffle_xor(longest, d);
      if (lane() >= d) units += below, whole += whole_below;
      longest = other > longest ? other : longest;
      if (Team::kDraws) {
        const i32 most = shuffle_xor(items.longest, d), least = shuffle_xor(items.shortest, d);
        items = {items.count + shuffle_xor(items.count, d), items.blocks + shuffle_xor(items.blocks, d),
                 most > items.longest ? most : items.longest, least < items.shortest ? least : items.shortest};
      }
    }
    if (lane() == kWarp - 1) {
      scratch_->units[Team::warp()] = units, scratch_->whole[Team::warp()] = whole;
      scratch_->longest[Team::warp()] = longest;
    }
    Team::sync();
    i32 total = 0, all_whole = 0;
    QUERN_ROLLED for (int w = 0; w < Team::kThreads / kWarp; ++w) {
      if (w == Team::warp()) units += total, whole += all_whole;
      total += scratch_->units[w], all_whole += scratch_->whole[w];
      longest = scratch_->longest[w] > longest ? scratch_->longest[w] : longest;
    }
    const u32 parts = static_cast<u32>(p.parts), block = static_cast<u32>(Team::block());
    const u32 each = (static_cast<u32>(total) + parts - 1) / parts;
    const bool is_whole =
        mode == Mode::whole || (kMayBeWhole && mode == Mode::split &&
                                (Team::kDraws        ? whole_is_sooner(items, each)
                                 : Team::kSideBySide ? are_even(longest + kItemPrice, static_cast<i32>(each))
                                                     : static_cast<u32>(longest) <= each));
    const u32 all = static_cast<u32>(is_whole ? all_whole : total);
    scratch_->before[Team::index()] = is_whole ? whole - own_whole : units - own;
    if (Team::index() != 0) return;
    scratch_->piece.begin = scratch_->piece.end = 0;
    scratch_->piece.count = 0;
    u32 at = block, end = all;
    if (is_whole) {
      scratch_->mode = Mode::whole;
      if (Team::kSideBySide && block >= static_cast<u32>(p.side_by_side)) at = all;
    } else if (mode == Mode::split) {
      scratch_->each = static_cast<i32>(each);
      at = (block < parts ? block : parts) * each;
      end = at + each < all ? at + each : all;
    }
    scratch_->at = static_cast<i32>(at < all ? at : all);
    scratch_->end = static_cast<i32>(end);
  }

  // An item that is not cut takes the blocks that its rows see, which its first and last tile tell of all the others.
  QUERN_DEVICE void add_items(const Sequence& s, WholeItems& items) const {
    i32 both = 0;
    QUERN_ROLLED for (int end = 0; end < 2; ++end) {
      const Range any = tile_range(p, s, end == 0 ? 0 : (s.tiles - 1) * kRows, kRows).any;
      const i32 blocks = div_up(any.last - s.first, kBlock) - (any.first - s.first) / kBlock;
      const i32 length = (blocks > 0 ? blocks : 0) + kItemPrice;
      items.longest = length > items.longest ? length : items.longest;
      items.shortest = length < items.shortest ? length : items.shortest;
      both += length;
    }
    items.count += s.tiles * p.kv_heads;
    items.blocks += quotient(s.tiles * p.kv_heads * both, 2);
  }
  // Whether whole items, the long ones of a sequence first, are done sooner than all units cut into even runs of
  // `each`.
  QUERN_DEVICE bool whole_is_sooner(const WholeItems& items, u32 each) const {
    if (items.count == 0) return true;
    const u32 count = static_cast<u32>(items.count), blocks = static_cast<u32>(items.blocks),
              parts = static_cast<u32>(p.parts);
    // Rounds of items as long as their mean; or even shares, and at the end some are a short item ahead of others.
    const u32 rounds = (count + parts - 1) / parts * ((blocks + count - 1) / count);
    const u32 shares = blocks / parts + static_cast<u32>(items.shortest), least = rounds < shares ? rounds : shares;
    const u32 longest = static_cast<u32>(items.longest);
    // Runs are far apart: blocks that work side by side have no keys and values in common, so L2 is of less help to
    // them.
    const u32 runs = each + kCutPrice;
    return (least > longest ? least : longest) <= runs + runs / 4;
  }

  // Heads that are worked on side by side.
  QUERN_DEVICE i32 heads_of_section(const Sequence& s) const {
    if (!kSections) return p.kv_heads;
    const i32 heads = quotient(SECTION_BYTES / (2 * kBlock * (kDimK + kDimV)), s.blocks);
    return heads < 1 ? 1 : heads < p.kv_heads ? heads : p.kv_heads;
  }

  // The piece that begins at unit `at`: in sequence `s`, which begins at unit `start` and has items of `length` units
  // of `each` KV blocks.
  QUERN_DEVICE void put(const Sequence& s, i32 at, i32 start, i32 each, i32 length) {
    const i32 item = quotient(at - start, length), heads = heads_of_section(s);
    const i32 section = kSections ? quotient(item, s.tiles * heads) : 0, of_section = item - section * s.tiles * heads;
    const i32 left = p.kv_heads - section * heads, side_by_side = left < heads ? left : heads;
    const i32 tile = quotient(of_section, side_by_side);
    start += item * length;  // of the item
    const i32 from = at - start, end = scratch_->end;
    const bool split = scratch_->mode == Mode::split;
    const i32 to = !split ? from + 1 : end - start < length ? end - start : length;
    Piece piece;
    piece.head = section * heads + of_section - tile * side_by_side;
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
      piece.index = Team::block() - first;
      piece.count = last - first + 1;
      piece.slot = 2 * first;
      piece.counter = first;
    }
    scratch_->sequence = s;
    scratch_->piece = piece;
    scratch_->at = split ? start + length : next_item(at);
  }

  QUERN_DEVICE i32 next_item(i32 at) const {
    return Team::kDraws && scratch_->mode == Mode::whole ? kToBeDrawn
           : Team::kSideBySide                           ? at + p.side_by_side
                                                         : at + Team::blocks();
  }

  const AttentionParams& p;
  Scratch* scratch_;
};

}  // namespace q
