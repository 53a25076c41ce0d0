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

// The candidates that a block has are edited, where edits wait; *top: the key of this thread's largest. Where it is not
// known what tokens lists name, the lists are looked through for those that are candidates.
QUERN_DEVICE void settle_candidates(const SampleParams& p, const Row& row, Part& part, u32* top) {
  if constexpr (kEdits) {
    Desk& desk = *part.desk;
    const u32 there = desk.held < static_cast<u32>(part.most) ? desk.held : static_cast<u32>(part.most);
    EditTable table{};
    if (part.names() && !desk.plan.named && there <= static_cast<u32>(kTableSlots / 2)) {
      table.slots = kTableSlots;
      table.tokens = reinterpret_cast<u32*>(part.work), table.counts = table.tokens + kTableSlots;
      QUERN_ROLLED for (i32 s = thread_index(); s < kTableSlots; s += kThreads) {
        table.tokens[s] = EditTable::kFree, table.counts[s] = 0;
      }
      sync_block();
      QUERN_ROLLED for (u32 i = static_cast<u32>(thread_index()); i < there; i += kThreads) {
        table.slot_for(static_cast<i32>(static_cast<u32>(token_of_candidate(part.candidates[i])) & ~kEditedBit));
      }
      sync_block();
      each_edited(p, row.i, [&](i32 token, From from, i32) {
        const u32 slot = table.find(token);
        if (slot == table.slots) return;
        if (from == From::output) {
          atomic_add(table.counts + slot, 1u);
        } else {
          atomic_or(table.counts + slot, from == From::prompt ? EditTable::kInPrompt : EditTable::kBanned);
        }
      });
      sync_block();
    } else if (part.names() && !desk.plan.named) {
      part.named = name_tokens(p, row.i, desk.scratch, part.named);
    }
    QUERN_ROLLED for (u32 i = static_cast<u32>(thread_index()); i < there; i += kThreads) {
      const u64 candidate = part.candidates[i];
      const i32 token = static_cast<i32>(static_cast<u32>(token_of_candidate(candidate)) & ~kEditedBit);
      f32 x = value_of_candidate(candidate);
      if (token == token_of_candidate(candidate)) {
        u32 said = 0;
        if (table.slots != 0) {
          said = table.counts[table.find(token)];
        } else if (part.names() && is_marked(part.named.marks, token - part.named.begin)) {
          said = said_of(part.named, token);
        }
        x = edit_as_said(row, said, token, x);
      }
      part.candidates[i] = to_candidate(x, token);
      const u32 key = key_of(x);
      *top = key > *top ? key : *top;
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
