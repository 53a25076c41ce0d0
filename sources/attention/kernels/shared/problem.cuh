// The compile-time shape of an attention kernel, and the sequence, row and mask arithmetic that all of its variants
// share.
//
// The query heads of one KV head are packed into the rows of a tile: row r of a sequence's (KV head's) rows is query
// r / GROUP, head r % GROUP of the group.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "attention/params.cuh"
#include "common/kernel.cuh"

namespace q {

using Element = ELEMENT;                                          // f16 or bf16: what is multiplied
using CacheElement = CACHE_ELEMENT;                               // Element, e4m3, e5m2 or i8
using QueryElement = Q_ELEMENT;                                   // Element, e4m3 or e5m2
using OutElement = OUT_ELEMENT;                                   // Element, or with scales e4m3 or e5m2
inline constexpr bool kCoded = sizeof(CacheElement) == 1;         // keys and values have scales, and are widened
inline constexpr bool kCodedQueries = sizeof(QueryElement) == 1;  // queries have, and are
inline constexpr bool kCodedResults = sizeof(OutElement) == 1;    // and results have
inline constexpr bool kTokenScales = TOKEN_SCALES != 0;           // keys and values have a scale a token
inline constexpr bool kCustomMask = CUSTOM_MASK != 0;
inline constexpr int kDimK = HEAD_DIM_K;
inline constexpr int kDimV = HEAD_DIM_V;
inline constexpr int kGroup = GROUP;
inline constexpr int kBlock = BLOCK_KV;  // keys that a block of threads takes at once
inline constexpr int kRows = ROWS;       // rows of a tile
inline constexpr int kStepsK = div_up(kDimK, 16);
inline constexpr int kTilesV = div_up(kDimV, 16);
inline constexpr int kPitchK = shared_pitch(kDimK);
inline constexpr int kPitchV = shared_pitch(kDimV);
inline constexpr f32 kLog2E = 1.44269504088896341f;
inline constexpr f32 kLn2 = 0.69314718055994531f;

// One sequence, as the arrays on the device tell it.
struct Sequence {
  i32 index;
  i32 q_begin, q_len;
  i32 kv_len;
  i32 tiles;   // tiles of kRows rows for each KV head
  i32 first;   // no query sees a key before it; a multiple of kBlock
  i32 blocks;  // of kBlock keys, at least one: an empty sequence has its zeros to write
};

QUERN_DEVICE Sequence sequence_at(const AttentionParams& p, i32 index) {
  Sequence s;
  s.index = index;
  s.q_begin = p.cu_q ? p.cu_q[index] : index;
  s.q_len = p.cu_q ? p.cu_q[index + 1] - s.q_begin : 1;
  s.kv_len = p.lengths[index];
  s.tiles = div_up(s.q_len * kGroup, kRows);
  const i32 lowest = s.kv_len - s.q_len - p.window_left;
  s.first = (lowest > 0 ? lowest : 0) / kBlock * kBlock;
  const i32 blocks = div_up(s.kv_len - s.first, kBlock);
  s.blocks = blocks > 0 ? blocks : 1;
  return s;
}

// The keys that a row sees: [first, last), empty when last <= first.
struct Range {
  i32 first, last;
};
QUERN_DEVICE Range visible(const AttentionParams& p, const Sequence& s, i32 row) {
  const i32 position = s.kv_len - s.q_len + row / kGroup;
  const i32 first = position - p.window_left;
  const i32 last = position + p.window_right + 1;  // at most 2^31 - 2
  return {first > 0 ? first : 0, last < s.kv_len ? last : s.kv_len};
}

// What all rows of a tile see together, and what each of them sees.
struct TileRange {
  Range any, all;
};
QUERN_DEVICE TileRange tile_range(const AttentionParams& p, const Sequence& s, i32 first_row, i32 rows) {
  const i32 count = s.q_len * kGroup;
  const i32 last_row = (first_row + rows < count ? first_row + rows : count) - 1;
  const Range a = visible(p, s, first_row), b = visible(p, s, last_row > first_row ? last_row : first_row);
  return {{a.first, b.last}, {b.first, a.last}};
}

// What exponents are taken relative to: a row without keys yet must not give inf - inf.
QUERN_DEVICE f32 finite_max(f32 max) { return max == -infinity() ? 0.0f : max; }

// The scale of the values where it is the same for all tokens; of query head `head`.
QUERN_DEVICE f32 value_scale(const AttentionParams& p, i32 head) {
  if (!kCoded || kTokenScales || !p.v_scale) return 1.0f;
  return p.v_scale[head / kGroup * p.v_scale_stride_head];
}

// The result of a row: what `out` is multiplied with, and its log-sum-exp.
struct Finished {
  f32 inverse;
  f32 lse;
};
QUERN_DEVICE Finished finish(const AttentionParams& p, f32 max, f32 sum, i32 head) {
#if SINKS
  const f32 sink = p.sinks[head] * kLog2E;
  const f32 joint = fmax(max, sink);
  const f32 rescale = exp2(max - finite_max(joint));
  sum = sum * rescale + exp2(sink - finite_max(joint));
  // A sum that is NaN makes the row NaN.
  if (sum == 0.0f) return {0.0f, -infinity()};
  return {rescale * rcp_approx(sum) * value_scale(p, head), (joint + log2(sum)) * kLn2};
#else
  if (sum == 0.0f) return {0.0f, -infinity()};
  return {rcp_approx(sum) * value_scale(p, head), (max + log2(sum)) * kLn2};
#endif
}

}  // namespace q
