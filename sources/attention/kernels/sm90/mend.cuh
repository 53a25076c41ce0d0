// Rows that values of no concern of theirs have spoilt: a value that is not finite makes NaN of a weight of zero, in
// every row that shares a block of keys with one that sees it. Such rows are seldom, and are computed again by a warp
// each.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "attention/kernels/shared/widen.cuh"
#include "attention/kernels/sm90/softmax.cuh"
#include "common/reduce.cuh"

namespace q {

// Whether the thread's part of one of its rows is not finite.
template <int count>
QUERN_DEVICE bool is_spoilt(const f32 (&o)[count], int half) {
  f32 zero = 0.0f;
  QUERN_UNROLL for (int i = 2 * half; i < count; i += 4) zero = fma(o[i], 0.0f, fma(o[i + 1], 0.0f, zero));
  return zero != 0.0f;
}

// Two neighbours, of 16 bits or of 8.
template <class T>
QUERN_DEVICE f32x2 load_two(const void* from) {
  if constexpr (kWidened) {
    return unpack<Element>(widen_two_codes<T>(*static_cast<const u16*>(from)));
  } else if constexpr (sizeof(T) == 1) {
    return unpack_fp8<T>(*static_cast<const u16*>(from));
  } else {
    return unpack<T>(*static_cast<const u32*>(from));
  }
}

// The product of a word of queries and one of keys, added to `sum`.
QUERN_DEVICE f32 add_product(u32 query, u32 key, f32 sum) {
  if constexpr (kEights) {
    QUERN_UNROLL for (int half = 0; half < 2; ++half) {
      const f32x2 a = unpack_fp8<QueryElement>(static_cast<u16>(query >> 16 * half));
      const f32x2 b = unpack_fp8<CacheElement>(static_cast<u16>(key >> 16 * half));
      sum = fma(a.x, b.x, fma(a.y, b.y, sum));
    }
    return sum;
  } else {
    const f32x2 a = unpack<QueryElement>(query), b = unpack<Multiplied>(key);
    return fma(a.x, b.x, fma(a.y, b.y, sum));
  }
}

// The scale of a token of a page.
QUERN_DEVICE f32 token_scale(const f32* scales, u32 page, i64 page_stride, u32 token, i64 token_stride, i32 head,
                             i64 head_stride) {
  return scales[static_cast<i64>(page) * page_stride + static_cast<i64>(token) * token_stride + head * head_stride];
}

// The product of a row of queries and one of keys.
QUERN_DEVICE f32 row_product(const u8* query, const u8* key) {
  f32 product = 0.0f;
  QUERN_FOUR_AT_ONCE for (int byte = 0; byte < kDimK * kOperandBytes; byte += 16) {
    const vec16 a = load16(query + byte);
    vec16 b;
    if constexpr (kWidened) {
      const void* const codes = key + byte / 2;
      b = widen_codes<CacheElement>(*static_cast<const Codes*>(codes));
    } else {
      b = load16(key + byte);
    }
    QUERN_UNROLL for (int w = 0; w < 4; ++w) product = add_product(a.x[w], b.x[w], product);
  }
  return product;
}

// One row by a warp: a lane has the scores of every 32nd key, and of the sums two columns of every 64. A row that sees
// a value which is not finite is NaN. It replaces what stands in `out`, or where that is not null in the slot: kColumns
// columns from first_column on.
template <int kColumns = kDimV>
QUERN_DEVICE void mend_row(const AttentionParams& p, const Sequence& s, const Piece& piece, i32 row, f32* slot,
                           i32 first_column = 0) {
  const Range seen = visible(p, s, row);
  const i32 begin = s.first + piece.begin * kBlock, end = s.first + piece.end * kBlock;
  const i32 first = seen.first > begin ? seen.first : begin, last = seen.last < end ? seen.last : end;
  const i32 q_head = piece.head * kGroup + row % kGroup, own = lane() * 2;
  constexpr int kPartsV = div_up(kColumns, 64);
  const f32 scale = kScaledKeys ? row_factor(p, s, piece.head, row) : p.scale;
  const u8* const query =
      static_cast<const u8*>(p.queries) + ((s.q_begin + row / kGroup) * p.q_stride_token + q_head * p.q_stride_head) *
                                              static_cast<i64>(sizeof(QueryElement));
  const u8* const keys = static_cast<const u8*>(p.keys) + piece.head * p.k_stride_head;
  const u8* const values = static_cast<const u8*>(p.values) + piece.head * p.v_stride_head + first_column * kCacheBytes;
#if PAGED
  const i64 table = p.page_indptr ? static_cast<i64>(p.page_indptr[s.index]) : s.index * p.pages_stride;
  const i32* const pages = p.pages + table;
#endif
#if ALIBI
  const f32 slope = p.alibi_slopes[q_head] * kLog2E;
#else
  const f32 slope = 0.0f;
#endif
  f32 max = -infinity(), sum = 0.0f, o[kPartsV][2] = {};
  bool bad = false;
  const CustomMask mask = custom_mask(p, s);
  QUERN_ROLLED for (i32 at = first; at < last && !bad; at += kWarp) {
    const i32 j = at + lane();
    const bool taken = j < last && (!kCustomMask || sees(p, s, mask, row, j));
    u32 page = 0, token = 0;
    f32 score = -infinity(), value_scale = 1.0f;
    if (taken) {
#if PAGED
      page = static_cast<u32>(pages[static_cast<u32>(j) / static_cast<u32>(PAGE_SIZE)]);
      token = static_cast<u32>(j) % static_cast<u32>(PAGE_SIZE);
#else
      token = static_cast<u32>(p.cu_kv[s.index] + j);
#endif
      const u8* const key =
          keys + (static_cast<u64>(page) * p.k_page_bytes + static_cast<u64>(token) * p.k_token_bytes);
      f32 product = row_product(query, key);
      if constexpr (kTokenScales) {
        product *= token_scale(p.k_scale, page, p.k_scale_stride_page, token, p.k_scale_stride_token, piece.head,
                               p.k_scale_stride_head);
        value_scale = token_scale(p.v_scale, page, p.v_scale_stride_page, token, p.v_scale_stride_token, piece.head,
                                  p.v_scale_stride_head);
      }
      const i32 distance = j - (s.kv_len - s.q_len + row / kGroup);
      score = logit(p, scale, product, slope, distance) * (kPlainScale ? scale : 1.0f);
    }
    const f32 grown = fmax(max, warp_max(score)), base = finite_max(grown);
    const f32 before = exp2(max - base), weight = exp2(score - base);
    max = grown;
    sum = fma(sum, before, warp_sum(weight));
    f32 zero = sum * 0.0f;
    QUERN_UNROLL for (int i = 0; i < kPartsV; ++i) o[i][0] *= before, o[i][1] *= before;
    const u64 all = ballot(taken);
    QUERN_FOUR_AT_ONCE for (int k = 0; k < kWarp; ++k) {
      const f32 of_key = shuffle(weight, k), scale_of_key = kTokenScales ? shuffle(value_scale, k) : 1.0f;
      const u64 offset =
          static_cast<u64>(shuffle(page, k)) * p.v_page_bytes + static_cast<u64>(shuffle(token, k)) * p.v_token_bytes;
      const bool counts = (all >> k & 1) != 0;  // of a key that this row does not take, the pool's first
      const u8* const value = values + offset;
      QUERN_UNROLL for (int i = 0; i < kPartsV; ++i) {
        if (own + 64 * i >= kColumns || first_column + own + 64 * i >= kDimV) continue;
        f32x2 v = load_two<CacheElement>(value + (own + 64 * i) * kCacheBytes);
        if constexpr (kTokenScales) v.x *= scale_of_key, v.y *= scale_of_key;
        if (!counts) v = {0.0f, 0.0f};
        o[i][0] = fma(of_key, v.x, o[i][0]), o[i][1] = fma(of_key, v.y, o[i][1]);
        zero = fma(v.x, 0.0f, fma(v.y, 0.0f, zero));
      }
      if (kColumns < kDimV && counts) {  // the other columns, which other warpgroups mend
        QUERN_ROLLED for (i32 column = own; column < kDimV; column += 64) {
          const f32x2 v = load_two<CacheElement>(value + (column - first_column) * kCacheBytes);
          zero = fma(v.x, 0.0f, fma(v.y, 0.0f, zero));
        }
      }
    }
    bad = ballot(zero != 0.0f) != 0;
  }
  if (bad) sum = nan();
  const RowPlace place = place_of(p, s, piece.head, row);
  const Finished done = finish(p, max, sum, q_head);
  const i32 in_tile = row - piece.tile * kRows;
  QUERN_UNROLL for (int i = 0; i < kPartsV; ++i) {
    const i32 column = first_column + own + 64 * i;
    if (own + 64 * i >= kColumns || column >= kDimV) continue;
    if (slot) {
      *reinterpret_cast<f32x2*>(slot + in_tile * kSlotPitch + column) = f32x2{o[i][0], o[i][1]};
    } else {
      const f32 inverse = bad ? nan() : done.inverse;
      *reinterpret_cast<u32*>(place.out + column) = pack<Element>(o[i][0] * inverse, o[i][1] * inverse);
    }
  }
  if (lane() != 0 || first_column != 0) return;
  if (slot) {
    slot[p.slot_rows * kSlotPitch + in_tile] = max;
    slot[p.slot_rows * (kSlotPitch + 1) + in_tile] = sum;
  } else if (place.lse) {
    *place.lse = done.lse;
  }
}

// Those of a warp's rows of which a thread says that they are spoilt, once all rows have been written.
template <int kColumns = kDimV>
QUERN_DEVICE void mend_spoilt(const AttentionParams& p, const Sequence& s, const Piece& piece, const Rows& rows,
                              const bool (&own)[2], f32* slot, i32 first_column = 0) {
  u64 spoilt[2];
  QUERN_UNROLL for (int h = 0; h < 2; ++h) spoilt[h] = ballot(own[h] && rows.first + 8 * h < s.q_len * kGroup);
  if ((spoilt[0] | spoilt[1]) == 0) return;
  sync_warp();
  const i32 first = shuffle(rows.first, 0);
  QUERN_ROLLED for (int r = 0; r < 16; ++r) {
    if (((r < 8 ? spoilt[0] : spoilt[1]) >> r % 8 * 4 & 15) == 0) continue;
    mend_row<kColumns>(p, s, piece, first + r, slot, first_column);
  }
}

}  // namespace q
