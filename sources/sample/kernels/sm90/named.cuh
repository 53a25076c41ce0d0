// The tokens of a block's part of the row that lists name, in the order of their ids: a bit each says which they are,
// and how many bits stand before a token's says where on the list it has its place.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "sample/kernels/edits.cuh"
#include "sample/kernels/room.cuh"

namespace q {

// The lower half of a named token's word: how often the output has it, and two bits. Above them 16 bits of its place in
// the part.
inline constexpr u32 kPromptBit = 1u << 14, kBannedBit = 1u << 15, kCountBits = kPromptBit - 1;
static_assert(kMostEdited < 1 << 14);

struct Named {
  u32* marks;   // [32 a chunk] bits of the tokens that are named
  u16* before;  // [16 a chunk] how many are before each 64 tokens
  u32* words;   // of each that is named
  f32* values;  // its logit, as edited
  i32 begin, chunks;
  u32 count;

  // As a function of its own has it.
  QUERN_DEVICE Named there() const {
    Named named = *this;
    named.marks = marks ? in_shared(marks) : nullptr, named.before = in_shared(before);
    named.words = in_shared(words), named.values = in_shared(values);
    return named;
  }
  QUERN_DEVICE u32 bits_at(i32 local) const { return marks[local >> 5] >> (local & 31); }
  // Of a place that has a bit, or how many bits there are before it.
  QUERN_DEVICE u32 rank_of(i32 local) const {
    const u32 low = marks[local >> 6 << 1], own = marks[local >> 5] & ((1u << (local & 31)) - 1);
    return before[local >> 6] + static_cast<u32>(popcount(own)) +
           ((local & 32) != 0 ? static_cast<u32>(popcount(low)) : 0u);
  }
  QUERN_DEVICE i32 token_of(u32 rank) const {
    i32 high = 0;
    constexpr i32 kStep = (1 << 16) / 64;
    QUERN_ROLLED for (i32 at = kStep; at < chunks * kGroups / 2 && before[at] <= rank; at += kStep)++ high;
    return begin + (high << 16 | static_cast<i32>(words[rank] >> 16));
  }
};

// Asks for the row's lists, so that they are near when they are read.
QUERN_DEVICE void ask_for_lists(const SampleParams& p, i32 i) {
  constexpr i32 kLine = 128 / 4;
  static_assert(kMostEdited <= kThreads * kLine);
  const i32 at = thread_index() * kLine;
  if (p.output.tokens && at < p.output.most) prefetch_line(p.output.tokens + i * p.output.stride + at);
  if (p.prompt.tokens && at < p.prompt.most) prefetch_line(p.prompt.tokens + i * p.prompt.stride + at);
}

// Makes the list of the part that has chunks begin / kChunk and on. All threads; ends with a barrier.
QUERN_DEVICE void name_part(const SampleParams& p, i32 i, u64* scratch, Named* named) {
  bins_zero<kThreads>(named->marks, named->chunks * kGroups);
  sync_block();
  const i32 end = named->begin + named->chunks * kChunk;
  QUERN_ROLLED for (bool marked = false;; marked = true) {
    each_edited(p, i, [&](i32 token, From from, i32) {
      if (token < named->begin || token >= end) return;
      const i32 local = token - named->begin;
      u32* word = named->marks + (local >> 5);
      u32 bits = 1u << (local & 31);
      if (marked) {
        word = named->words + named->rank_of(local);
        bits = static_cast<u32>(local) << 16 | (from == From::prompt   ? kPromptBit
                                                : from == From::banned ? kBannedBit
                                                                       : 0u);
      }
      atomic_or(word, bits);
      if (marked && from == From::output) atomic_add(word, 1u);
    });
    sync_block();
    if (marked) return;
    // Each warp has a run of pairs of words.
    const i32 all = named->chunks * kGroups / 2, each = div_up(all, kThreads / kWarp), first = warp() * each;
    const i32 end_of_run = first + each < all ? first + each : all;
    const auto bits_of_pair = [&](i32 w) {
      return static_cast<u32>(popcount(named->marks[2 * w]) + popcount(named->marks[2 * w + 1]));
    };
    u32 own = 0;
    QUERN_ROLLED for (i32 w = first + lane(); w < end_of_run; w += kWarp) own += bits_of_pair(w);
    own = warp_total(own);
    u32 at = static_cast<u32>(of_lane(sum_before(scratch, lane() == 0 ? u64{own} : u64{0}), 0));
    named->count = static_cast<u32>(scratch[kThreads / kWarp]);
    QUERN_ROLLED for (i32 base = first; base < end_of_run; base += kWarp) {
      const i32 w = base + lane();
      const u32 its = w < end_of_run ? bits_of_pair(w) : 0, through = static_cast<u32>(warp_through(its));
      if (w < end_of_run) named->before[w] = static_cast<u16>(at + through - its);
      at += static_cast<u32>(of_lane(through, kWarp - 1));
    }
    bins_zero<kThreads>(named->words, static_cast<i32>(named->count));
    sync_block();
  }
}

// The logit x of a token of which lists say so much, as EditTable has it; as edited but for a bias.
QUERN_DEVICE f32 edit_as_said(const Row& row, u32 said, i32 token, f32 x) {
  const bool in_prompt = (said & EditTable::kInPrompt) != 0 || (row.prompt_mask && bit_at(row.prompt_mask, token));
  const i32 in_output = static_cast<i32>(said & (EditTable::kInPrompt - 1)) + (row.counts ? row.counts[token] : 0);
  x = penalise(row, x, in_prompt, in_output);
  if ((said & EditTable::kBanned) != 0 || (row.allowed && !bit_at(row.allowed, token))) x = -infinity();
  return fmax(x, -infinity());
}
// What is said of a named token.
QUERN_DEVICE u32 said_of(const Named& named, i32 token) {
  const u32 word = named.words[named.rank_of(token - named.begin)];
  return (word & kCountBits) | ((word & kPromptBit) != 0 ? EditTable::kInPrompt : 0u) |
         ((word & kBannedBit) != 0 ? EditTable::kBanned : 0u);
}

// Reads the named tokens' logits, makes them what is sampled from, and f(token, value) of each. True where one was NaN.
template <class F>
QUERN_DEVICE bool settle_named(const SampleParams& p, const Row& row, const Named& named, F f) {
  constexpr int kAtOnce = 4;  // loads under way
  QUERN_ROLLED for (u32 base = static_cast<u32>(thread_index()); base < named.count; base += kThreads * kAtOnce) {
    i32 token[kAtOnce];
    f32 x[kAtOnce];
    bool prompt[kAtOnce], allowed[kAtOnce];
    i32 counts[kAtOnce];
    QUERN_UNROLL for (int j = 0; j < kAtOnce; ++j) {
      const u32 r = base + static_cast<u32>(j * kThreads);
      token[j] = named.token_of(r < named.count ? r : base);
      x[j] = to_f32(row.logits[token[j]]);
      prompt[j] = row.prompt_mask && bit_at(row.prompt_mask, token[j]);
      allowed[j] = !row.allowed || bit_at(row.allowed, token[j]);
      counts[j] = row.counts ? row.counts[token[j]] : 0;
    }
    QUERN_UNROLL for (int j = 0; j < kAtOnce; ++j) {
      const u32 r = base + static_cast<u32>(j * kThreads);
      if (r >= named.count) continue;
      const u32 said = named.words[r];
      const f32 edited =
          penalise(row, x[j], prompt[j] || (said & kPromptBit) != 0, static_cast<i32>(said & kCountBits) + counts[j]);
      named.values[r] = (said & kBannedBit) != 0 || !allowed[j] ? -infinity() : edited;
    }
  }
  if (p.bias_offsets) {
    sync_block();
    const Biases biases = biases_of(p, row.i);
    QUERN_ROLLED for (i32 at = biases.begin + thread_index(); at < biases.end; at += kThreads) {
      const i32 token = p.bias_ids[at], local = token - named.begin;
      if (token < 0 || token >= p.vocab || local < 0 || local >= named.chunks * kChunk) continue;
      f32* const x = named.values + named.rank_of(local);
      if (*x != -infinity()) *x += p.bias_values[at];
    }
    sync_block();
  }
  bool nan = false;
  QUERN_ROLLED for (u32 r = static_cast<u32>(thread_index()); r < named.count; r += kThreads) {
    const f32 x = named.values[r];
    nan |= x != x;
    named.values[r] = fmax(x, -infinity());
    f(named.token_of(r), fmax(x, -infinity()));
  }
  return nan;
}

}  // namespace q
