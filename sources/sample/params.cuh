// The run-time arguments of sample's kernels, and what their blocks leave for the block of a row that comes last.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/types.cuh"

namespace q {

inline constexpr i32 kChunk = 1024;  // logits that a warp takes at once: sums are over these, whatever the grid
inline constexpr i32 kGroup = 32;    // logits next to each other whose largest is kept
inline constexpr i32 kGroups = kChunk / kGroup;
inline constexpr i32 kMostVocab = 1 << 20;
inline constexpr i32 kMostTop = 128;      // of top_n
inline constexpr i32 kMostEdited = 8192;  // tokens of a row whose logits lists change
inline constexpr i32 kMostListed = 1024;  // of top_k: more are looked for in the whole row
inline constexpr i32 kBlockChunks = 256;  // a block takes no more

// One value a row, or one for all.
template <class T>
struct PerRow {
  const T* rows;  // may be null
  T all;
};

// What is known of a chunk's logits as edited; the tokens that lists change are not among them.
struct alignas(16) ChunkStats {
  f32 max;
  f32 sum;    // of 2^((x - max) scale)
  u32 alive;  // how many are finite
  u32 has_nan;
  f64 from_max;  // sum of x - max over the finite ones
  f64 squares;   // sum of (x - max)^2: in f32 that of 1e30 would overflow
};

// For which rows the streams add up weights.
enum class Sums : i32 {
  none,    // the largest alone counts
  wanted,  // rows that draw from the whole, or take a share of it
  all      // log-probabilities are asked for
};

// Strides in elements. Lists are [count, most]: what is no token in them is passed over.
struct TokenList {
  const i32* tokens;   // may be null
  const i32* lengths;  // may be null: all of them are there
  i64 stride;
  i32 most;
};

struct SampleParams {
  const void* logits;  // [logit_rows, vocab]
  const i32* rows;     // [count]: which rows; may be null
  i64 logits_stride;
  i32 logit_rows, count, vocab, chunks;
  i32 blocks;  // of a row
  i32 chunks_per_block;
  i32 vectors;  // truth value: 16 bytes can be loaded at once from each row's beginning on
  Sums sums;
  i32 sigmas;  // truth value: from_max and squares are

  void* ids;  // [count]
  i32 wide_ids;
  i32 top_n;
  f32* logprobs;  // [count]; this and the next ones may be null
  f32* values;    // [count]: the largest logit, as edited
  i32* top_ids;   // [count, top_n]
  f32* top_logprobs;
  i32* status;
  i64 top_ids_stride, top_logprobs_stride;
  const i64* seeds;
  i64* offsets;
  u64 seed, offset;

  PerRow<f32> temperature, top_p, min_p, typical_p, n_sigma, xtc_probability, xtc_threshold, dynamic_range,
      dynamic_exponent;
  PerRow<f32> repetition, presence, frequency;
  PerRow<i32> top_k;
  i32 joint, temperature_last, logprobs_filtered;  // truth values
  i32 units;                                       // count * blocks; where clusters take rows, how many of these

  const u32* prompt_mask;  // [count, ceil(vocab / 32)]; may be null, as may the rest
  const u32* allowed;
  i32* output_counts;  // [count, vocab]
  i64 prompt_mask_stride, allowed_stride, output_counts_stride;
  i32 count_vectors;  // truth value: 16 bytes of counts can be loaded at once
  TokenList prompt, output, banned;
  const i32* bias_offsets;  // [count + 1]
  const i32* bias_ids;
  const f32* bias_values;
  i32 bias_entries, max_bias;
  i32 slots;  // of the table of edited tokens, a power of two; 0: no lists

  u32* counters;       // [count], zero between launches: blocks of a row that are done
  ChunkStats* stats;   // [count, chunks]
  u32* group_keys;     // [count, chunks * kGroups]
  u64* chunk_weights;  // [count, chunks]
};

// ---- Where a row lies in the shared memory of a cluster's blocks (kernels/sm90)
inline constexpr i32 kClusterBlocks = 8;  // at most
inline constexpr i32 kSpots = 512, kBinWords = 3 * kSpots;
inline constexpr i32 kBinWordsKept = 3 * 1024;
inline constexpr i32 kSievedBytes = 8192;
inline constexpr i32 kSegment = 256;  // tokens that are ranked at once
// Offsets in bytes; the slice of logits comes first.
struct ClusterRoom {
  i32 notes, marks, before, words, biases, weights, work, sieved, bytes;
};
QUERN_SHARED_CODE constexpr ClusterRoom cluster_room(i32 chunks, i32 own, bool keeps, bool filters, i32 slots,
                                                     bool biased) {
  ClusterRoom room{};
  const i32 named = slots / 2 < own * kChunk ? slots / 2 : own * kChunk;
  room.notes = keeps ? own * kChunk * 4 : 0;
  room.marks = room.notes + 2 * chunks * 16;
  room.before = room.marks + (slots != 0 ? own * kGroups * 4 : 0);
  room.words = room.before + (slots != 0 ? own * kGroups * 2 : 0);
  room.biases = room.words + named * 4;
  room.weights = (room.biases + (biased ? named * 4 : 0) + 15) / 16 * 16;
  room.work = (room.weights + chunks * 8 + 15) / 16 * 16;
  // Bins, coarse ones, and what blocks tell of both, later lists.
  room.sieved = room.work + (filters ? kBinWordsKept * 4 + 32 * 8 + 3 * kClusterBlocks * 32 * 8 : 0);
  room.bytes = room.sieved + (filters ? kSievedBytes : 0);
  return room;
}
// Of the kernel that does others' calls until they are compiled (kernels/sm90/small.cuh): likewise, and each token's
// word of what lists say of it.
struct SmallRoom {
  i32 said, bins, notes, weights, bytes;
};
QUERN_SHARED_CODE constexpr SmallRoom small_room(i32 chunks, i32 own, i32 slots) {
  SmallRoom room{};
  room.said = own * kChunk * 4;
  room.bins = room.said + (slots != 0 ? own * kChunk * 4 : 0);
  room.notes = room.bins + kBinWords * 4;
  room.weights = room.notes + own * 8;
  room.bytes = room.weights + chunks * 8;
  return room;
}
// Where rows stream by (kernels/sm90/filtered.cuh) only what may stay lies there.
inline constexpr i32 kCandidates = 6144;     // that a block has room for,
inline constexpr i32 kFewCandidates = 4096;  // and where there are lists, too
inline constexpr i32 kTableSlots = 2048;     // of the table of candidates that lists are looked through for,
inline constexpr i32 kFilterBytes = 4096;    // and of the bits of their hashes
// Of chunks that are on their way. Not where f32 logits are edited: that kernel has more use for L1 than for them.
QUERN_SHARED_CODE constexpr i32 ahead_bytes(bool edits, i32 logit_bytes) {
  return edits && logit_bytes == 4 ? 0 : 32768;
}
struct FilterRoom {
  i32 stats, work, marks, before, values, ahead, spots, bytes;  // candidates come first
  i32 candidates, most_named;                                   // how many
};
QUERN_SHARED_CODE constexpr FilterRoom filter_room(i32 chunks, i32 own, i32 slots, i32 ahead) {
  FilterRoom room{};
  room.candidates = slots != 0 ? kFewCandidates : kCandidates;
  room.most_named = slots / 2 < own * kChunk ? slots / 2 : own * kChunk;
  room.work = room.candidates * 8;
  // One after the other: what is said of named tokens, or a table of candidates; the weights of chunks; bins.
  const i32 bins = kBinWords * 4, table = slots != 0 ? kTableSlots * 8 + kFilterBytes : 0;
  i32 work = bins > table ? bins : table;
  work = work > chunks * 8 ? work : chunks * 8;
  work = work > room.most_named * 4 ? work : room.most_named * 4;
  room.stats = (room.work + work + 7) / 8 * 8;
  room.marks = (room.stats + chunks * 8 + 15) / 16 * 16;
  room.before = room.marks + (slots != 0 ? own * kGroups * 4 : 0);
  room.values = room.before + (slots != 0 ? (own * kGroups + 3) / 4 * 4 : 0);
  // What named tokens come to, and the candidates' bins, are asked for once nothing is on its way.
  room.ahead = (room.values + 15) / 16 * 16;
  room.spots = (room.values + room.most_named * 4 + 15) / 16 * 16;
  room.bytes = room.spots + room.candidates * 2;
  room.bytes = room.bytes > room.ahead + ahead ? room.bytes : room.ahead + ahead;
  return room;
}

}  // namespace q
