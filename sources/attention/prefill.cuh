// Attention with many rows a KV head (prefill, chunked prefill, long speculation): bound by the tensor cores.
//
// Four warps share the tiles of keys and values, each with ROW_TILES tiles of 16 rows of its own. The kernel also carries the
// batch-invariant form of every length of query: the sums of a row do not depend on which rows stand beside it.
// SPDX-License-Identifier: Apache-2.0
#include "attention/combine.cuh"
#include "attention/softmax.cuh"

namespace q {

inline constexpr int kThreads = THREADS;
inline constexpr int kWarps = kThreads / kWarp;
inline constexpr int kStages = STAGES;
inline constexpr int kRowTiles = ROW_TILES;  // of a warp
inline constexpr int kKeyTiles = kBlock / 16;
inline constexpr int kCopyBytes = COPY_BYTES;  // 16, or 4 where rows are not aligned to 16
static_assert(kRows == kWarps * kRowTiles * 16);
// Queries stay in registers where there is room, else they are read from shared memory for every block of keys.
inline constexpr bool kHoldQueries = kRowTiles == 1 && kStepsK + kTilesV <= 16;

// Entries of the page table that a block of keys can need. A constant page size is a power of two.
inline constexpr int kPages = PAGE_SIZE == 0 ? kBlock : PAGE_SIZE >= kBlock ? 1 : kBlock / PAGE_SIZE;
// They travel this many blocks ahead of the keys that they lead to.
inline constexpr int kAhead = kStages > 1 ? kStages - 1 : 1;
inline constexpr int kPageRing = 2 * kStages;

struct Shared {
  ScheduleScratch schedule;
  i32 pages[kPageRing][kPages];
  i32 flag;
};

struct Memory {
  Element* queries;
  Element* keys;    // [kStages][kBlock][kPitchK]
  Element* values;  // [kStages][kBlock][kPitchV]
};
QUERN_DEVICE Memory memory_at(u8* base) {
  Element* e = reinterpret_cast<Element*>(base);
  return {e, e + kRows * kPitchK, e + kRows * kPitchK + kStages * kBlock * kPitchK};
}

// Copies blocks of keys and values, all threads together.
struct Reader {
  const AttentionParams& p;
  const Element* k;
  const Element* v;
  Cache cache;
  Range keys;   // that the tile sees
  i32 origin;   // Sequence::first
  const Memory& memory;
  Shared* shared;

  QUERN_DEVICE i32 key_of(i32 block) const { return origin + block * kBlock; }

  // The page table's entries go to shared memory the same way as the keys and values.
  QUERN_DEVICE void copy_pages(i32 block, int ring) {
#if PAGED
    constexpr int kEach = kBlock / kPages;
    const int i = thread_index();
    if (i >= kPages) return;
    const i32 first = key_of(block) + i * kEach;
    const bool take = first < keys.last && first + kEach > keys.first;
    copy_async_4(&shared->pages[ring][i], cache.pages + (take ? page_of(p, first) : 0), take);
#else
    (void)block, (void)ring;
#endif
  }

  template <int kChunks>
  QUERN_DEVICE void copy_rows(Element* to, int pitch, const Element* from, i64 stride_page, i64 stride_token, i32 key,
                              int ring) {
    constexpr int kElements = kCopyBytes / 2;
    QUERN_UNROLL for (int i = 0; i < div_up(kBlock * kChunks, kThreads); ++i) {
      const int index = i * kThreads + thread_index();
      const int row = index / kChunks, column = index % kChunks * kElements;
      if (kBlock * kChunks % kThreads != 0 && row >= kBlock) continue;
      const i32 j = key + row;
#if PAGED
      const i64 page = shared->pages[ring][row / (kBlock / kPages)];
      const Element* source = from + page * stride_page + slot_of(p, j) * stride_token + column;
#else
      const Element* source = from + (cache.token + j) * stride_token + column;
      (void)stride_page, (void)ring;
#endif
      const bool take = j >= keys.first && j < keys.last;
      if (kCopyBytes == 16) {
        copy_async_16(to + row * pitch + column, take ? source : from, take);
      } else {
        copy_async_4(to + row * pitch + column, take ? source : from, take);
      }
    }
  }

  QUERN_DEVICE void copy(i32 block, int stage, int ring) {
    const i32 key = key_of(block);
    copy_rows<kDimK * 2 / kCopyBytes>(memory.keys + stage * kBlock * kPitchK, kPitchK, k, p.k_stride_page,
                                      p.k_stride_token, key, ring);
    copy_rows<kDimV * 2 / kCopyBytes>(memory.values + stage * kBlock * kPitchV, kPitchV, v, p.v_stride_page,
                                      p.v_stride_token, key, ring);
  }
};

// One warp's rows.
struct Rows {
  RowContext context[kRowTiles];
  Softmax softmax[kRowTiles];
  Accumulator o[kRowTiles][kTilesV];
  OperandA<Element> queries[kHoldQueries ? kStepsK : 1];
  const Element* query_tile;  // the warp's first row in shared memory

  QUERN_DEVICE void attend(const AttentionParams& p, const Sequence& s, const Element* keys, const Element* values, i32 key,
                           bool masked) {
    Accumulator scores[kRowTiles][kKeyTiles] = {};
    QUERN_UNROLL for (int k = 0; k < kStepsK; ++k) {
      OperandA<Element> a[kRowTiles];
      QUERN_UNROLL for (int t = 0; t < kRowTiles; ++t) {
        a[t] = kHoldQueries ? queries[kHoldQueries ? k : 0] : load_a(query_tile + t * 16 * kPitchK + k * 16, kPitchK);
      }
      QUERN_UNROLL for (int n = 0; n < kKeyTiles; ++n) {
        const OperandB<Element> b = load_b(keys + n * 16 * kPitchK + k * 16, kPitchK);
        QUERN_UNROLL for (int t = 0; t < kRowTiles; ++t) mma(scores[t][n], a[t], b);
      }
    }
    OperandA<Element> weights[kRowTiles][kKeyTiles];
    QUERN_UNROLL for (int t = 0; t < kRowTiles; ++t) {
      f32 rescale[kRowsHeld];
      if (ballot(take_scores(p, s, scores[t], key, masked, context[t], softmax[t], rescale))) rescale_tiles(o[t], rescale);
      QUERN_UNROLL for (int n = 0; n < kKeyTiles; ++n) weights[t][n] = to_operand<Element>(scores[t][n]);
    }
    QUERN_UNROLL for (int k = 0; k < kKeyTiles; ++k) {
      QUERN_UNROLL for (int n = 0; n < kTilesV; ++n) {
        const OperandB<Element> b = load_b_transposed(values + k * 16 * kPitchV + n * 16, kPitchV);
        QUERN_UNROLL for (int t = 0; t < kRowTiles; ++t) mma(o[t][n], weights[t][k], b);
      }
    }
  }

  // To `out`, or to the piece's slot. `row0` is the warp's first row in the tile.
  QUERN_DEVICE void write(const AttentionParams& p, const Sequence& s, const Piece& piece, int row0) {
    f32* slot = piece.count > 1 ? slot_at(p, slot_of_piece(piece, piece.index)) : nullptr;
    QUERN_UNROLL for (int t = 0; t < kRowTiles; ++t) {
      QUERN_UNROLL for (int h = 0; h < kRowsHeld; ++h) {
        const f32 sum = reduce_row_sum(softmax[t].sum[h]), max = softmax[t].max[h];
        const int row = row0 + t * 16 + row_of(lane(), h);
        const i32 r = piece.tile * kRows + row;
        if (r >= s.q_len * kGroup) continue;
        const bool speaker = column_of(lane(), 0) == 0;  // one lane of those that hold the row
        const RowPlace place = place_of(p, s, piece.head, r);
        const Finished done = finish(p, max, sum, place.q_head);
        if (slot && speaker) slot_max(slot)[row] = max, slot_sum(slot)[row] = sum;
        if (!slot && speaker && place.lse) *place.lse = done.lse;
        QUERN_UNROLL for (int n = 0; n < kTilesV; ++n) {
          QUERN_UNROLL for (int i = 0; i < kHeld; i += 2) {
            const int column = n * 16 + column_of(lane(), i);
            if (held_row(i) != h || (kDimV % 16 != 0 && column >= kDimV)) continue;
            const f32 x = o[t][n].x[i], y = o[t][n].x[i + 1];
            if (slot) {
              *reinterpret_cast<f32x2*>(slot + row * kDimV + column) = {x, y};
            } else {
              *reinterpret_cast<u32*>(place.out + column) = pack<Element>(x * done.inverse, y * done.inverse);
            }
          }
        }
      }
    }
  }
};

QUERN_DEVICE void take_piece(const AttentionParams& p, const Sequence& s, const Piece& piece, const Memory& memory,
                             Shared* shared) {
  const TileRange seen = tile_range(p, s, piece.tile * kRows, kRows);
  Reader reader{p, static_cast<const Element*>(p.keys) + piece.head * p.k_stride_head,
                static_cast<const Element*>(p.values) + piece.head * p.v_stride_head, cache_of(p, s.index), seen.any,
                s.first, memory, shared};
  // The sequence's blocks that this tile sees at all; an uncut item skips the others.
  i32 begin = (seen.any.first - s.first) / kBlock, end = div_up(seen.any.last - s.first, kBlock);
  begin = begin > piece.begin ? begin : piece.begin;
  end = end < piece.end ? end : piece.end;

  QUERN_UNROLL for (int i = 0; i < kAhead; ++i) reader.copy_pages(begin + i, i);
  copy_async_commit();
  if (kStepsK * 16 != kDimK || kTilesV * 16 != kDimV) {  // what no copy writes must still be finite
    u32* stages = reinterpret_cast<u32*>(memory.keys);
    for (int i = thread_index(); i < kStages * kBlock * (kPitchK + kPitchV) / 2; i += kThreads) stages[i] = 0;
  }
  load_queries<kThreads>(p, s, piece, memory.queries);
  copy_async_wait<0>();
  sync_block();

  const int row0 = warp() * kRowTiles * 16;
  const i32 first_row = piece.tile * kRows + row0;
  TileRange mine = tile_range(p, s, first_row, kRowTiles * 16);
  if (first_row >= s.q_len * kGroup) mine.any.last = mine.any.first;  // no row at all
  Rows rows;
  rows.query_tile = memory.queries + row0 * kPitchK;
  QUERN_UNROLL for (int t = 0; t < kRowTiles; ++t) {
    rows.context[t] = row_context(p, s, piece.head, first_row + t * 16);
    rows.softmax[t] = empty_softmax();
    QUERN_UNROLL for (int n = 0; n < kTilesV; ++n) rows.o[t][n] = Accumulator{};
  }
  if (kHoldQueries) {
    QUERN_UNROLL for (int k = 0; k < kStepsK; ++k) {
      rows.queries[kHoldQueries ? k : 0] = load_a(rows.query_tile + k * 16, kPitchK);
    }
  }

  // One group of copies a block, empty ones beyond the last so that the count of groups stays right.
  const auto issue = [&](i32 block) {
    const u32 n = static_cast<u32>(block - begin);
    if (block < end) {
      reader.copy(block, n % kStages, n % kPageRing);
      reader.copy_pages(block + kAhead, (n + kAhead) % kPageRing);
    }
    copy_async_commit();
  };
  QUERN_UNROLL for (int i = 0; i < kStages - 1; ++i) issue(begin + i);
  for (i32 block = begin; block < end; ++block) {
    if (kStages == 1) {
      sync_block();
      issue(block);
      copy_async_wait<0>();
      sync_block();
    } else {
      copy_async_wait<kStages < 2 ? 0 : kStages - 2>();
      sync_block();
      issue(block + kStages - 1);
    }
    const i32 key = reader.key_of(block);
    if (key >= mine.any.last || key + kBlock <= mine.any.first) continue;
    const int stage = static_cast<int>(static_cast<u32>(block - begin) % kStages);
    const bool masked = key < mine.all.first || key + kBlock > mine.all.last;
    rows.attend(p, s, memory.keys + stage * kBlock * kPitchK, memory.values + stage * kBlock * kPitchV, key, masked);
  }
  rows.write(p, s, piece, row0);
  if (piece.count > 1 && arrived_last(p, piece, &shared->flag)) join_pieces<kThreads>(p, s, piece);
  sync_block();  // before the next piece's queries come
}

}  // namespace q

QUERN_KERNEL(quern_attention_prefill, THREADS, BLOCKS_PER_SM, QUERN_PARAM q::AttentionParams p) {
  using namespace q;
  QUERN_SHARED(Shared, shared, 1);
  launch_next_grid();
  wait_for_previous_grid();
  const Memory memory = memory_at(dynamic_shared());
  Schedule<kThreads, true> schedule(p, &shared->schedule);
  Sequence s;
  Piece piece;
  while (schedule.next(&s, &piece)) take_piece(p, s, piece, memory, shared);
}
