// What the kernels of index_scores share: sequences as the arrays on the device tell them, and the items that blocks of
// threads take, a few queries of a sequence against a chunk of its keys each.
//
// Tiles of T queries are numbered without anybody counting them. Where no sequence has more than T each is a tile. Else
// those of sequence s begin at slot (cu_q[s] + s (T - 1)) / T: that leaves a slot empty here and there, and puts no two
// tiles in one, since from one sequence to the next the slots are at least (n + T - 1) / T more.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/kernel.cuh"
#include "index_scores/params.cuh"

namespace q {

inline constexpr bool kRagged = RAGGED != 0;

// Bits of enum quern_mla_status.
inline constexpr u32 kBadLength = 1, kBadPage = 2, kBadQueries = 8;
QUERN_DEVICE void tell(const IndexParams& p, u32 bit) {
  if (p.status) atomic_or(p.status, bit);
}

QUERN_DEVICE i32 clamped(i32 v, i32 low, i32 high) { return v < low ? low : v < high ? v : high; }

// A tile of queries, and a chunk of the keys.
struct Work {
  i32 first, count;  // queries: rows of q
  i32 limit;         // keys that the first of them sees; each further one `step` more
  i32 step;
  i32 from, to;  // columns of out
  i64 begin;     // of the sequence's entries among p.pages; ragged: of its rows of k
  QUERN_DEVICE i32 limit_of(i32 query) const { return limit + query * step; }
  // Keys that any of them sees.
  QUERN_DEVICE i32 most() const { return limit_of(count - 1); }
};

// Keys that sequence s has room for.
QUERN_DEVICE i32 room_of(const IndexParams& p, i32 s, i64* begin) {
  i64 keys = 0;
  if (kRagged) {
    const i32 first = p.cu_kv[s], end = p.cu_kv[s + 1];
    *begin = first;
    keys = first >= 0 && end <= p.pool_pages && end > first ? end - first : 0;
  } else if (p.page_indptr) {
    const i32 first = p.page_indptr[s], end = p.page_indptr[s + 1];
    *begin = first;
    keys = first >= 0 && end <= p.listed_pages && end > first ? static_cast<i64>(end - first) * p.page_size.value : 0;
  } else {
    *begin = s * p.pages_stride;
    keys = static_cast<i64>(p.listed_pages) * p.page_size.value;
  }
  return keys < p.columns ? static_cast<i32>(keys) : p.columns;
}

// Where the tiles of sequence s begin.
template <i32 tokens>
QUERN_DEVICE i32 first_slot(const IndexParams& p, i32 s) {
  return (p.cu_q[s] + s * (tokens - 1)) / tokens;
}

// False: the slot is empty.
template <i32 tokens>
QUERN_DEVICE bool work_at(const IndexParams& p, i32 item, Work& work) {
  const i32 chunk = item / p.slots, slot = item - chunk * p.slots.value;
  i32 s = slot, q_begin = slot, q_len = 1, within = 0;
  if (p.cu_q) {
    if (p.max_q_len > tokens) {
      i32 low = 0, high = p.batch;  // begins at or before, begins after
      QUERN_ROLLED while (high - low > 1) {
        const i32 middle = (low + high) >> 1;
        if (first_slot<tokens>(p, middle) <= slot) {
          low = middle;
        } else {
          high = middle;
        }
      }
      s = low;
      within = (slot - first_slot<tokens>(p, s)) * tokens;
    }
    const i32 begin = p.cu_q[s], count = p.cu_q[s + 1] - begin;
    q_begin = clamped(begin, 0, p.total_q);
    const i32 rest = p.total_q - q_begin;
    q_len = clamped(count, 0, rest < p.max_q_len ? rest : p.max_q_len);
    if (q_begin != begin || q_len != count) tell(p, kBadQueries);
  }
  if (within < 0 || within >= q_len) return false;
  const i32 room = room_of(p, s, &work.begin), length = p.lengths[s], keys = clamped(length, 0, room);
  if (keys != length) tell(p, kBadLength);
  work.first = q_begin + within;
  work.count = q_len - within < tokens ? q_len - within : tokens;
  work.step = p.causal ? 1 : 0;
  work.limit = p.causal ? keys - q_len + within + 1 : keys;
  work.from = chunk * p.chunk;
  work.to = p.columns - work.from < p.chunk ? p.columns : work.from + p.chunk;
  return true;
}

// Where key `key` of the work's sequence lies: its page and place there, ragged 0 and its row.
struct KeyPlace {
  i32 page, place;
  bool there;
};
QUERN_DEVICE KeyPlace place_of_key(const IndexParams& p, const Work& work, i32 key) {
  if (kRagged) return {0, static_cast<i32>(work.begin) + key, true};
  const i32 at = key / p.page_size, page = p.pages[work.begin + at];
  const bool there = static_cast<u32>(page) < static_cast<u32>(p.pool_pages);
  if (!there) tell(p, kBadPage);
  return {there ? page : 0, key - at * p.page_size.value, there};
}
QUERN_DEVICE f32 scale_of_key(const IndexParams& p, const KeyPlace& at) {
  return p.k_scale ? p.k_scale[at.page * p.k_scale_page + at.place * p.k_scale_place] : 1.0f;
}

// What a head's score of a query counts.
QUERN_DEVICE f32 weight_of(const IndexParams& p, i64 token, i32 head) {
  const f32 weight = p.weights[token * p.weights_token + head * p.weights_head];
  return p.q_scale ? weight * p.q_scale[token * p.q_scale_token + head * p.q_scale_head] : weight;
}

// Fills the columns from `from` on of the work's queries; `thread` of `threads` takes its share.
QUERN_DEVICE void fill_masked(const IndexParams& p, const Work& work, i32 from, i32 thread, i32 threads) {
  if (p.leave_masked) return;
  QUERN_ROLLED for (i32 t = 0; t < work.count; ++t) {
    f32* out = p.out + (work.first + t) * p.out_token;
    QUERN_FOUR_AT_ONCE for (i32 c = from + thread; c < work.to; c += threads) out[c] = -infinity();
  }
}

}  // namespace q
