// The k largest of each row: the place in the row's order down to which they lie is found first; then each warp knows
// how many of them come before its own.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "top_k/kernels/few.cuh"
#include "top_k/kernels/sort.cuh"
#include "top_k/params.cuh"

namespace q {

// A bit for each element that a block holds.
inline constexpr int kWordsEach = div_up(kHeld ? kEach : 1, 32), kChosenWords = kThreads * kWordsEach;

struct TopKRoom {
  SelectRoom select;
  u64* list;       // [kMostTopK]
  u32* of_warps;   // [kWarps]
  u32* chosen;     // [kChosenWords]
  u32* before;     // [kChosenWords]: how many come before each word
  u32* of_blocks;  // [kMostRowBlocks]
  u64* bounds;     // [kMostRowBlocks]
  u64* scratch;    // [kWarps]
};

QUERN_DEVICE void put(const TopKParams& p, i64 row, i32 at, i32 id, f32 value) {
  p.ids[row * p.ids_stride + at] = id;
  if (!p.values) return;
  if (p.narrow_values) {
    static_cast<Element*>(p.values)[row * p.values_stride + at] = from_f32<Element>(value);
  } else {
    static_cast<f32*>(p.values)[row * p.values_stride + at] = value;
  }
}

// Which of a word's bits is the one with so many set ones below it.
QUERN_DEVICE u32 bit_at_rank(u32 bits, u32 rank) {
  u32 bit = 0;
  QUERN_UNROLL for (u32 width = 16; width > 0; width /= 2) {
    const u32 below = popcount((bits >> bit) & ((1u << width) - 1));
    if (rank >= below) rank -= below, bit += width;
  }
  return bit;
}

struct Chosen {
  u32 key, complement;  // of the last one's place

  QUERN_DEVICE bool has(u32 k, i32 index) const {
    return k > key || (k == key && ~static_cast<u32>(index) >= complement);
  }
};

// f(how many come before it by index, key, index) for each element that lies at or above a place. Where rows are held,
// a bit is set for each first: they are few, and so found without looking at the others again. `few`: these are all
// that may be chosen; null: they are not known.
template <class F>
QUERN_DEVICE void each_chosen_held(const TopKRoom& room, const Keys& keys, const ListedKeys* few, const Chosen& chosen,
                                   F f) {
  QUERN_ROLLED for (int i = thread_index(); i < kChosenWords; i += kThreads) room.chosen[i] = 0;
  sync_block();
  const Slice& s = keys.s;
  const i32 first = keys.first_index();
  if (few) {
    QUERN_ROLLED for (i32 i = thread_index(); i < few->count; i += kThreads) {
      const i32 index = index_of_place(few->places[i]), place = index - first;
      if (chosen.has(static_cast<u32>(few->places[i] >> 32), index))
        atomic_or(room.chosen + (place >> 5), 1u << (place & 31));
    }
  } else {
    keys.each([&](i32 tile, const u32(&k)[kGroup]) {
      QUERN_UNROLL for (int j = 0; j < kGroupTiles; ++j) {
        u32 bits = 0;
        QUERN_UNROLL for (int e = 0; e < kVector; ++e) {
          bits |= static_cast<u32>(chosen.has(k[j * kVector + e], keys.index_of(tile, j * kVector + e))) << e;
        }
        const i32 place = s.place(tile + j) - s.shift - first;
        if (bits != 0) atomic_or(room.chosen + (place >> 5), bits << (place & 31));
      }
    });
  }
  sync_block();
  u32 own = 0, of_block;
  QUERN_UNROLL for (int w = 0; w < kWordsEach; ++w) own += popcount(room.chosen[thread_index() * kWordsEach + w]);
  u32 before = block_scan<kThreads>(own, room.of_warps, &of_block);
  if (thread_index() < row_blocks()) tell(room.of_blocks + row_block(), thread_index(), of_block);
  QUERN_UNROLL for (int w = 0; w < kWordsEach; ++w) {
    const int word = thread_index() * kWordsEach + w;
    room.before[word] = before;
    before += popcount(room.chosen[word]);
  }
  sync_row();
  u32 of_others = 0;
  QUERN_ROLLED for (i32 b = 0; b < row_block(); ++b) of_others += room.of_blocks[b];
  // However they lie, each thread takes as many.
  QUERN_ROLLED for (u32 at = static_cast<u32>(thread_index()); at < of_block; at += kThreads) {
    int word = 0;
    QUERN_UNROLL for (int step = kChosenWords / 2; step > 0; step /= 2) {
      if (room.before[word + step] <= at) word += step;
    }
    const i32 place = word * 32 + static_cast<i32>(bit_at_rank(room.chosen[word], at - room.before[word]));
    f(of_others + at, keys.kept_at(place), first + place);
  }
}

// The same of a row that is read each time: each warp counts its own, and then knows where they go.
template <class F>
QUERN_DEVICE void each_chosen_streamed(const TopKRoom& room, const Keys& keys, const Chosen& chosen, F f) {
  u32 own = 0;
  keys.each([&](i32 tile, const u32(&k)[kGroup]) {
    QUERN_UNROLL for (int i = 0; i < kGroup; ++i) own += chosen.has(k[i], keys.index_of(tile, i));
  });
  const u32 of_warp = warp_sum(own);
  if (lane() == 0) room.of_warps[warp()] = of_warp;
  sync_block();
  u32 before = 0, of_block = 0;
  QUERN_ROLLED for (int w = 0; w < kWarps; ++w) {
    if (w < warp()) before += room.of_warps[w];
    of_block += room.of_warps[w];
  }
  if (thread_index() < row_blocks()) tell(room.of_blocks + row_block(), thread_index(), of_block);
  sync_row();
  QUERN_ROLLED for (i32 b = 0; b < row_block(); ++b) before += room.of_blocks[b];
  const u64 below = (u64{1} << lane()) - 1;
  keys.each([&](i32 tile, const u32(&k)[kGroup]) {
    QUERN_UNROLL for (int j = 0; j < kGroupTiles; ++j) {
      bool in[kVector];
      bool any = false;
      QUERN_UNROLL for (int e = 0; e < kVector; ++e) {
        in[e] = chosen.has(k[j * kVector + e], keys.index_of(tile, j * kVector + e));
        any |= in[e];
      }
      if (ballot(any) == 0) continue;
      u32 at = before;
      QUERN_UNROLL for (int e = 0; e < kVector; ++e) {
        const u64 with = ballot(in[e]);
        at += popcount(with & below), before += popcount(with);
      }
      QUERN_UNROLL for (int e = 0; e < kVector; ++e) {
        if (in[e]) f(at, k[j * kVector + e], keys.index_of(tile, j * kVector + e));
        at += in[e];
      }
    }
  });
}

QUERN_DEVICE void top_k_of_row(const TopKParams& p, const TopKRoom& room, i64 row) {
  i32 n = p.n;
  if (p.lengths) {
    n = p.lengths[row];
    n = n < 0 ? 0 : n > p.n ? p.n : n;
  }
  const Keys keys(slice_of(static_cast<const Element*>(p.x) + row * p.x_stride, n));
  // Where k are not there, all of them are; how many that is comes with the positions.
  Cut cut{kLeastPlace, 0};
  ListedKeys listed{room.list, 0, {}};
  bool few = false;  // in this block: others may look at all of theirs
  Bounds bounds{0, ~0u};
  if (n > p.k) {
    if constexpr (kHeld) {
      bounds = bounds_of(keys, p.k, {room.bounds, room.scratch});
      const u32 count = gather_from(keys, bounds.least, room.list, kMostTopK, room.of_warps);
      few = count <= static_cast<u32>(kMostTopK);
      listed.count = few ? static_cast<i32>(count) : 0;
    }
    const u32 wanted = static_cast<u32>(p.k);
    cut = few ? cut_after(room.select, listed, wanted, n, {}, 0, bounds.least, bounds.most)
              : cut_after(room.select, keys, wanted, n, {}, 0, bounds.least, bounds.most);
  }
  const Chosen chosen{static_cast<u32>(cut.least >> 32), static_cast<u32>(cut.least)};
  const auto take = [&](u32 at, u32 key, i32 index) {
    if (p.sorted) {
      tell(room.list + at, 0, static_cast<u64>(key) << 32 | ~static_cast<u32>(index));
    } else {
      put(p, row, static_cast<i32>(at), index, number_of_key(key));
    }
  };
  if constexpr (kHeld) {
    each_chosen_held(room, keys, few ? &listed : nullptr, chosen, take);
  } else {
    each_chosen_streamed(room, keys, chosen, take);
  }
  if (p.sorted) sync_row();
  if (row_block() != 0) return;
  i32 count = 0;
  QUERN_ROLLED for (i32 b = 0; b < row_blocks(); ++b) count += static_cast<i32>(room.of_blocks[b]);
  if (p.sorted) {
    i32 size = 1;
    while (size < count) size *= 2;
    QUERN_ROLLED for (i32 i = count + thread_index(); i < size; i += kThreads) room.list[i] = 0;
    sort_list(room.list, size);
    QUERN_ROLLED for (i32 i = thread_index(); i < count; i += kThreads) {
      const u64 place = room.list[i];
      put(p, row, i, index_of_place(place), number_of_key(static_cast<u32>(place >> 32)));
    }
  }
  QUERN_ROLLED for (i32 i = count + thread_index(); i < p.k; i += kThreads) put(p, row, i, -1, -infinity());
}

QUERN_DEVICE void top_k(const TopKParams& p) {
  QUERN_SHARED(vec16, counts, kBins / 4);
  QUERN_SHARED(vec16, totals, kBins / 4);
  QUERN_SHARED(u64, list, kMostTopK);
  QUERN_SHARED(u32, scratch, kWarps + 4);
  QUERN_SHARED(u32, of_warps, kWarps);
  QUERN_SHARED(u32, of_blocks, kMostRowBlocks);
  QUERN_SHARED(u64, bounds, kMostRowBlocks);
  QUERN_SHARED(u64, bound_scratch, kWarps);
  const SelectRoom select{reinterpret_cast<u32*>(counts), reinterpret_cast<u32*>(totals), scratch};
  // Nothing is counted any more when elements are marked.
  static_assert(kChosenWords <= kBins);
  const TopKRoom room{select, list, of_warps, select.counts, select.totals, of_blocks, bounds, bound_scratch};
  const i32 step = block_count(0) / row_blocks();
  QUERN_ROLLED for (i64 row = block_index(0) / row_blocks(); row < p.rows; row += step) {
    top_k_of_row(p, room, row);
    // What the blocks have told each other has been read before it is written again.
    if (row + step < p.rows) sync_row();
  }
}

}  // namespace q

QUERN_KERNEL(quern_top_k, THREADS, BLOCKS_PER_SM, QUERN_PARAM q::TopKParams p) {
  q::launch_next_grid();
  q::begin_rows();
  q::wait_for_previous_grid();
  q::top_k(p);
}
