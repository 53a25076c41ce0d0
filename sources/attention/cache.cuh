// Where the keys and values of a sequence lie, and copying tiles of them to shared memory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "attention/problem.cuh"

namespace q {

inline constexpr int kCopyBytes = COPY_BYTES;  // 16, or 4 where rows are not aligned to 16
inline constexpr int kElementBytes = 2;

// One KV head of one sequence: its row of the page table, or its first token in a ragged cache.
struct Cache {
  const u8* k;
  const u8* v;
  const i32* pages;
};
QUERN_DEVICE Cache cache_of(const AttentionParams& p, i32 sequence, i32 head) {
  Cache c;
  c.k = reinterpret_cast<const u8*>(static_cast<const Element*>(p.keys) + head * p.k_stride_head);
  c.v = reinterpret_cast<const u8*>(static_cast<const Element*>(p.values) + head * p.v_stride_head);
#if PAGED
  c.pages = p.pages + (p.page_indptr ? static_cast<i64>(p.page_indptr[sequence]) : sequence * p.pages_stride);
#else
  c.pages = nullptr;
  const u64 token = static_cast<u32>(p.cu_kv[sequence]);
  c.k += token * p.k_token_bytes;
  c.v += token * p.v_token_bytes;
#endif
  return c;
}

// The entry of Cache::pages that key `j` needs, and the key's place in that page. PAGE_SIZE 0: known at run time only;
// otherwise a power of two.
QUERN_DEVICE u32 page_size(const AttentionParams& p) { return PAGE_SIZE ? PAGE_SIZE : static_cast<u32>(p.page_size); }
QUERN_DEVICE u32 page_of(const AttentionParams& p, i32 j) { return static_cast<u32>(j) / page_size(p); }
QUERN_DEVICE u32 slot_of(const AttentionParams& p, i32 j) { return static_cast<u32>(j) % page_size(p); }

QUERN_DEVICE const u8* row_at(const u8* base, u32 page, u32 page_bytes, u32 slot, u32 token_bytes) {
  return base + static_cast<u64>(page) * page_bytes + static_cast<u64>(slot) * token_bytes;
}

// Copies kRowCount rows of kRowBytes, `thread` being one of kThreadCount. Row r comes from at(r, step), `step` being the part
// of r that is the same in all threads and known at compile time, or 0. Rows outside [first, last) become zeros.
template <int kRowCount, int kRowBytes, int kThreadCount, class At>
QUERN_DEVICE void copy_tile(Element* to, int pitch, int thread, i32 first, i32 last, const At& at) {
  constexpr int kChunks = kRowBytes / kCopyBytes;
  constexpr bool kEven = kThreadCount % kChunks == 0;
  constexpr int kRowsAtOnce = kEven ? kThreadCount / kChunks : 1;
  const auto each = [&](auto all) {
    QUERN_UNROLL for (int i = 0; i < div_up(kRowCount * kChunks, kThreadCount); ++i) {
      const int index = i * kThreadCount + thread;
      const int step = kEven ? i * kRowsAtOnce : 0;
      const int row = kEven ? step + thread / kChunks : index / kChunks;
      const int column = (kEven ? thread : index) % kChunks;
      const bool inside = kRowCount * kChunks % kThreadCount == 0 || row < kRowCount;
      const u8* source = at(inside ? row : 0, step) + column * kCopyBytes;
      if (!inside) continue;
      const bool take = all.value || (row >= first && row < last);
      Element* target = to + row * pitch + column * (kCopyBytes / kElementBytes);
      if (kCopyBytes == 16) {
        copy_async_16(target, source, take);
      } else {
        copy_async_4(target, source, take);
      }
    }
  };
  if (first <= 0 && last >= kRowCount) {
    each(Constant<true>{});
  } else {
    each(Constant<false>{});
  }
}

// The tile's queries, zero beyond the last row and beyond kDimK. Completes with the caller's next group of copies.
template <int kThreads>
QUERN_DEVICE void copy_queries(const AttentionParams& p, const Sequence& s, i32 head, i32 tile, Element* to) {
  if (kStepsK * 16 != kDimK) {
    constexpr int kRest = kStepsK * 16 != kDimK ? (kStepsK * 16 - kDimK) / 2 : 1;
    for (int i = thread_index(); i < kRows * kRest; i += kThreads) {
      *reinterpret_cast<u32*>(to + i / kRest * kPitchK + kDimK + i % kRest * 2) = 0;
    }
  }
  const Element* queries = static_cast<const Element*>(p.queries) + s.q_begin * p.q_stride_token + head * kGroup * p.q_stride_head;
  const i32 rows = s.q_len * kGroup - tile * kRows;
  copy_tile<kRows, kDimK * kElementBytes, kThreads>(to, kPitchK, thread_index(), 0, rows, [&](int row, int) {
    const i32 r = tile * kRows + row;
    return reinterpret_cast<const u8*>(queries + r / kGroup * p.q_stride_token + r % kGroup * p.q_stride_head);
  });
}

}  // namespace q
