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
  const i32* tokens[4];  // of each list, as if it began with entry 0
  i32 ends[3];           // of prompt, output and banned
  i32 there[2];          // up to here the first two are filled
  i32 all, vocab;

  QUERN_DEVICE Entries(const SampleParams& p, i32 i) : tokens{}, ends{}, there{}, all(0), vocab(p.vocab) {
    if (!kEdits || p.slots == 0) return;
    const Biases own = biases_of(p, i);
    ends[0] = p.prompt.tokens ? p.prompt.most : 0;
    ends[1] = ends[0] + (p.output.tokens ? p.output.most : 0);
    ends[2] = ends[1] + (p.banned.tokens ? p.banned.most : 0);
    there[0] = ends[0] != 0 && p.prompt.lengths ? p.prompt.lengths[i] : ends[0];
    there[1] = ends[1];
    if (ends[1] != ends[0] && p.output.lengths) {
      const i32 length = p.output.lengths[i];
      there[1] = length < p.output.most ? ends[0] + length : ends[1];
    }
    tokens[0] = begin(p.prompt, i, 0), tokens[1] = begin(p.output, i, ends[0]), tokens[2] = begin(p.banned, i, ends[1]);
    tokens[3] = p.bias_offsets ? p.bias_ids + (own.begin - ends[2]) : nullptr;
    all = ends[2] + (own.end - own.begin);
  }
  QUERN_DEVICE static const i32* begin(const TokenList& list, i32 i, i32 first) {
    return list.tokens ? list.tokens + (i * list.stride - first) : nullptr;
  }
  QUERN_DEVICE int list_of(i32 e) const { return e < ends[1] ? (e < ends[0] ? 0 : 1) : (e < ends[2] ? 2 : 3); }
  // The entry's token; -1: there is none. Lists have something to load beyond what is filled of them, too, so that it
  // need not be known before.
  QUERN_DEVICE i32 load(i32 e) const {
    const int list = list_of(e);
    const i32* const its = list < 2 ? (list == 0 ? tokens[0] : tokens[1]) : (list == 2 ? tokens[2] : tokens[3]);
    const i32 token = e < all ? its[e] : -1, end = list == 0 ? there[0] : list == 1 ? there[1] : all;
    return e < end && token < vocab ? token : -1;
  }
};
// The first few of a thread's entries, asked for long before they are needed; where there are more, all are read twice.
inline constexpr int kHeld = 2048 / kThreads;
struct HeldEntries {
  i32 tokens[kHeld];
};
QUERN_DEVICE HeldEntries ask_for_entries(const Entries& entries, i32 base) {
  HeldEntries held;
  QUERN_UNROLL for (int j = 0; j < kHeld; ++j) held.tokens[j] = entries.load(base + j * kThreads + thread_index());
  return held;
}
// Marks those of the part's tokens that lists name, gives each a place and gathers there what they say of it. All
// threads; ends with a barrier.
QUERN_DEVICE void name_listed(const SampleParams& p, const Entries& entries, HeldEntries held, const Part& part) {
  const i32 most = p.slots / 2 < part.length() ? p.slots / 2 : part.length();
  bins_zero<kThreads>(part.marks, part.chunks * kGroups);
  bins_zero<kThreads>(part.words, most);
  if (p.bias_offsets) bins_zero<kThreads>(part.biases, most);
  if (thread_index() == 0) part.desk->used = 0;
  QUERN_ROLLED for (int pass = 0; pass < 2; ++pass) {
    QUERN_ROLLED for (i32 base = 0; base < entries.all; base += kHeld * kThreads) {
      if (entries.all > kHeld * kThreads) held = ask_for_entries(entries, base);
      sync_block();  // what has been zeroed, and places, are there
      QUERN_ROLLED for (int j = 0; j < kHeld; ++j) {
        // They move round, so that each is in a register.
        const i32 token = held.tokens[0], e = base + j * kThreads + thread_index();
        QUERN_UNROLL for (int m = 1; m < kHeld; ++m) held.tokens[m - 1] = held.tokens[m];
        held.tokens[kHeld - 1] = token;
        if (!part.owns(token)) continue;
        const i32 local = token - part.begin();
        const u32 bit = 1u << (token & 31);
        if (pass == 0) {
          atomic_or(part.marks + (local >> 5), bit);
          continue;
        }
        const u32 place = part.before[local >> 5] + static_cast<u32>(popcount(part.marks[local >> 5] & (bit - 1)));
        const int list = entries.list_of(e);
        if (list == 1) {
          atomic_add(part.words + place, 1u);
        } else if (list == 3) {
          atomic_add(part.biases + place, p.bias_values[entries.tokens[3] + e - p.bias_ids]);
        } else {
          atomic_or(part.words + place, list == 0 ? kSaidPrompt : kSaidBanned);
        }
      }
    }
    sync_block();
    if (pass != 0) return;
    QUERN_ROLLED for (i32 c = warp(); c < part.chunks; c += kWarps) {
      const i32 word = c * kGroups + lane();
      const u32 own = lane() < kGroups ? static_cast<u32>(popcount(part.marks[word])) : 0u,
                through = static_cast<u32>(warp_through(own));
      u32 base = 0;
      if (lane() == kWarp - 1) base = atomic_add(&part.desk->used, through);
      base = shuffle(base, kWarp - 1);
      if (lane() < kGroups) part.before[word] = static_cast<u16>(base + through - own);
    }
  }
}

// f(its place in the part, the place of what is said of it) for the tokens of chunk c that lists name, each lane by
// itself. Lane l has those of word l.
template <class F>
QUERN_DEVICE void each_listed_in_chunk(const Part& part, i32 c, F f) {
  const i32 word = c * kGroups + lane();
  u32 left = lane() < kGroups ? part.marks[word] : 0u, place = left != 0 ? part.before[word] : 0u;
  QUERN_ROLLED for (; left != 0; left &= left - 1, ++place) {
    f(word * 32 + static_cast<i32>(trailing_zeros(left)), place);
  }
}
// What is sampled from of the chunk's listed tokens, of which the slice has the raw logits, comes into the place of
// what lists say of them, and the slice says that they are out, so that whoever goes through the chunk need not ask.
// The largest of this lane's.
QUERN_DEVICE f32 settle_listed(const Row& row, const Part& part, i32 c, const ChunkMasks& masks, bool* nan) {
  f32 top = -infinity();
  each_listed_in_chunk(part, c, [&](i32 local, u32 place) {
    const u32 said = part.words[place], at = static_cast<u32>(local & 31);
    const i32 count = static_cast<i32>(said & kSaidCount) + (row.counts ? row.counts[part.begin() + local] : 0);
    const bool in_prompt = (said & kSaidPrompt) != 0 || (masks.prompt >> at & 1) != 0;
    f32 x = penalise(row, part.slice[local], in_prompt, count);
    if (part.biased) x += part.biases[place];
    if ((said & kSaidBanned) != 0 || (masks.allowed >> at & 1) == 0) x = -infinity();
    *nan |= x != x;
    x = fmax(x, -infinity());
    part.words[place] = bits_of(x), part.slice[local] = -infinity();
    top = fmax(top, x);
  });
  sync_warp();
  return top;
}
// They are in the slice again.
QUERN_DEVICE void put_listed_back(const Part& part, i32 c) {
  sync_warp();
  each_listed_in_chunk(part, c, [&](i32 local, u32 place) { part.slice[local] = f32_of(part.words[place]); });
}

}  // namespace q
