// The tokens that lists name, where that is asked late: of candidates, or one by one.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "sample/kernels/sm90/desk.cuh"

namespace q {

// Compiled once: where edits wait, what is said of named tokens is asked for late, if ever.
QUERN_CALLED Named name_tokens(const SampleParams& p, i32 i, u64* scratch, Named named) {
  named = named.there();
  name_part(p, i, in_shared(scratch), &named);
  return named;
}

// Candidates that are few, while it is not known what lists name: the lists are looked through for them. A bit for each
// of many hashes tells of nearly all other tokens that they are none.
struct FewCandidates {
  static constexpr int kOwn = kTableSlots / 2 / kThreads;  // of a thread
  static constexpr u32 kBits = 8 * kFilterBytes;
  const EditTable table;
  u32* const bits;

  QUERN_DEVICE FewCandidates(u8* work)
      : table{reinterpret_cast<u32*>(work), reinterpret_cast<u32*>(work) + kTableSlots, nullptr, kTableSlots},
        bits(reinterpret_cast<u32*>(work) + 2 * kTableSlots) {}
  QUERN_DEVICE static u32 bit_of(i32 token) { return static_cast<u32>(token) * 0x85ebca6bu >> 7 & (kBits - 1); }
  QUERN_DEVICE void clear() const {
    QUERN_ROLLED for (i32 s = thread_index(); s < kTableSlots; s += kThreads) {
      table.tokens[s] = EditTable::kFree, table.counts[s] = 0;
    }
    bins_zero<kThreads>(bits, kFilterBytes / 4);
  }
  QUERN_DEVICE u32 insert(i32 token) const {
    const u32 bit = bit_of(token);
    atomic_or(bits + (bit >> 5), 1u << (bit & 31));
    return table.slot_for(token);
  }
  // What the row's lists say of those that have been inserted.
  QUERN_DEVICE void look_through(const SampleParams& p, i32 i) const {
    constexpr int kAtOnce = 2048 / kThreads;
    QUERN_ROLLED for (int kind = 0; kind < 3; ++kind) {
      const From from = static_cast<From>(kind);
      const TokenList& list = from == From::prompt ? p.prompt : from == From::output ? p.output : p.banned;
      if (!list.tokens) continue;
      const i32* const tokens = list.tokens + i * list.stride;
      const i32 there = list.lengths ? list.lengths[i] : list.most;
      QUERN_ROLLED for (i32 base = thread_index(); base < list.most; base += kThreads * kAtOnce) {
        i32 token[kAtOnce];
        u32 word[kAtOnce];
        QUERN_UNROLL for (int j = 0; j < kAtOnce; ++j) token[j] =
            base + j * kThreads < list.most ? tokens[base + j * kThreads] : -1;
        u32 hits = 0;
        QUERN_UNROLL for (int j = 0; j < kAtOnce; ++j) word[j] = bits[bit_of(token[j]) >> 5];
        QUERN_UNROLL for (int j = 0; j < kAtOnce; ++j) hits |= (word[j] >> (bit_of(token[j]) & 31) & 1) << j;
        // The length comes with the tokens, which lie there beyond it, too.
        QUERN_ROLLED for (; hits != 0; hits &= hits - 1) {
          const i32 at = base + static_cast<i32>(trailing_zeros(hits)) * kThreads;
          if (at >= there) break;
          const u32 slot = table.find(tokens[at]);  // of what is no token none
          if (slot == table.slots) continue;
          if (from == From::output) {
            atomic_add(table.counts + slot, 1u);
          } else {
            atomic_or(table.counts + slot, from == From::prompt ? EditTable::kInPrompt : EditTable::kBanned);
          }
        }
      }
    }
  }
};

// The candidates that a block has are edited, where edits wait; *top: the key of this thread's largest. Where it is not
// known what tokens lists name, and they are few, the lists are looked through for those that are candidates.
QUERN_DEVICE void settle_candidates(const SampleParams& p, const Row& row, Part& part, u32* top) {
  if constexpr (kEdits) {
    Desk& desk = *part.desk;
    const u32 there = desk.held < static_cast<u32>(part.most) ? desk.held : static_cast<u32>(part.most);
    const u32 own = static_cast<u32>(thread_index());
    const auto token_of = [&](u64 candidate) {
      return static_cast<i32>(static_cast<u32>(token_of_candidate(candidate)) & ~kEditedBit);
    };
    const auto put = [&](u32 i, f32 x, i32 token) {
      part.candidates[i] = to_candidate(x, token);
      const u32 key = key_of(x);
      *top = key > *top ? key : *top;
    };
    const bool few = there <= static_cast<u32>(kTableSlots / 2);
    if (few && (!part.names() || !desk.plan.named)) {
      // What masks and counts say of them is on its way while the lists are looked through.
      constexpr int kOwn = FewCandidates::kOwn;
      const FewCandidates found(part.work);
      u64 candidate[kOwn];
      u32 prompt[kOwn], slot[kOwn];
      i32 counts[kOwn];
      QUERN_UNROLL for (int j = 0; j < kOwn; ++j) {
        const u32 i = own + j * kThreads;
        candidate[j] = i < there ? part.candidates[i] : u64{0};
        const i32 token = token_of(candidate[j]);
        prompt[j] = row.prompt_mask && i < there ? row.prompt_mask[token >> 5] >> (token & 31) & 1 : 0u;
        counts[j] = row.counts && i < there ? row.counts[token] : 0;
        slot[j] = 0;
      }
      if (part.names()) {
        found.clear();
        sync_block();
        QUERN_UNROLL for (int j = 0; j < kOwn; ++j) {
          if (own + j * kThreads < there) slot[j] = found.insert(token_of(candidate[j]));
        }
        sync_block();
        found.look_through(p, row.i);
        sync_block();
      }
      QUERN_UNROLL for (int j = 0; j < kOwn; ++j) {
        const u32 i = own + j * kThreads;
        if (i >= there) continue;
        const i32 token = token_of(candidate[j]);
        f32 x = value_of_candidate(candidate[j]);
        if (token == token_of_candidate(candidate[j])) {
          const u32 said = part.names() ? found.table.counts[slot[j]] : 0u;
          const i32 number = static_cast<i32>(said & (EditTable::kInPrompt - 1)) + counts[j];
          x = penalise(row, x, prompt[j] != 0 || (said & EditTable::kInPrompt) != 0, number);
          x = (said & EditTable::kBanned) != 0 ? -infinity() : fmax(x, -infinity());
        }
        put(i, x, token);
      }
      return;
    }
    if (part.names() && !desk.plan.named) part.named = name_tokens(p, row.i, desk.scratch, part.named);
    QUERN_ROLLED for (u32 i = own; i < there; i += kThreads) {
      const u64 candidate = part.candidates[i];
      const i32 token = token_of(candidate);
      f32 x = value_of_candidate(candidate);
      if (token == token_of_candidate(candidate)) {
        const bool named = part.names() && is_marked(part.named.marks, token - part.named.begin);
        x = edit_as_said(row, named ? said_of(part.named, token) : 0u, token, x);
      }
      put(i, x, token);
    }
  }
}

// f(token, logit) for each named token of the row, in the first block.
template <class F>
QUERN_DEVICE void each_named(const Part& part, i32 chunks_each, F f) {
  QUERN_ROLLED for (i32 r = 0; r < part.blocks; ++r) {
    Named named = part.named;
    named.begin = r * chunks_each * kChunk;
    const u32 count = of_block(&part.desk->named, r);
    const i32 rest = part.all - r * chunks_each;
    named.chunks = rest < 0 ? 0 : rest < chunks_each ? rest : chunks_each;
    QUERN_ROLLED for (u32 n = static_cast<u32>(thread_index()); n < count; n += kThreads) {
      i32 high = 0;
      constexpr i32 kStep = (1 << 16) / 64;
      QUERN_ROLLED for (i32 at = kStep; at < named.chunks * kGroups / 2; at += kStep) {
        const u32 two = of_block(reinterpret_cast<const u32*>(named.before + at), r);
        if ((two & 0xffffu) <= n) ++high;
      }
      f(named.begin + (high << 16 | static_cast<i32>(of_block(named.words + n, r) >> 16)),
        of_block(named.values + n, r));
    }
  }
}

// The logit of a named token, in the first block.
QUERN_DEVICE f32 value_of_named(const Part& part, i32 chunks_each, i32 token) {
  const i32 r = token / (chunks_each * kChunk), local = token - r * chunks_each * kChunk, pair = local >> 6;
  const u32 low = of_block(part.named.marks + 2 * pair, r), high = of_block(part.named.marks + 2 * pair + 1, r);
  const u32 two = of_block(reinterpret_cast<const u32*>(part.named.before) + (pair >> 1), r);
  const u32 below = (1u << (local & 31)) - 1;
  const u32 within =
      static_cast<u32>((local & 32) != 0 ? popcount(low) + popcount(high & below) : popcount(low & below));
  return of_block(part.named.values + ((pair & 1) != 0 ? two >> 16 : two & 0xffffu) + within, r);
}

}  // namespace q
