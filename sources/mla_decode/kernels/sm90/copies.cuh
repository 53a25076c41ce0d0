// Copies of keys for the kernel of 64 rows: each of the two blocks of a pair has a warp that copies it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mla_decode/kernels/sm90/rows64.cuh"

namespace q {

inline constexpr bool kGathered = false, kClearsValues = true, kStaggered = false;
static_assert(!kPaired);
inline constexpr int kPageRows = PAGE_ROWS;        // of one copy
inline constexpr int kCopies = kKeys / kPageRows;  // of one tile's rows
// Tiles of one copy: where a copy has all rows of a block, those of one tile end where the next one's begin.
inline constexpr int kTilesAtOnce = kCopies == 1 ? 2 : 1;
inline constexpr int kTeller = 2;  // which of the warps that do not multiply schedules
inline constexpr int kFullArrivals = 1, kListeners = kConsumers / kWarp + 3;
// Each part of a block has a barrier.
QUERN_DEVICE constexpr int barrier_of(int, int part) { return part; }
QUERN_DEVICE constexpr bool begins_barrier(int) { return true; }
inline constexpr bool kQueriesAhead = true, kJoinsPairs = true;

// Whether some row of the tile sees any of a copy's keys, the first of which is `key`.
QUERN_DEVICE bool is_needed(const Range& any, i32 key) { return key < any.last && key + kPageRows > any.first; }

// Looks up pages, a warp's worth at once.
struct Pages {
  const i32* pages;
  Range any;
  i32 held;  // the first of kWarp copies whose pages the lanes hold
  i32 page;

  // The page of copy `at` of the sequence, copies counting from key 0.
  QUERN_DEVICE i32 of(const MlaParams& p, i32 at) {
    if (static_cast<u32>(at - held) >= static_cast<u32>(kWarp)) {
      held = at;
      const i32 key = (at + lane()) * kPageRows;
      page = is_needed(any, key) ? pages[key / p.by_page_size] : 0;
      if (static_cast<u32>(page) >= static_cast<u32>(p.pool_pages)) {
        page = p.pool_pages;  // beyond the pool the copy gives zeros
        tell(p, kBadPage);
      }
    }
    return shuffle(page, at - held);
  }
};

struct Maps {
  const TensorMap& latent;  // [pages][8 tiles][page_size][64 columns]
  const TensorMap& rope;    // [pages][1][page_size][64 columns]
};

// Where a block's rows come from.
struct Rows64 {
  i32 page[kCopies], slot[kCopies];
  bool needed[kCopies];
  u32 count;  // that are needed
};

// Part `part` of a block; by one lane.
template <int part>
QUERN_DEVICE void copy_part(const Maps& maps, u8* keys, Mbarrier* full, const Rows64& rows) {
  constexpr int kCount = part == kRopePart ? 1 : 2;
  mbarrier_arrive_expect(full[part], rows.count * (kCount * kPageRows * 128));
  QUERN_UNROLL for (int c = 0; c < kCopies; ++c) {
    if (!rows.needed[c]) continue;
    u8* to = keys + 2 * part * kTileBytes + c * kPageRows * 128;
    if constexpr (part == kRopePart) {
      tma_load(to, maps.rope, full[part], CacheHint::evict_first, 0, rows.slot[c], 0, rows.page[c]);
    } else {
      QUERN_UNROLL for (int i = 0; i < 2; i += kTilesAtOnce) {
        tma_load(to + i * kTileBytes, maps.latent, full[part], CacheHint::evict_first, 0, rows.slot[c], 2 * part + i,
                 rows.page[c]);
      }
    }
  }
}

template <int part>
QUERN_DEVICE void copy_when_free(const Maps& maps, u8* keys, Mbarrier* full, Mbarrier* empty, u32 round,
                                 const Rows64& rows) {
  mbarrier_wait(empty[part], round ^ 1);
  if (elect_one()) copy_part<part>(maps, keys, full, rows);
  sync_warp();
}

template <int block>
QUERN_DEVICE void copy_all(const MlaParams& p, const Maps& maps, Memory m) {
  Listener listener(m.told().mailbox);
  u8* keys = m.keys(block);
  Mbarrier* full = m.barriers().full[block];
  u32 round = 0;
  QUERN_ROLLED for (;;) {
    const Task& t = listener.next();
    if (shuffle(t.rows, 0) < 0) break;
    Pages source{p.pages + t.pages, t.any, -kWarp, 0};
    const i32 end = shuffle(t.end_key, 0);
    QUERN_ROLLED for (i32 key = shuffle(t.key, 0) + block * kKeys; key < end; key += kBlock) {
      Rows64 rows;
      rows.count = 0;
      QUERN_UNROLL for (int c = 0; c < kCopies; ++c) {
        const i32 at = key + c * kPageRows;
        rows.page[c] = source.of(p, quotient(at, kPageRows));
        rows.slot[c] = at - at / p.by_page_size * p.page_size;
        rows.needed[c] = is_needed(source.any, at);
        rows.count += rows.needed[c];
      }
      copy_when_free<part_at(block, 0)>(maps, keys, full, m.barriers().empty[block], round, rows);
      copy_when_free<part_at(block, 1)>(maps, keys, full, m.barriers().empty[block], round, rows);
      copy_when_free<part_at(block, 2)>(maps, keys, full, m.barriers().empty[block], round, rows);
      copy_when_free<part_at(block, 3)>(maps, keys, full, m.barriers().empty[block], round, rows);
      // Once all parts are free the weights that lie where the rope part goes have been read.
      if (elect_one()) copy_part<kRopePart>(maps, keys, full, rows);
      sync_warp();
      round ^= 1;
    }
    listener.done();
  }
}

// One warp schedules. Code comes from memory when it is first run, and the first task waits for a long way through it:
// another warp, which has nothing to do yet, goes the second half of that way at the same time, as if all had been
// planned.
QUERN_DEVICE void schedule_all(const MlaParams& p, Memory m, bool pretended) {
  Tasks tasks(p, m.told().mailbox, pretended ? nullptr : m.chunks());
  bool first = true, more = true;
  QUERN_ROLLED while (more) {
    Task t;
    more = tasks.find(t, m.chunks(), pretended);
    if (first) all_ready();
    first = false;
    if (pretended) {
      if (lane() == 0) m.told().mailbox.unread = t;
      return;
    }
    tasks.tell(t);
  }
}

// A task's queries, while the products before are still being written (the first task's the warps that multiply copy
// themselves, who have nothing else to do): each lane knows where two rows lie. What lies in rows beyond
// the last is of no consequence: a row of a product depends on one of the queries alone.
QUERN_DEVICE void copy_queries(const MlaParams& p, Memory m) {
  Listener listener(m.told().mailbox);
  u32 phase = 0;
  bool later = false;
  QUERN_ROLLED for (;;) {
    const Task& t = listener.next();
    if (shuffle(t.rows, 0) < 0) break;
    if (!later) {
      later = true;
      listener.done();
      continue;
    }
    mbarrier_wait(m.barriers().queries_empty, phase);
    phase ^= 1;
    QUERN_ROLLED for (i32 first = 0; first < t.rows; first += kWarp) {
      const i32 rows = t.rows - first < kWarp ? t.rows - first : kWarp;
      const QueryRow own(p, t, first + lane());
      const u32 there = static_cast<u32>(ballot(own.there));
      const u64 latent = reinterpret_cast<u64>(own.latent), rope = reinterpret_cast<u64>(own.rope);
      QUERN_FOUR_AT_ONCE for (int r = 0; r < rows; ++r) {
        const Element* from = reinterpret_cast<const Element*>(shuffle(latent, r));
        QUERN_UNROLL for (int i = 0; i < 2; ++i) {
          const int piece = i * kWarp + lane();
          copy_async_16(m.queries() + (piece >> 3) * kTileBytes + place_in_tile(first + r, piece & 7), from + piece * 8,
                        (there >> r & 1) != 0);
        }
      }
      QUERN_FOUR_AT_ONCE for (int r = 0; r < rows; r += 4) {
        const int row = r + (lane() >> 3);
        const Element* from = reinterpret_cast<const Element*>(shuffle(rope, row));
        copy_async_16(m.queries() + kRopeTile * kTileBytes + place_in_tile(first + row, lane() & 7),
                      from + (lane() & 7) * 8, (there >> row & 1) != 0);
      }
    }
    copy_async_arrive(m.barriers().queries_full);
    listener.done();
  }
}

// What the warpgroup that copies does.
QUERN_DEVICE void supply(const MlaParams& p, const Maps& maps, Memory m, int w) {
  if (w < 2) all_ready();
  if (w == 0) copy_all<0>(p, maps, m);
  if (w == 1) copy_all<1>(p, maps, m);
  if (w >= 2) schedule_all(p, m, w == 3);
  if (w == 3) copy_queries(p, m);
}

}  // namespace q
