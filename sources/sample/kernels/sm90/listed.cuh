// The tokens of a block's part of the row that lists name: a bit each says which they are, and each chunk's have places
// behind each other, where what the lists say of them is gathered.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "sample/kernels/sm90/part.cuh"

namespace q {

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

}  // namespace q
