// A cluster takes a row: each of its blocks keeps a part of the logits, as edited, in its shared memory, and tells the
// others what there is to know about each chunk of it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "sample/kernels/sm90/few.cuh"
#include "sample/kernels/stream.cuh"

namespace q {

inline constexpr bool kKeeps = kFilters || kEdits;  // the logits; else the few that are needed are read again
inline constexpr i32 kWarps = kThreads / kWarp;

// What is known of a chunk.
struct alignas(16) Note {
  f32 top;     // its largest logit
  f32 max;     // the same without the tokens that lists name,
  f32 sum;     // and the sum of their shares of that; its sign says that there was NaN
  f32 middle;  // a logit that a few of each hundred tokens reach
  QUERN_DEVICE f32 sum_of_shares() const { return fabs(sum); }
  QUERN_DEVICE bool nan() const { return bits_of(sum) >> 31 != 0; }
};

// What a block has in static shared memory, at the same place in each of the cluster.
struct Desk {
  Mbarrier noted;  // completes with the notes of all chunks of the row
  u64 scratch[2 * kThreads / kWarp];
  u64 bins[1][4], tokens[3];            // what has been found
  u64 listed_total, race, first, last;  // this block's own, which the others read
  alignas(8) u32 listed[2];             // tokens on the list, beyond its end, too
  u32 used;                             // places for what lists say
  u32 reach, top;                       // of candidates that have been edited: how many count, the largest's key
};

// The block's part of the row under way, and where things lie in dynamic shared memory.
struct Part {
  i32 rank, blocks;   // this block among those of the cluster
  i32 first, chunks;  // of the row's
  i32 all;            // chunks of the row
  i32 vocab;
  f32* slice;    // [chunks * kChunk] if kKeeps
  Note* notes;   // [all], for every other row
  u32* marks;    // [chunks * kGroups] bits of the tokens that lists name
  u16* before;   // likewise: where the first of a word's tokens has its place on
  u32* words;    // what lists say of them,
  f32* biases;   // and the sums of their biases
  u64* weights;  // [all] of chunks
  u16* sieved;   // places of tokens that are set apart to be searched
  u32* prompt;   // there, too, where edits wait: [chunks * kGroups] the part of the prompt's mask
  u8* work;      // histograms and lists
  bool has_lists, biased;
  Desk* desk;

  QUERN_DEVICE bool lists() const { return kEdits && has_lists; }

  QUERN_DEVICE Room room() const {
    Room r{};
    r.scratch = desk->scratch;
    return r;
  }
  QUERN_DEVICE i32 begin() const { return first * kChunk; }
  QUERN_DEVICE i32 length() const { return chunks * kChunk; }
  QUERN_DEVICE bool owns(i32 token) const { return token >= begin() && token < begin() + length(); }
  QUERN_DEVICE f32 top_of(i32 chunk) const { return notes[chunk].top; }
};

QUERN_DEVICE Part part_of(const SampleParams& p, Desk* desk) {
  Part part{};
  part.rank = static_cast<i32>(cluster_rank()), part.blocks = static_cast<i32>(cluster_size());
  part.all = p.chunks, part.vocab = p.vocab;
  part.first = part.rank * p.chunks_per_block;
  const i32 rest = p.chunks - part.first;
  part.chunks = rest < 0 ? 0 : rest < p.chunks_per_block ? rest : p.chunks_per_block;
  const ClusterRoom room =
      cluster_room(p.chunks, p.chunks_per_block, kKeeps, kFilters, p.slots, p.bias_offsets != nullptr);
  u8* const shared = dynamic_shared();
  part.slice = reinterpret_cast<f32*>(shared);
  part.notes = reinterpret_cast<Note*>(shared + room.notes);
  part.marks = reinterpret_cast<u32*>(shared + room.marks);
  part.before = reinterpret_cast<u16*>(shared + room.before);
  part.words = reinterpret_cast<u32*>(shared + room.words);
  part.biases = reinterpret_cast<f32*>(shared + room.biases);
  part.weights = reinterpret_cast<u64*>(shared + room.weights);
  part.work = shared + room.work;
  part.sieved = reinterpret_cast<u16*>(shared + room.sieved);
  part.prompt = reinterpret_cast<u32*>(shared + room.sieved);
  part.has_lists = p.slots != 0, part.biased = p.bias_offsets != nullptr;
  part.desk = desk;
  return part;
}

// The last thing that a block does with what others have of a row; after it each may go on alone. Once in a row. What
// was read of other blocks must have been used by then.
QUERN_DEVICE void release() {
  sync_warp();
  cluster_arrive_relaxed();
}

// ---- What the chunks come to, the same in every block
struct RowSums {
  f32 max, scale;
  f32 middle;  // of those of the chunks, the mean; -inf: not known
  bool nan;
  u64 of_chunks, of_listed;
  u64 before;  // where the row is drawn from as a whole: what this thread's run of chunks comes after
  QUERN_DEVICE u64 total() const { return of_chunks + of_listed; }
};
// Each thread has a run of the row's chunks: from the first on.
struct Run {
  i32 begin, end;
  QUERN_DEVICE Run(i32 all) {
    const i32 each = div_up(all, kThreads), last = (thread_index() + 1) * each;
    begin = thread_index() * each, end = last < all ? last : all;
  }
};
// By each warp.
QUERN_DEVICE void learn_row(const Part& part, bool sieves, RowSums* sums) {
  f32 max = -infinity(), middle = 0.0f;
  u32 nan = 0, number = 0;
  QUERN_ROLLED for (i32 base = lane(); base < part.all; base += 4 * kWarp) {
    QUERN_UNROLL for (int j = 0; j < 4; ++j) {
      // Beyond the end the first once more, so that no load waits for a branch.
      const i32 c = base + j * kWarp;
      const bool there = c < part.all;
      const Note note = part.notes[there ? c : base];
      max = fmax(max, note.top), nan |= note.nan() ? 1u : 0u;
      if (kFilters && sieves) {
        const bool counts = there && note.max > -infinity();
        middle += counts ? note.middle : 0.0f, number += counts ? 1u : 0u;
      }
    }
  }
  sums->max = value_of(warp_max(key_of(max)));
  sums->nan = ballot(nan != 0) != 0;
  if (kFilters && sieves) {
    middle = sum_of_lanes(middle), number = warp_total(number);
    sums->middle = fmin(middle * rcp_approx(fmax(static_cast<f32>(number), 1.0f)), sums->max);
  }
}
QUERN_DEVICE u64 weight_of_chunk(const Part& part, i32 chunk, f32 max, f32 inverse_temperature) {
  const Note note = part.notes[chunk];
  if (!(note.max > -infinity())) return 0;
  const f32 below = exp_of_minus(at_most(distance(max, note.max, inverse_temperature), 128.0f));
  return static_cast<u64>(note.sum_of_shares() * below * kUnits);
}

}  // namespace q
