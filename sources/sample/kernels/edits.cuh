// From a row's raw logits to those that are sampled from: penalties, bias, masks.
//
// Masks and counts have a place for each token and are applied as logits stream by. Lists name a few tokens: these are
// left out of the stream, by a bit each in shared memory, and the row's last block looks at them by themselves, in a
// table of its own.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "sample/kernels/order.cuh"

namespace q {

using Logit = LOGIT;  // f32, f16 or bf16
inline constexpr bool kEdits = EDITS != 0;
inline constexpr int kThreads = THREADS;
inline constexpr int kEach = kChunk / kWarp;  // logits of a lane in a chunk
inline constexpr int kVector = 16 / static_cast<int>(sizeof(Logit));
inline constexpr int kLoads = kEach / kVector;

// enum quern_sample_status
enum Status : u32 { kEmpty = 1, kNan = 2, kParameter = 4, kIndex = 8, kCapacity = 16 };

template <class T>
QUERN_DEVICE T read_row(const PerRow<T>& parameter, i32 row) {
  return parameter.rows ? parameter.rows[row] : parameter.all;
}

// Row `i` of the call.
struct Row {
  i32 i;
  const Logit* logits;  // null: there is no such row
  f32 repetition, inverse_repetition, presence, frequency;
  const u32* prompt_mask;
  const u32* allowed;
  const i32* counts;
};

QUERN_DEVICE Row row_of_call(const SampleParams& p, i32 i) {
  Row row{};
  row.i = i;
  const i32 source = p.rows ? p.rows[i] : i;
  if (source >= 0 && source < p.logit_rows) row.logits = static_cast<const Logit*>(p.logits) + source * p.logits_stride;
  if constexpr (kEdits) {
    row.repetition = read_row(p.repetition, i);
    row.inverse_repetition = inverse_near(row.repetition);
    row.presence = read_row(p.presence, i);
    row.frequency = read_row(p.frequency, i);
    row.prompt_mask = p.prompt_mask ? p.prompt_mask + i * p.prompt_mask_stride : nullptr;
    row.allowed = p.allowed ? p.allowed + i * p.allowed_stride : nullptr;
    row.counts = p.output_counts ? p.output_counts + i * p.output_counts_stride : nullptr;
  }
  return row;
}

// x / r, rounded correctly but for r with a mantissa of ones alone (Markstein, "Computation of elementary functions on
// the IBM RISC System/6000 processor", 1990).
QUERN_DEVICE f32 divide(f32 x, f32 r, f32 inverse) {
  const f32 quotient = x * inverse, better = fma(fma(-quotient, r, x), inverse, quotient);
  return better == better ? better : quotient;  // of infinities the remainder is NaN
}
QUERN_DEVICE f32 repeat(const Row& row, f32 x) {
  return x > 0.0f ? divide(x, row.repetition, row.inverse_repetition) : x * row.repetition;
}
QUERN_DEVICE f32 weigh_down(const Row& row, f32 x, i32 count) {
  return fma(-row.frequency, static_cast<f32>(count), x - row.presence);
}
QUERN_DEVICE f32 penalise(const Row& row, f32 x, bool repeated, i32 count) {
  if (repeated || count > 0) x = repeat(row, x);
  if (count > 0) x = weigh_down(row, x, count);
  return x;
}
QUERN_DEVICE bool bit_at(const u32* mask, i32 token) { return (mask[token >> 5] >> (token & 31) & 1) != 0; }

// ---- A chunk as it streams by: lane l has the kVector logits from (j kWarp + l) kVector on, for each j
QUERN_DEVICE i32 place_in_chunk(int j) { return j * (kWarp * kVector) + lane() * kVector; }

QUERN_DEVICE void widen_loads(const vec16 (&raw)[kLoads], f32 (&x)[kEach]) {
  QUERN_UNROLL for (int j = 0; j < kLoads; ++j) {
    QUERN_UNROLL for (int w = 0; w < 4; ++w) {
      if constexpr (sizeof(Logit) == 4) {
        x[j * 4 + w] = f32_of(raw[j].x[w]);
      } else {
        const f32x2 pair = unpack<Logit>(raw[j].x[w]);
        x[j * 8 + 2 * w] = pair.x, x[j * 8 + 2 * w + 1] = pair.y;
      }
    }
  }
}
// -inf behind the row's end.
QUERN_DEVICE void load_chunk(const Row& row, i32 begin, i32 vocab, bool vectors, f32 (&x)[kEach]) {
  const Logit* from = row.logits + begin;
  if (vectors && begin + kChunk <= vocab) {
    vec16 raw[kLoads];
    const Logit* const own = from + place_in_chunk(0);  // the others lie at constant distances
    QUERN_UNROLL for (int j = 0; j < kLoads; ++j) raw[j] = load16_once(own + j * (kWarp * kVector));
    widen_loads(raw, x);
    return;
  }
  QUERN_UNROLL for (int j = 0; j < kLoads; ++j) {
    QUERN_UNROLL for (int e = 0; e < kVector; ++e) {
      const i32 at = place_in_chunk(j) + e;
      x[j * kVector + e] = begin + at < vocab ? to_f32(from[at]) : -infinity();
    }
  }
}

// A chunk's 32 words of a mask, one a lane; `outside` behind the mask's end.
QUERN_DEVICE u32 load_mask(const u32* mask, i32 begin, i32 vocab, u32 outside) {
  const i32 word = (begin >> 5) + lane();
  return mask && lane() < kGroups && word < div_up(vocab, 32) ? mask[word] : outside;
}

// The masks' words of a chunk.
struct ChunkMasks {
  u32 allowed, prompt;
};
QUERN_DEVICE ChunkMasks load_masks(const Row& row, i32 begin, i32 vocab) {
  return {load_mask(row.allowed, begin, vocab, ~0u), load_mask(row.prompt_mask, begin, vocab, 0u)};
}
// Penalties and masks of the j-th vector, x; what is out becomes -inf, NaN stays. `listed`: this chunk's words of the
// tokens that lists change, which become -inf; may be null. All lanes.
QUERN_DEVICE void edit_vector(const SampleParams& p, const Row& row, i32 begin, int j, const ChunkMasks& masks,
                              const u32* listed, f32* x) {
  const i32 at = place_in_chunk(j), word = at >> 5;
  u32 in = ~0u, repeated = 0;
  if (row.allowed) in = shuffle(masks.allowed, word) >> (at & 31);
  if (listed) in &= ~(listed[word] >> (at & 31));
  if (row.prompt_mask) repeated = shuffle(masks.prompt, word) >> (at & 31);
  constexpr u32 kOfLane = (1u << kVector) - 1;
  i32 counts[kVector] = {};
  u32 counted = 0;
  if (row.counts) {
    if (p.count_vectors && begin + kChunk <= p.vocab) {
      QUERN_UNROLL for (int e = 0; e < kVector; e += 4) {
        const vec16 four = load16_once(row.counts + begin + at + e);
        QUERN_UNROLL for (int w = 0; w < 4; ++w) counts[e + w] = static_cast<i32>(four.x[w]);
      }
    } else {
      QUERN_UNROLL for (int e = 0; e < kVector; ++e) counts[e] =
          begin + at + e < p.vocab ? row.counts[begin + at + e] : 0;
    }
    QUERN_UNROLL for (int e = 0; e < kVector; ++e) counted |= counts[e] > 0 ? 1u << e : 0u;
    repeated |= counted;
  }
  if ((repeated & kOfLane) != 0) {
    QUERN_UNROLL for (int e = 0; e < kVector; ++e) {
      const f32 changed = repeat(row, x[e]);
      x[e] = (repeated >> e & 1) != 0 ? changed : x[e];
    }
  }
  if (counted != 0) {
    QUERN_UNROLL for (int e = 0; e < kVector; ++e) {
      if (counts[e] > 0) x[e] = weigh_down(row, x[e], counts[e]);
    }
  }
  if ((~in & kOfLane) != 0) {
    QUERN_UNROLL for (int e = 0; e < kVector; ++e) {
      if ((in >> e & 1) == 0) x[e] = -infinity();
    }
  }
}
QUERN_DEVICE void edit_chunk(const SampleParams& p, const Row& row, i32 begin, const u32* listed, f32 (&x)[kEach]) {
  const ChunkMasks masks = load_masks(row, begin, p.vocab);
  QUERN_UNROLL for (int j = 0; j < kLoads; ++j) edit_vector(p, row, begin, j, masks, listed, x + j * kVector);
}

// ---- The tokens that lists name
// A row's biases; none where its offsets make no sense, which the last block reports.
struct Biases {
  i32 begin, end;
  bool bad, too_many;
};
QUERN_DEVICE Biases biases_of(const SampleParams& p, i32 i) {
  if (!p.bias_offsets) return {0, 0, false, false};
  const i32 begin = p.bias_offsets[i], end = p.bias_offsets[i + 1];
  if (begin < 0 || end < begin || end > p.bias_entries) return {0, 0, true, false};
  if (end - begin > p.max_bias) return {0, 0, false, true};
  return {begin, end, false, false};
}
// What is wrong with a row's penalties and biases, or-ed to `wrong`. Of bias ids each thread looks at some: kIndex may
// be set in some threads alone.
QUERN_DEVICE u32 mistakes_of_edits(const SampleParams& p, const Row& row, u32 wrong) {
  if (!(row.repetition > 0.0f) || row.presence != row.presence || row.frequency != row.frequency) wrong |= kParameter;
  const Biases biases = biases_of(p, row.i);
  if (biases.bad) wrong |= kIndex;
  if (biases.too_many) wrong |= kCapacity;
  QUERN_ROLLED for (i32 at = biases.begin + thread_index(); at < biases.end; at += kThreads) {
    if (p.bias_ids[at] < 0 || p.bias_ids[at] >= p.vocab) wrong |= kIndex;
  }
  return wrong;
}
enum class From : int { prompt, output, banned, bias };
// f(token, where from, which entry) for each token of the row's lists; all threads share the work. One loop for all
// lists, so that f is compiled once.
template <int kAtOnce = 2048 / kThreads, class F>  // loads under way
QUERN_DEVICE void each_edited(const SampleParams& p, i32 i, F f) {
  const Biases biases = biases_of(p, i);
  QUERN_ROLLED for (int kind = 0; kind < 4; ++kind) {
    const From from = static_cast<From>(kind);
    const TokenList& list = from == From::prompt ? p.prompt : from == From::output ? p.output : p.banned;
    const i32* tokens = list.tokens ? list.tokens + i * list.stride : nullptr;
    i32 begin = 0, end = list.tokens ? list.most : 0, there = end;
    if (end != 0 && list.lengths) there = list.lengths[i];
    if (from == From::bias) tokens = p.bias_ids, begin = biases.begin, there = end = biases.end;
    QUERN_ROLLED for (i32 base = begin + thread_index(); base < end; base += kThreads * kAtOnce) {
      i32 token[kAtOnce];
      QUERN_UNROLL for (int j = 0; j < kAtOnce; ++j) token[j] =
          base + j * kThreads < end ? tokens[base + j * kThreads] : -1;
      QUERN_ROLLED for (int j = 0; j < kAtOnce; ++j) {
        const i32 own = token[0];
        // They move up, so that each is in a register.
        QUERN_UNROLL for (int m = 1; m < kAtOnce; ++m) token[m - 1] = token[m];
        // The length comes with the tokens, which lie there beyond it, too.
        if (own >= 0 && own < p.vocab && base + j * kThreads < there) f(own, from, base + j * kThreads);
      }
    }
  }
}

// Sets the bits of this row's listed tokens in chunks first .. first+count-1; `words` holds kGroups a chunk. Barriers
// around it.
QUERN_DEVICE void mark_listed(const SampleParams& p, i32 i, i32 first, i32 count, u32* words) {
  bins_zero<kThreads>(words, count * kGroups);
  sync_block();
  const i32 begin = first * kChunk, end = begin + count * kChunk;
  each_edited(p, i, [&](i32 token, From, i32) {
    if (token >= begin && token < end) atomic_or(words + ((token - begin) >> 5), 1u << (token & 31));
  });
  sync_block();
}

// The listed tokens of a row by a hash of their ids, open addressing. A slot ends up with the token's logit as edited.
struct EditTable {
  u32* tokens;  // kFree: nothing
  u32* counts;  // in the output; kInPrompt and kBanned above
  f32* values;  // the sum of biases, then the logit
  u32 slots;    // 0: there is no table
  static constexpr u32 kFree = ~0u, kInPrompt = 1u << 30, kBanned = 1u << 31;

  QUERN_DEVICE u32 first_slot(i32 token) const { return (static_cast<u32>(token) * 0x9e3779b1u >> 12) & (slots - 1); }
  QUERN_DEVICE u32 slot_for(i32 token) const {
    u32 slot = first_slot(token);
    while (true) {
      const u32 stood = atomic_cas(tokens + slot, kFree, static_cast<u32>(token));
      if (stood == kFree || stood == static_cast<u32>(token)) return slot;
      slot = (slot + 1) & (slots - 1);
    }
  }
  // Where the token is, or slots.
  QUERN_DEVICE u32 find(i32 token) const {
    u32 slot = first_slot(token);
    while (tokens[slot] != kFree) {
      if (tokens[slot] == static_cast<u32>(token)) return slot;
      slot = (slot + 1) & (slots - 1);
    }
    return slots;
  }
};

// The logit x of a token that no list names, as edited.
QUERN_DEVICE f32 edit(const Row& row, i32 token, f32 x) {
  if constexpr (kEdits) {
    x = penalise(row, x, row.prompt_mask && bit_at(row.prompt_mask, token), row.counts ? row.counts[token] : 0);
    if (row.allowed && !bit_at(row.allowed, token)) x = -infinity();
  }
  return fmax(x, -infinity());  // NaN too
}
QUERN_DEVICE f32 edited(const Row& row, i32 token) { return edit(row, token, to_f32(row.logits[token])); }

// Fills the table, in dynamic shared memory, with what each(f) calls f(token, where from, which entry) for, all threads
// sharing the work. All threads; begins and ends with a barrier.
template <class Each>
QUERN_DEVICE EditTable make_table(const SampleParams& p, const Row& row, Each each) {
  EditTable table{};
  if constexpr (kEdits) {
    table.slots = static_cast<u32>(p.slots);
    if (table.slots == 0) return table;
    table.tokens = reinterpret_cast<u32*>(dynamic_shared());
    table.counts = table.tokens + table.slots;
    table.values = reinterpret_cast<f32*>(table.counts + table.slots);
    sync_block();
    QUERN_ROLLED for (i32 s = thread_index(); s < p.slots; s += kThreads) {
      table.tokens[s] = EditTable::kFree;
      table.counts[s] = 0;
      table.values[s] = 0.0f;
    }
    sync_block();
    each([&](i32 token, From from, i32 at) {
      const u32 slot = table.slot_for(token);
      if (from == From::output) atomic_add(table.counts + slot, 1u);
      if (from == From::prompt) atomic_or(table.counts + slot, EditTable::kInPrompt);
      if (from == From::banned) atomic_or(table.counts + slot, EditTable::kBanned);
      if (from == From::bias) atomic_add(table.values + slot, p.bias_values[at]);
    });
    sync_block();
    constexpr int kAtOnce = 4;  // loads under way
    QUERN_ROLLED for (i32 base = thread_index(); base < p.slots; base += kThreads * kAtOnce) {
      f32 x[kAtOnce];
      bool in_prompt[kAtOnce], allowed[kAtOnce];
      i32 in_output[kAtOnce];
      QUERN_UNROLL for (int j = 0; j < kAtOnce; ++j) {
        const i32 s = base + j * kThreads;
        const u32 token = s < p.slots ? table.tokens[s] : EditTable::kFree;
        const bool there = token != EditTable::kFree;
        const i32 at = there ? static_cast<i32>(token) : 0;
        x[j] = to_f32(row.logits[at]);
        in_prompt[j] = row.prompt_mask && bit_at(row.prompt_mask, at);
        in_output[j] = row.counts ? row.counts[at] : 0;
        allowed[j] = !row.allowed || bit_at(row.allowed, at);
      }
      QUERN_UNROLL for (int j = 0; j < kAtOnce; ++j) {
        const i32 s = base + j * kThreads;
        if (s >= p.slots || table.tokens[s] == EditTable::kFree) continue;
        const u32 count = table.counts[s];
        f32 value = penalise(row, x[j], in_prompt[j] || (count & EditTable::kInPrompt) != 0,
                             in_output[j] + static_cast<i32>(count & (EditTable::kInPrompt - 1))) +
                    table.values[s];
        if ((count & EditTable::kBanned) != 0 || !allowed[j]) value = -infinity();
        table.counts[s] = value != value;  // from here on whether it is NaN
        table.values[s] = fmax(value, -infinity());
      }
    }
    sync_block();
  }
  return table;
}
// Of the tokens that the row's lists name.
struct Listed {
  const SampleParams& p;
  i32 i;
  template <class F>
  QUERN_DEVICE void operator()(F f) const {
    each_edited(p, i, f);
  }
};
QUERN_DEVICE EditTable make_table(const SampleParams& p, const Row& row) {
  return make_table(p, row, Listed{p, row.i});
}

}  // namespace q
