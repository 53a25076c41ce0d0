// What the kernels of MLA decode share: sequences as the arrays on the device tell them, rows and what they see.
//
// The heads of all query tokens of a sequence are rows of one matrix product: row r is query token r / heads, head r %
// heads. With a list of keys every query token stands alone, as a sequence of its own whose keys are those of the list.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/kernel.cuh"
#include "mla_decode/params.cuh"

namespace q {

using Element = ELEMENT;  // f16 or bf16
inline constexpr int kLatent = D_LATENT;
inline constexpr int kRope = D_ROPE;
inline constexpr int kRows = ROWS;       // rows of a tile
inline constexpr int kBlock = BLOCK_KV;  // keys of a block
inline constexpr bool kListed = INDEXED != 0;
inline constexpr bool kSlots = INDEXED == 2;
inline constexpr bool kPaired = PAIRED != 0;  // blocks of threads side by side are a cluster, and share what they copy
QUERN_DEVICE constexpr u32 bits_of_infinity(f16) { return 0x7c00; }
QUERN_DEVICE constexpr u32 bits_of_infinity(bf16) { return 0x7f80; }
inline constexpr f32 kLog2E = 1.44269504088896341f;
inline constexpr f32 kLn2 = 0.69314718055994531f;

// Bits of enum quern_mla_status.
inline constexpr u32 kBadLength = 1, kBadPage = 2, kBadIndex = 4, kBadQueries = 8;
QUERN_DEVICE void tell(const MlaParams& p, u32 bit) {
  if (p.status) atomic_or(p.status, bit);
}

struct Sequence {
  i32 index;    // of the sequence, or of the query token where keys are listed
  i32 q_begin;  // the first query token
  i32 q_len;
  i32 position;  // of the first query token, among the keys
  i32 kv_len;
  i32 groups;  // of side_by_side tiles of rows; 0: nothing to do
  i32 first;   // no query sees a key before it; a multiple of kBlock
  i32 blocks;  // of kBlock keys, at least one: a sequence without keys has its zeros to write
};

QUERN_DEVICE i32 clamped(i32 v, i32 low, i32 high) { return v < low ? low : v < high ? v : high; }

// The keys that sequence `i` has room for.
QUERN_DEVICE i32 room_of(const MlaParams& p, i32 i) {
  i32 pages = p.listed_pages;
  if (p.page_indptr) {
    const i32 begin = p.page_indptr[i], end = p.page_indptr[i + 1];
    pages = begin >= 0 && end <= p.listed_pages && end > begin ? end - begin : 0;
  }
  const i64 keys = static_cast<i64>(pages) * p.page_size;
  return keys < p.max_keys ? static_cast<i32>(keys) : p.max_keys;
}

struct Extent {
  i32 q_begin, q_len, kv_len;
};
// What sequence `i` says of itself, held within what there is.
QUERN_DEVICE Extent extent_of(const MlaParams& p, i32 i) {
  Extent e;
  const i32 begin = p.cu_q ? p.cu_q[i] : i, count = p.cu_q ? p.cu_q[i + 1] - begin : 1;
  e.q_begin = clamped(begin, 0, p.total_q);
  const i32 most = p.total_q - e.q_begin < p.max_q_len ? p.total_q - e.q_begin : p.max_q_len;
  e.q_len = clamped(count, 0, most);
  if (e.q_begin != begin || e.q_len != count) tell(p, kBadQueries);
  e.kv_len = 0;
  if (!kSlots) {
    const i32 length = p.lengths[i];
    e.kv_len = clamped(length, 0, room_of(p, i));
    if (e.kv_len != length) tell(p, kBadLength);
  }
  return e;
}

// The sequence that query token `token` belongs to; -1: none.
QUERN_DEVICE i32 sequence_of(const MlaParams& p, i32 token) {
  if (!p.cu_q) return token < p.batch ? token : -1;
  i32 low = 0, high = p.batch;  // cu_q[low] <= token < cu_q[high], if any
  QUERN_ROLLED while (high - low > 1) {
    const i32 middle = (low + high) >> 1;
    if (p.cu_q[middle] <= token) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return p.batch > 0 && p.cu_q[low] <= token && token < p.cu_q[low + 1] ? low : -1;
}

// Sequences, or query tokens where keys are listed.
QUERN_DEVICE i32 sequence_count(const MlaParams& p) { return kListed ? p.total_q : p.batch; }

QUERN_DEVICE i32 groups_of(const MlaParams& p, i32 q_len) {
  return (div_up(q_len * p.heads, kRows) + p.side_by_side - 1) / p.by_side;
}
// Which of the tiles side by side this block of threads has.
QUERN_DEVICE i32 tile_of_block(const MlaParams& p) {
  return block_index(0) - block_index(0) / p.by_side * p.side_by_side;
}

QUERN_DEVICE Sequence sequence_at(const MlaParams& p, i32 index) {
  Sequence s;
  s.index = index;
  s.first = 0;
  s.kv_len = s.position = 0;
  if (kListed) {
    // The length is looked up when the token is taken in hand: counting needs none.
    s.q_begin = index;
    s.q_len = 1;
    s.blocks = div_up(p.top_k, kBlock);
  } else {
    const Extent e = extent_of(p, index);
    s.q_begin = e.q_begin;
    s.q_len = e.q_len;
    s.kv_len = e.kv_len;
    s.position = e.kv_len - e.q_len;
    const i32 lowest = s.position - p.window_left;
    s.first = (lowest > 0 ? lowest : 0) / kBlock * kBlock;
    s.blocks = div_up(s.kv_len - s.first, kBlock);
  }
  if (s.blocks < 1) s.blocks = 1;
  s.groups = groups_of(p, s.q_len);
  return s;
}

// Where a query token that stands alone finds its keys: its sequence's row of the page table, length and position.
struct Listed {
  i32 sequence;  // -1: the token belongs to none, and is left alone
  i32 kv_len, position;
};
QUERN_DEVICE Listed listed_of(const MlaParams& p, i32 token) {
  if (kSlots) return {0, 0, 0};
  const i32 sequence = sequence_of(p, token);
  if (sequence < 0) return {-1, 0, 0};
  const Extent e = extent_of(p, sequence);
  return {sequence, e.kv_len, e.kv_len - e.q_len + token - e.q_begin};
}

// The keys that a row sees: [first, last), empty when last <= first.
struct Range {
  i32 first, last;
};
QUERN_DEVICE Range visible(const MlaParams& p, const Sequence& s, i32 row) {
  if (kSlots) return {0, kUnbounded};
  const i32 position = s.position + row / p.by_heads;
  const i32 first = position - p.window_left;
  const i32 last = position + p.window_right + 1;  // at most 2^31 - 2
  return {first > 0 ? first : 0, last < s.kv_len ? last : s.kv_len};
}

// NaN among eight elements becomes 0. A key that some rows of a tile see and others do not has a weight of zero in the
// latter, which times NaN is NaN; those that see it have NaN for a weight, since their logit is.
QUERN_DEVICE vec16 without_nan(vec16 v) {
  const u32 largest = bits_of_infinity(Element{});
  QUERN_UNROLL for (int i = 0; i < 4; ++i) {
    const u32 low = v.x[i] & 0x7fffu, high = v.x[i] >> 16 & 0x7fffu;
    v.x[i] &= (low > largest ? 0u : 0xffffu) | (high > largest ? 0u : 0xffff0000u);
  }
  return v;
}

// Whether rows of a tile see different keys: `any` is what some row sees, `all` what all of them see.
QUERN_DEVICE bool differ(const Range& any, const Range& all) { return any.first != all.first || any.last != all.last; }

// What exponents are taken relative to: a row without keys yet must not give inf - inf.
QUERN_DEVICE f32 finite_max(f32 max) { return max == -infinity() ? 0.0f : max; }

// A logit in units of log2 of a product q.k.
QUERN_DEVICE f32 logit(const MlaParams& p, f32 product) {
#if CAP
  // tanh(x) = 1 - 2 / (exp(2x) + 1), right at both ends; near 0, where that loses digits, the first terms of its
  // series.
  const f32 x = product * p.scale * rcp_approx(p.cap), y = x * x;
  const f32 series =
      x * fma(y, fma(y, fma(y, fma(y, 62.0f / 2835.0f, -17.0f / 315.0f), 2.0f / 15.0f), -1.0f / 3.0f), 1.0f);
  const f32 tanh = y < 0.09f ? series : 1.0f - 2.0f * rcp_approx(exp2(x * (2.0f * kLog2E)) + 1.0f);
  return p.cap * kLog2E * tanh;
#else
  return product * p.scale;
#endif
}

// The result of a row: what its sums are multiplied with, and its log-sum-exp.
struct Finished {
  f32 inverse;
  f32 lse;
};
QUERN_DEVICE Finished finish(const MlaParams& p, f32 max, f32 sum, i32 head) {
  f32 rescale = 1.0f, joint = max;
  if (p.sinks) {
    const f32 sink = p.sinks[head] * kLog2E;
    joint = fmax(max, sink);
    rescale = exp2(max - finite_max(joint));
    sum = sum * rescale + exp2(sink - finite_max(joint));
  }
  // A sum that is NaN makes the row NaN.
  if (sum == 0.0f) return {0.0f, -infinity()};
  return {rescale * rcp_approx(sum), (joint + log2(sum)) * kLn2};
}

// Where row `row` of a sequence goes.
struct RowPlace {
  Element* out;
  f32* lse;
  i32 head;
};
QUERN_DEVICE RowPlace place_of(const MlaParams& p, i32 q_begin, i32 row) {
  const i32 within = row / p.by_heads, head = row - within * p.heads;
  const i64 token = q_begin + within;
  RowPlace r;
  r.out = static_cast<Element*>(p.out) + token * p.out_stride_token + head * p.out_stride_head;
  r.lse = p.lse ? p.lse + token * p.lse_stride_token + head * p.lse_stride_head : nullptr;
  r.head = head;
  return r;
}

}  // namespace q
