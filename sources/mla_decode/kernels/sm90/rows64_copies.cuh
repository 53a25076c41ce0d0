// Copies of keys and queries: each of the two blocks has a warp that copies it, one copies queries, and one schedules.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mla_decode/kernels/sm90/rows64_memory.cuh"

namespace q {

inline constexpr int kPageRows = PAGE_ROWS;        // of one copy
inline constexpr int kCopies = kKeys / kPageRows;  // of one tile's rows
// Tiles of one copy: where a copy has all rows of a block, those of one tile end where the next one's begin.
inline constexpr int kTilesAtOnce = kCopies == 1 ? 2 : 1;
inline constexpr int kKeyWarps = kStages;
inline constexpr int kListeners = kAll / kWarp + kKeyWarps + 1;

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
      page = is_needed(any, key) ? pages[quotient(key, p.page_size)] : 0;
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
struct BlockRows {
  i32 page[kCopies], slot[kCopies];
  bool needed[kCopies];
  u32 count;  // that are needed
};

// Part `part` of a block; by one lane.
template <int part>
QUERN_DEVICE void copy_part(const Maps& maps, u8* keys, Mbarrier* full, const BlockRows& rows) {
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

// Keys, by one of kKeyWarps warps, which take blocks in turn.
QUERN_DEVICE void copy_keys(const MlaParams& p, const Maps& maps, Memory m, int w) {
  Listener listener(m.told().mailbox);
  Barriers& barriers = m.barriers();
  PipelineState<kStages> slot;
  QUERN_ROLLED for (;;) {
    const Task& t = listener.next();
    if (shuffle(t.rows, 0) < 0) break;
    const i32 count = blocks_of(t), first = shuffle(t.key, 0);
    Pages source{p.pages + t.pages, t.any, -kWarp, 0};
    QUERN_ROLLED for (i32 i = 0; i < count; ++i, slot.next()) {
      if (slot.stage != w) continue;
      BlockRows rows;
      rows.count = 0;
      QUERN_UNROLL for (int c = 0; c < kCopies; ++c) {
        const i32 at = first + i * kKeys + c * kPageRows;
        rows.page[c] = source.of(p, quotient(at, kPageRows));
        rows.slot[c] = at - quotient(at, p.page_size) * p.page_size;
        rows.needed[c] = is_needed(source.any, at);
        rows.count += rows.needed[c];
      }
      u8* keys = m.keys(slot.stage);
      Mbarrier* full = barriers.full[slot.stage];
      mbarrier_wait(barriers.empty[slot.stage][0], slot.phase ^ 1);
      if (elect_one()) {
        copy_part<0>(maps, keys, full, rows);
        copy_part<1>(maps, keys, full, rows);
      }
      sync_warp();
      mbarrier_wait(barriers.empty[slot.stage][1], slot.phase ^ 1);
      if (elect_one()) {
        copy_part<2>(maps, keys, full, rows);
        copy_part<3>(maps, keys, full, rows);
        copy_part<kRopePart>(maps, keys, full, rows);
      }
      sync_warp();
    }
    listener.done();
  }
}

// A task's queries, while those before are still at work: first what these have in registers, then the rest. (The first
// task's the warps that multiply copy themselves, who have nothing else to do.) What lies in rows beyond the last is of
// no consequence: a row of a product depends on one of the queries alone.
template <int begin, int end>
QUERN_DEVICE void copy_queries(const MlaParams& p, Memory m, const Task& t) {
  constexpr int kPieces = (end - begin) * 8;
  static_assert(kPieces <= 2 * kWarp && (begin == 0 || end == kTiles));
  const i32 count = shuffle(t.rows, 0);
  QUERN_ROLLED for (i32 row = 0; row < count; ++row) {
    const QueryRow from(p, t, row);
    QUERN_UNROLL for (int i = 0; i < kPieces; i += kWarp) {
      const int piece = begin * 8 + i + lane();
      if (piece >= end * 8) continue;
      copy_async_16(m.queries() + (piece >> 3) * kTileBytes + place_in_tile(row, piece & 7),
                    piece < kRopeTile * 8 ? from.latent + piece * 8 : from.rope + (piece - kRopeTile * 8) * 8, true);
    }
  }
}
QUERN_DEVICE void copy_all_queries(const MlaParams& p, Memory m) {
  Listener listener(m.told().mailbox);
  Barriers& barriers = m.barriers();
  u32 round = 0;
  bool later = false;
  QUERN_ROLLED for (;;) {
    const Task& t = listener.next();
    if (shuffle(t.rows, 0) < 0) break;
    if (later) {
      mbarrier_wait(barriers.queries_empty[0], round);
      copy_queries<0, kHeldTiles>(p, m, t);
      mbarrier_wait(barriers.queries_empty[1], round);
      copy_queries<kHeldTiles, kTiles>(p, m, t);
      copy_async_arrive(barriers.queries_full);
      round ^= 1;
    }
    later = true;
    listener.done();
  }
}

QUERN_DEVICE void schedule_all(const MlaParams& p, Memory m) {
  Tasks tasks(p, m.told().mailbox, m.chunks());
  QUERN_ROLLED while (tasks.tell_next()) {}
}

// What the warpgroup that copies does.
QUERN_DEVICE void supply(const MlaParams& p, const Maps& maps, Memory m, int w) {
  if (w < kKeyWarps) copy_keys(p, maps, m, w);
  if (w == kKeyWarps) copy_all_queries(p, m);
  if (w > kKeyWarps) schedule_all(p, m);
}

}  // namespace q
