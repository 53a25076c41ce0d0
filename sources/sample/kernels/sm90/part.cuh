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
  u64 bins[1][4], tokens[3];  // what has been found
  u32 kth;
  u64 listed_total, race, first, last;  // this block's own, which the others read
  alignas(8) u32 listed[2];             // tokens on the list, beyond its end, too
  u32 used;                             // places for what lists say
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
  const ClusterRoom room = cluster_room(p.chunks, p.chunks_per_block, kKeeps, kFilters, p.slots);
  u8* const shared = dynamic_shared();
  part.slice = reinterpret_cast<f32*>(shared);
  part.notes = reinterpret_cast<Note*>(shared + room.notes);
  part.marks = reinterpret_cast<u32*>(shared + room.marks);
  part.before = reinterpret_cast<u16*>(shared + room.before);
  part.words = reinterpret_cast<u32*>(shared + room.words);
  part.biases = reinterpret_cast<f32*>(shared + room.biases);
  part.weights = reinterpret_cast<u64*>(shared + room.weights);
  part.work = shared + room.work;
  part.has_lists = p.slots != 0, part.biased = p.bias_offsets != nullptr;
  part.desk = desk;
  return part;
}

// f(r, what block r has there) for each block; all loads are under way at once.
template <class T, class F>
QUERN_DEVICE void each_block(const Part& part, const T* place, F f) {
  T v[kClusterBlocks];
  QUERN_UNROLL for (i32 r = 0; r < kClusterBlocks; ++r) v[r] = of_block(place, r < part.blocks ? r : 0);
  QUERN_UNROLL for (i32 r = 0; r < kClusterBlocks; ++r) {
    if (r < part.blocks) f(r, v[r]);
  }
}
// The last thing that a block does with what others have of a row; after it each may go on alone. Once in a row.
QUERN_DEVICE void release() {
  sync_warp();
  cluster_arrive_relaxed();
}

// ---- Lists
// A word of what lists say of a token: how often the output has it, and two bits.
inline constexpr u32 kSaidPrompt = 1u << 30, kSaidBanned = 1u << 31, kSaidCount = kSaidPrompt - 1;

// The entries of a row's lists, one list after the other.
struct Entries {
  const SampleParams& p;
  i64 row;
  i32 ends[3];     // of prompt, output and banned
  i32 lengths[2];  // of the first two
  i32 biases, all;

  QUERN_DEVICE Entries(const SampleParams& params, i32 i) : p(params), row(i) {
    const Biases own = biases_of(p, i);
    ends[0] = p.prompt.tokens ? p.prompt.most : 0;
    ends[1] = ends[0] + (p.output.tokens ? p.output.most : 0);
    ends[2] = ends[1] + (p.banned.tokens ? p.banned.most : 0);
    lengths[0] = ends[0] != 0 && p.prompt.lengths ? p.prompt.lengths[i] : p.prompt.most;
    lengths[1] = ends[1] != ends[0] && p.output.lengths ? p.output.lengths[i] : p.output.most;
    biases = own.begin, all = ends[2] + (own.end - own.begin);
  }
  QUERN_DEVICE From from(i32 e) const {
    return e < ends[0] ? From::prompt : e < ends[1] ? From::output : e < ends[2] ? From::banned : From::bias;
  }
  QUERN_DEVICE i32 bias_of(i32 e) const { return biases + e - ends[2]; }
  // The entry's token; -1: there is none. Lists have something to load beyond their length, too, so that it need not be
  // known before.
  QUERN_DEVICE i32 load(i32 e) const {
    const i32* at = p.bias_ids + bias_of(e);
    i32 left = 1;
    if (e < ends[0]) {
      at = p.prompt.tokens + row * p.prompt.stride + e, left = lengths[0] - e;
    } else if (e < ends[1]) {
      at = p.output.tokens + row * p.output.stride + (e - ends[0]), left = lengths[1] - (e - ends[0]);
    } else if (e < ends[2]) {
      at = p.banned.tokens + row * p.banned.stride + (e - ends[1]);
    }
    const i32 token = e < all ? *at : -1;
    return left > 0 && token < p.vocab ? token : -1;
  }
};
// Marks those of the part's tokens that lists name, gives each a place and gathers there what they say of it. All
// threads; ends with a barrier.
QUERN_DEVICE void name_listed(const SampleParams& p, i32 i, const Part& part) {
  // Each thread holds a few entries; those beyond are read twice.
  constexpr int kHeld = 2048 / kThreads;
  const Entries entries(p, i);
  i32 held[kHeld];
  QUERN_UNROLL for (int j = 0; j < kHeld; ++j) held[j] = entries.load(j * kThreads + thread_index());
  const i32 most = p.slots / 2 < part.length() ? p.slots / 2 : part.length();
  bins_zero<kThreads>(part.marks, part.chunks * kGroups);
  bins_zero<kThreads>(part.words, most);
  if (p.bias_offsets) bins_zero<kThreads>(part.biases, most);
  if (thread_index() == 0) part.desk->used = 0;
  sync_block();
  const auto mark = [&](i32 token) {
    if (part.owns(token)) atomic_or(part.marks + ((token - part.begin()) >> 5), 1u << (token & 31));
  };
  QUERN_UNROLL for (int j = 0; j < kHeld; ++j) mark(held[j]);
  QUERN_ROLLED for (i32 e = kHeld * kThreads + thread_index(); e < entries.all; e += kThreads) mark(entries.load(e));
  sync_block();
  QUERN_ROLLED for (i32 c = warp(); c < part.chunks; c += kWarps) {
    const i32 word = c * kGroups + lane();
    const u32 own = lane() < kGroups ? static_cast<u32>(popcount(part.marks[word])) : 0u, through = warp_scan(own);
    u32 base = 0;
    if (lane() == kWarp - 1) base = atomic_add(&part.desk->used, through);
    base = shuffle(base, kWarp - 1);
    if (lane() < kGroups) part.before[word] = static_cast<u16>(base + through - own);
  }
  sync_block();
  const auto gather = [&](i32 token, i32 e) {
    if (!part.owns(token)) return;
    const i32 local = token - part.begin();
    const u32 below = part.marks[local >> 5] & ((1u << (local & 31)) - 1);
    const u32 place = part.before[local >> 5] + static_cast<u32>(popcount(below));
    const From from = entries.from(e);
    if (from == From::output) {
      atomic_add(part.words + place, 1u);
    } else if (from == From::bias) {
      atomic_add(part.biases + place, p.bias_values[entries.bias_of(e)]);
    } else {
      atomic_or(part.words + place, from == From::prompt ? kSaidPrompt : kSaidBanned);
    }
  };
  QUERN_ROLLED for (i32 e = thread_index(); e < entries.all; e += kThreads) {
    const i32 own = held[0];
    // They move up, so that each is in a register.
    QUERN_UNROLL for (int j = 1; j < kHeld; ++j) held[j - 1] = held[j];
    gather(e < kHeld * kThreads ? own : entries.load(e), e);
  }
  sync_block();
}

// f(whether this lane has a token, its place in the part, the place of what is said of it) for the tokens of chunk c
// that lists name, all lanes together. Lane l has those of word l.
template <class F>
QUERN_DEVICE void each_listed_in_chunk(const Part& part, i32 c, F f) {
  const i32 word = c * kGroups + (lane() < kGroups ? lane() : 0);
  u32 left = lane() < kGroups ? part.marks[word] : 0u, place = part.before[word];
  QUERN_ROLLED while (ballot(left != 0) != 0) {
    f(left != 0, word * 32 + static_cast<i32>(trailing_zeros(left != 0 ? left : 1u)), left != 0 ? place : 0u);
    left &= left - 1, ++place;
  }
}
// The chunk's listed tokens, of which the slice has the raw logits, become what is sampled from. The largest of this
// lane's.
QUERN_DEVICE f32 settle_listed(const Row& row, const Part& part, i32 c, const ChunkMasks& masks, bool* nan) {
  f32 top = -infinity();
  each_listed_in_chunk(part, c, [&](bool here, i32 local, u32 place) {
    if (!here) return;
    const u32 said = part.words[place], at = static_cast<u32>(local & 31);
    const i32 count = static_cast<i32>(said & kSaidCount) + (row.counts ? row.counts[part.begin() + local] : 0);
    const bool in_prompt = (said & kSaidPrompt) != 0 || (masks.prompt >> at & 1) != 0;
    f32 x = penalise(row, part.slice[local], in_prompt, count);
    if (part.biased) x += part.biases[place];
    if ((said & kSaidBanned) != 0 || (masks.allowed >> at & 1) == 0) x = -infinity();
    *nan |= x != x;
    part.slice[local] = x = fmax(x, -infinity());
    top = fmax(top, x);
  });
  sync_warp();
  return top;
}

// ---- A chunk: a warp's. Lane l has the vectors that place_in_chunk() says, in shared memory as it would in registers
// 16 bits a logit are copied into the second half of the chunk's place, and widened from there.
inline constexpr i32 kRawAt = sizeof(Logit) == 4 ? 0 : kChunk / 2;

QUERN_DEVICE bool comes_by_vectors(const SampleParams& p, i32 chunk) {
  return p.vectors && (chunk + 1) * kChunk <= p.vocab;
}
// Begins to copy it, as one group of this thread's copies.
QUERN_DEVICE void begin_chunk(const SampleParams& p, const Row& row, const Part& part, i32 c) {
  const i32 chunk = part.first + c;
  if (comes_by_vectors(p, chunk)) {
    // Places of the first, from which the others lie at constant distances.
    Logit* const to = reinterpret_cast<Logit*>(part.slice + c * kChunk + kRawAt) + place_in_chunk(0);
    const Logit* const from = row.logits + (chunk * kChunk + place_in_chunk(0));
    constexpr i32 kStep = kWarp * kVector;
    QUERN_UNROLL for (int j = 0; j < kLoads; ++j) copy_async_16(to + j * kStep, from + j * kStep, true);
  }
  copy_async_commit();
}
// What has been copied becomes f32; what could not be copied is read.
QUERN_DEVICE void widen_chunk(const SampleParams& p, const Row& row, const Part& part, i32 c) {
  const i32 chunk = part.first + c;
  f32* const to = part.slice + c * kChunk;
  if (!comes_by_vectors(p, chunk)) {
    QUERN_FOUR_AT_ONCE for (i32 at = lane(); at < kChunk; at += kWarp) {
      const i32 token = chunk * kChunk + at;
      to[at] = token < p.vocab ? to_f32(row.logits[token]) : -infinity();
    }
    sync_warp();
  } else if constexpr (sizeof(Logit) == 2) {
    const Logit* const from = reinterpret_cast<const Logit*>(to + kRawAt);
    vec16 raw[kLoads];
    QUERN_UNROLL for (int j = 0; j < kLoads; ++j) raw[j] = load16(from + place_in_chunk(j));
    sync_warp();
    QUERN_UNROLL for (int j = 0; j < kLoads; ++j) {
      QUERN_UNROLL for (int h = 0; h < 2; ++h) {
        const f32x2 low = unpack<Logit>(raw[j].x[2 * h]), high = unpack<Logit>(raw[j].x[2 * h + 1]);
        store16(to + place_in_chunk(j) + 4 * h, {{bits_of(low.x), bits_of(low.y), bits_of(high.x), bits_of(high.y)}});
      }
    }
  }
}
struct Vector {
  f32 x[kVector];
};
QUERN_DEVICE Vector load_vector(const f32* from) {
  Vector v;
  QUERN_UNROLL for (int e = 0; e < kVector; e += 4) {
    const vec16 four = load16(from + e);
    QUERN_UNROLL for (int w = 0; w < 4; ++w) v.x[e + w] = f32_of(four.x[w]);
  }
  return v;
}
QUERN_DEVICE void store_vector(f32* to, const Vector& v) {
  QUERN_UNROLL for (int e = 0; e < kVector; e += 4) {
    store16(to + e, {{bits_of(v.x[e]), bits_of(v.x[e + 1]), bits_of(v.x[e + 2]), bits_of(v.x[e + 3])}});
  }
}

// Tells all blocks what there is to know of a chunk of this one's part: a barrier of this block makes it known here.
QUERN_DEVICE void tell_chunk(const Part& part, i32 chunk, const Note& note) {
  const i32 to = lane();
  if (to == part.rank) {
    part.notes[chunk] = note;
  } else if (to < part.blocks) {
    store_async(cluster_address(part.notes + chunk, static_cast<u32>(to)), note,
                cluster_address(&part.desk->noted, static_cast<u32>(to)));
  }
}
// Of a chunk's masks, and of the bits of what lists name, a word a lane.
struct ChunkWords {
  u32 outside, repeated, listed;
};
// Where the output is counted for each token: all of the chunk's edits. What is listed stays as it is.
QUERN_DEVICE void edit_by_counts(const SampleParams& p, const Row& row, i32 chunk, const ChunkMasks& masks,
                                 const u32* listed, f32* slice) {
  QUERN_ROLLED for (int j = 0; j < kLoads; ++j) {
    const i32 at = place_in_chunk(j);
    const Vector raw = load_vector(slice + at);
    Vector v = raw;
    edit_vector(p, row, chunk * kChunk, j, masks, nullptr, v.x);
    const u32 named = listed ? listed[at >> 5] >> (at & 31) : 0u;
    QUERN_UNROLL for (int e = 0; e < kVector; ++e) v.x[e] = (named >> e & 1) != 0 ? raw.x[e] : v.x[e];
    store_vector(slice + at, v);
  }
}
// Chunk c of the part: edits it and tells what there is to know of it.
QUERN_DEVICE void take_chunk(const SampleParams& p, const Row& row, const Part& part, i32 c, bool sums, bool sieves,
                             f32 scale, const ChunkMasks& masks) {
  const i32 chunk = part.first + c;
  f32* const slice = part.slice + c * kChunk;
  const u32* const listed = part.lists() ? part.marks + c * kGroups : nullptr;
  constexpr u32 kOfLane = (1u << kVector) - 1;
  bool nan = false;
  f32 max = -infinity(), sum = 0.0f, top = -infinity(), middle = 0.0f;
  ChunkWords words{};
  if constexpr (kEdits) {
    if (listed) top = settle_listed(row, part, c, masks, &nan);
    if (row.counts) {
      edit_by_counts(p, row, chunk, masks, listed, slice);
    } else {
      words.outside = ~masks.allowed, words.repeated = masks.prompt;
    }
    if (listed && lane() < kGroups) words.listed = listed[lane()];
  }
  QUERN_TWO_AT_ONCE for (int j = 0; j < kLoads; ++j) {
    const i32 at = place_in_chunk(j);
    Vector v = load_vector(slice + at);
    u32 named = 0;
    bool changed = false;
    if constexpr (kEdits) {
      const i32 word = at >> 5, shift = at & 31;
      const u32 repeated = shuffle(words.repeated, word) >> shift & kOfLane,
                outside = shuffle(words.outside, word) >> shift & kOfLane;
      named = shuffle(words.listed, word) >> shift & kOfLane;
      if ((repeated & ~named) != 0) {
        QUERN_UNROLL for (int e = 0; e < kVector; ++e) {
          const f32 its = repeat(row, v.x[e]);
          v.x[e] = ((repeated & ~named) >> e & 1) != 0 ? its : v.x[e];
        }
      }
      if ((outside & ~named) != 0) {
        QUERN_UNROLL for (int e = 0; e < kVector; ++e) {
          v.x[e] = ((outside & ~named) >> e & 1) != 0 ? -infinity() : v.x[e];
        }
      }
      changed = ((repeated | outside) & ~named) != 0;
    }
    bool here = false;
    QUERN_UNROLL for (int e = 0; e < kVector; ++e) here |= v.x[e] != v.x[e];
    if (here) {
      QUERN_UNROLL for (int e = 0; e < kVector; ++e) v.x[e] = fmax(v.x[e], -infinity());
      nan = true;
    }
    if (changed || here) store_vector(slice + at, v);
    QUERN_UNROLL for (int e = 0; e < kVector; ++e) max = fmax(max, (named >> e & 1) != 0 ? -infinity() : v.x[e]);
  }
  const f32 own = max;
  max = value_of(warp_max(key_of(max)));
  top = kEdits && listed ? value_of(warp_max(key_of(fmax(top, max)))) : max;
  if (kFilters && sieves && max > -infinity()) {
    // Half way between the mean of the lanes' largest and the least of them. What weighs nothing does not count.
    const f32 no_lower = fmax(own, max - 41.0f * rcp_approx(scale));
    middle = 0.5f * (warp_sum(no_lower) * (1.0f / kWarp) + value_of(warp_min(key_of(no_lower))));
  }
  if (sums && max > -infinity()) {
    QUERN_TWO_AT_ONCE for (int j = 0; j < kLoads; ++j) {
      const i32 at = place_in_chunk(j);
      const Vector v = load_vector(slice + at);
      const u32 named = listed ? listed[at >> 5] >> (at & 31) : 0u;
      QUERN_UNROLL for (int e = 0; e < kVector; ++e) {
        sum += share_in_chunk((named >> e & 1) != 0 ? -infinity() : v.x[e], max, scale);
      }
    }
    sum = warp_sum(sum);
  }
  tell_chunk(part, chunk, {top, max, ballot(nan) != 0 ? -sum : sum, middle});
}
// The same of a chunk in registers, for kernels that neither edit nor keep.
QUERN_DEVICE void take_loaded_chunk(const Part& part, i32 c, bool sums, f32 scale, f32 (&x)[kEach]) {
  const bool nan = take_nan_out(x);
  f32 max = x[0], sum = 0.0f;
  QUERN_UNROLL for (int i = 1; i < kEach; ++i) max = fmax(max, x[i]);
  max = warp_max(max);
  if (sums && max > -infinity()) sum = warp_sum(sum_of_shares(x, max, scale));
  tell_chunk(part, part.first + c, {max, max, nan ? -sum : sum, 0.0f});
}

// ---- What the chunks come to, the same in every block
struct RowSums {
  f32 max, scale;
  f32 middle;  // of those of the chunks, the mean; -inf: not known
  bool nan;
  u64 of_chunks, of_listed;
  QUERN_DEVICE u64 total() const { return of_chunks + of_listed; }
};
// By each warp.
QUERN_DEVICE void learn_row(const Part& part, bool sieves, RowSums* sums) {
  f32 max = -infinity(), middle = 0.0f, number = 0.0f;
  u32 nan = 0;
  QUERN_FOUR_AT_ONCE for (i32 c = lane(); c < part.all; c += kWarp) {
    const Note note = part.notes[c];
    max = fmax(max, note.top), nan |= note.nan() ? 1u : 0u;
    if (kFilters && note.max > -infinity()) middle += note.middle, number += 1.0f;
  }
  sums->max = value_of(warp_max(key_of(max)));
  sums->nan = ballot(nan != 0) != 0;
  if (kFilters && sieves) {
    middle = warp_sum(middle), number = warp_sum(number);
    sums->middle = fmin(middle * rcp_approx(fmax(number, 1.0f)), sums->max);
  }
}
QUERN_DEVICE u64 weight_of_chunk(const Part& part, i32 chunk, f32 max, f32 inverse_temperature) {
  const Note note = part.notes[chunk];
  if (!(note.max > -infinity())) return 0;
  const f32 below = exp_of_minus(at_most(distance(max, note.max, inverse_temperature), 128.0f));
  return static_cast<u64>(note.sum_of_shares() * below * kUnits);
}
// The sum of all, by a warp.
QUERN_DEVICE u64 weight_of_chunks(const Part& part, f32 max, f32 inverse_temperature) {
  u64 own = 0;
  QUERN_TWO_AT_ONCE for (i32 c = lane(); c < part.all; c += kWarp) {
    own += weight_of_chunk(part, c, max, inverse_temperature);
  }
  return warp_sum(own);
}

}  // namespace q
