// Where the keys and values of a sequence lie, and copying tiles of them to shared memory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "attention/kernels/portable/codes.cuh"
#include "attention/kernels/shared/problem.cuh"

namespace q {

inline constexpr int kCopyBytes = COPY_BYTES;  // of queries and results: 16, or 4 where rows are not aligned to 16
inline constexpr int kCacheCopyBytes = CACHE_COPY_BYTES;  // of keys and values likewise
inline constexpr int kCacheBytes = static_cast<int>(sizeof(CacheElement));
// From row to row of keys and values as they are copied.
inline constexpr int kCachedPitchK = cached_row_bytes(kDimK, kCacheBytes) / kCacheBytes;
inline constexpr int kCachedPitchV = cached_row_bytes(kDimV, kCacheBytes) / kCacheBytes;

// One KV head of one sequence: its row of the page table, or its first token in a ragged cache.
struct Cache {
  const u8* k;
  const u8* v;
  const i32* pages;
};
QUERN_DEVICE Cache cache_of(const AttentionParams& p, i32 sequence, i32 head) {
  Cache c;
  c.k = static_cast<const u8*>(p.keys) + head * p.k_stride_head;
  c.v = static_cast<const u8*>(p.values) + head * p.v_stride_head;
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

// How a tile of rows of T is shared out for copying: thread `thread` of kThreadCount copies one chunk of kChunkBytes in
// each of kSteps steps. Where the chunks of a row divide the threads (kEven), its chunk is always in the same column,
// and its rows are `row + step * kRowsAtOnce` with `row` its own.
template <class T, int kRowCount, int kDim, int kThreadCount, int kChunkBytes>
struct TileCopy {
  static constexpr int kChunkElements = kChunkBytes / static_cast<int>(sizeof(T));
  static constexpr int kChunks = kDim / kChunkElements;
  static constexpr int kSteps = div_up(kRowCount * kChunks, kThreadCount);
  static constexpr bool kEven = kThreadCount % kChunks == 0;
  static constexpr int kRowsAtOnce = kEven ? kThreadCount / kChunks : 1;

  int thread, row, column;

  QUERN_DEVICE explicit TileCopy(int index) : thread(index), row(index / kChunks), column(index % kChunks) {}

  // The row and column of a step, in chunks; the row of `own` alone is the same in all steps when kEven.
  QUERN_DEVICE int row_at(int step) const {
    return kEven ? row + step * kRowsAtOnce : (step * kThreadCount + thread) / kChunks;
  }
  QUERN_DEVICE int column_at(int step) const { return kEven ? column : (step * kThreadCount + thread) % kChunks; }
  QUERN_DEVICE bool inside(int step) const {
    return kRowCount * kChunks % kThreadCount == 0 || row_at(step) < kRowCount;
  }

  // Where the thread's chunk of step 0 goes in a tile at `to`. From there the chunks of other steps are, when kEven, a
  // known way off: one address for all of them.
  QUERN_DEVICE T* own(T* to, int pitch) const { return to + (row * pitch + column * kChunkElements); }

  // Copies the step's chunk to the tile that `own` was asked for, `source` being where its row begins; zeros where
  // `take` is false.
  QUERN_DEVICE void copy(T* own, int pitch, int step, const u8* source, bool take) const {
    T* target = own + (kEven ? step * kRowsAtOnce * pitch
                             : (row_at(step) - row) * pitch + (column_at(step) - column) * kChunkElements);
    source += column_at(step) * kChunkBytes;
    if (kChunkBytes == 16) {
      copy_async_16(target, source, take);
    } else {
      copy_async_4(target, source, take);
    }
  }
};

// The tile's queries, zero beyond the last row and beyond kDimK. Completes with the caller's next group of copies, and
// a barrier.
template <int kThreads>
QUERN_DEVICE void copy_queries(const AttentionParams& p, const Sequence& s, i32 head, i32 tile, Element* to) {
  if (kStepsK * 16 != kDimK) {
    constexpr int kRest = kStepsK * 16 != kDimK ? (kStepsK * 16 - kDimK) / 2 : 1;
    QUERN_ROLLED for (int i = thread_index(); i < kRows * kRest; i += kThreads) {
      *reinterpret_cast<u32*>(to + i / kRest * kPitchK + kDimK + i % kRest * 2) = 0;
    }
  }
  const QueryElement* queries =
      static_cast<const QueryElement*>(p.queries) + s.q_begin * p.q_stride_token + head * kGroup * p.q_stride_head;
  const i32 rows = s.q_len * kGroup - tile * kRows;
  const auto row_of_tile = [&](int row) {
    const i32 r = tile * kRows + row;
    return queries + r / kGroup * p.q_stride_token + r % kGroup * p.q_stride_head;
  };
  if constexpr (kCodedQueries) {
    QUERN_ROLLED for (int i = thread_index(); i < kRows * (kDimK / 8); i += kThreads) {
      const int row = i / (kDimK / 8), column = i % (kDimK / 8) * 8;
      Codes codes = {};
      if (row < rows) codes = load_codes(row_of_tile(row) + column);
      store16(to + row * kPitchK + column, widen_codes<QueryElement>(codes));
    }
  } else {
    const TileCopy<Element, kRows, kDimK, kThreads, kCopyBytes> tile_copy(thread_index());
    Element* own = tile_copy.own(to, kPitchK);
    QUERN_ROLLED for (int step = 0; step < tile_copy.kSteps; ++step) {
      if (!tile_copy.inside(step)) continue;
      const int row = tile_copy.row_at(step);
      const Element* source = reinterpret_cast<const Element*>(row_of_tile(row));
      tile_copy.copy(own, kPitchK, step, reinterpret_cast<const u8*>(source), row < rows);
    }
  }
}

// Whether key `key + row` is among `keys`.
QUERN_DEVICE bool takes(const Range& keys, i32 key, int row) {
  return static_cast<u32>(key + row - keys.first) <
         static_cast<u32>(keys.last > keys.first ? keys.last - keys.first : 0);
}

}  // namespace q
