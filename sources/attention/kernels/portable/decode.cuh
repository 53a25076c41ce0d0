// Attention with few rows a KV head (decode, speculative decode): bound by reading K and V.
//
// One tile of 16 rows. Of every block of keys each warp takes 16 for itself, with a pipeline of asynchronous copies of its
// own, so that the warps of a thread block never wait for each other until the piece is done; then their results are joined
// through shared memory.
// SPDX-License-Identifier: Apache-2.0
#include "attention/kernels/portable/cache.cuh"
#include "attention/kernels/shared/combine.cuh"
#include "attention/kernels/portable/softmax.cuh"

namespace q {

inline constexpr int kThreads = THREADS;
inline constexpr int kWarps = kThreads / kWarp;
inline constexpr int kStages = STAGES;
// Sixteen keys from a multiple of 16 on lie in one page.
inline constexpr bool kOnePage = PAGE_SIZE != 0 && PAGE_SIZE % 16 == 0;
static_assert(kRows == 16 && kBlock == 16 * kWarps, "a warp takes one tile of keys of a block");

inline constexpr int kStageElements = 16 * (kPitchK + kPitchV);
inline constexpr int kWarpBytes = decode_warp_bytes(kDimK, kDimV, kStages);

// One warp's reader of keys and values.
struct Reader {
  const AttentionParams& p;
  Cache cache;
  Range keys;  // that the tile sees
  u32 page;    // of the tile that is copied next: one for all its keys, or that of key `lane() % 16`
  Element* stages;

  // Looks up ahead of time, so that the copy does not wait for the page table.
  QUERN_DEVICE void look_up(i32 key) {
#if PAGED
    const i32 j = kOnePage ? key : key + (lane() & 15);
    const bool needed = kOnePage ? key < keys.last && key + 16 > keys.first : j >= keys.first && j < keys.last;
    page = needed ? static_cast<u32>(cache.pages[page_of(p, j)]) : 0;
#else
    (void)key;
#endif
  }

  template <int kDim>
  QUERN_DEVICE void copy_rows(Element* to, int pitch, const u8* base, u32 page_bytes, u32 token_bytes, i32 key) {
    const TileCopy<16, kDim * kElementBytes, kWarp> tile(lane());
#if PAGED
    if (kOnePage) base += static_cast<u64>(page) * page_bytes + static_cast<u64>(slot_of(p, key)) * token_bytes;
#else
    (void)page_bytes;
    base += static_cast<u64>(static_cast<u32>(key)) * token_bytes;
#endif
    QUERN_UNROLL for (int step = 0; step < tile.kSteps; ++step) {
      const int row = tile.inside(step) ? tile.row_at(step) : 0;
      const u8* source = base;
      if (PAGED && !kOnePage) {
        source += static_cast<u64>(shuffle(page, row)) * page_bytes + static_cast<u64>(slot_of(p, key + row)) * token_bytes;
      } else {
        source += static_cast<u64>(static_cast<u32>(row)) * token_bytes;
      }
      if (tile.inside(step)) tile.copy(tile.own(to, pitch), pitch, step, source, takes(keys, key, row));
    }
  }

  QUERN_DEVICE void copy(int stage, i32 key) {
    Element* to = stages + stage * kStageElements;
    copy_rows<kDimK>(to, kPitchK, cache.k, p.k_page_bytes, p.k_token_bytes, key);
    copy_rows<kDimV>(to + 16 * kPitchK, kPitchV, cache.v, p.v_page_bytes, p.v_token_bytes, key);
  }
};

struct Shared {
  ScheduleScratch schedule;
  i32 flag;
};

// A warp's sums: of queries and keys, then of weights and values.
struct Sums {
  TileSums<0, 1, 1> scores;
  TileSums<16, 1, kTilesV> values;
};

QUERN_DEVICE void attend(const AttentionParams& p, const Sequence& s, const OperandA<Element> (*queries)[1],
                         const Element* stage, i32 key, const RowContext (&rows)[1], const TileRange& seen, Softmax<1>& softmax, Sums& sums) {
  sums.scores.clear();
  QUERN_UNROLL for (int k = 0; k < kStepsK; ++k) sums.scores.add(queries[k], stage + k * 16, kPitchK);
  const bool masked = key < seen.all.first || key + 16 > seen.all.last;
  mask_scores(p, s, sums.scores, key, masked, rows);
  f32 rescale[1][kRowsHeld];
  OperandA<Element> weights[1][1];
  if (ballot(weigh_scores(p, sums.scores, softmax, rescale, weights))) sums.values.multiply_rows(rescale);
  sums.values.add_transposed(weights[0], stage + 16 * kPitchK, kPitchV);
}

// A warp's results to where its own stages were: nobody else has read those, and all its copies have arrived.
QUERN_DEVICE void stage_results(const Softmax<1>& softmax, const Sums& sums, f32* results) {
  sync_warp();
  f32* ends = results + 16 * kSlotPitch + row_of(lane(), 0);
  QUERN_UNROLL for (int h = 0; h < kRowsHeld; ++h) {
    const f32 sum = reduce_row_sum(softmax.sum[0][h]);
    if (column_of(lane(), 0) == 0) ends[rows_on(h)] = softmax.max[0][h], ends[16 + rows_on(h)] = sum;
  }
  sums.values.template store<kSlotPitch>(results);
}

QUERN_DEVICE void take_piece(const AttentionParams& p, const Sequence& s, const Piece& piece, u8* memory, Shared* shared, Sums& sums) {
  Element* query_tile = reinterpret_cast<Element*>(memory);
  u8* stages = memory + kRows * kPitchK * 2;

  const TileRange seen = tile_range(p, s, piece.tile * kRows, kRows);
  const i32 begin = piece.begin, end = piece.end, origin = s.first + warp() * 16;
  Reader reader{p, cache_of(p, s.index, piece.head), seen.any, 0, reinterpret_cast<Element*>(stages + warp() * kWarpBytes)};
  const auto key_of = [&](i32 block) { return origin + block * kBlock; };

  copy_queries<kThreads>(p, s, piece.head, piece.tile, query_tile);
  copy_async_commit();
  reader.look_up(key_of(begin));
  if (kStepsK * 16 != kDimK || kTilesV * 16 != kDimV) {  // what no copy writes must still be finite
    QUERN_ROLLED for (int i = lane(); i < kStages * kStageElements / 2; i += kWarp) reinterpret_cast<u32*>(reader.stages)[i] = 0;
    sync_warp();
  }
  QUERN_ROLLED for (int i = 0; i < kStages - 1; ++i) {
    if (begin + i < end) {
      reader.copy(i, key_of(begin + i));
      reader.look_up(key_of(begin + i + 1));
    }
    copy_async_commit();
  }

  copy_async_wait<kStages - 1>();
  sync_block();
  OperandA<Element> queries[kStepsK][1];
  QUERN_UNROLL for (int k = 0; k < kStepsK; ++k) queries[k][0] = load_a(query_tile + k * 16, kPitchK);

  Softmax<1> softmax = empty_softmax<1>();
  sums.values.clear();
  const RowContext rows[1] = {row_context(p, s, piece.head, piece.tile * kRows)};
  int stage = 0, next = kStages - 1;
  QUERN_ROLLED for (i32 block = begin; block < end; ++block) {
    sync_warp();  // all lanes have read the stage that is filled now
    if (block + kStages - 1 < end) {
      reader.copy(next, key_of(block + kStages - 1));
      reader.look_up(key_of(block + kStages));
    }
    copy_async_commit();
    copy_async_wait<kStages - 1>();
    sync_warp();
    attend(p, s, queries, reader.stages + stage * kStageElements, key_of(block), rows, seen, softmax, sums);
    stage = stage + 1 == kStages ? 0 : stage + 1;
    next = next + 1 == kStages ? 0 : next + 1;
  }
  stage_results(softmax, sums, reinterpret_cast<f32*>(stages + warp() * kWarpBytes));
  sync_block();
  f32* results = reinterpret_cast<f32*>(stages);
  constexpr int kStep = kWarpBytes / 4;
  write_results<4, 4>(p, s, piece, {results, results + kStep, kStep, kWarps, 16}, &shared->flag);
}

}  // namespace q

QUERN_KERNEL(quern_attention_decode, THREADS, BLOCKS_PER_SM, QUERN_PARAM q::AttentionParams p) {
  using namespace q;
  QUERN_SHARED(Shared, shared, 1);
  Sums sums;
  launch_next_grid();
  wait_for_previous_grid();
  Schedule<false, false> schedule(p, &shared->schedule);
  const Piece& piece = shared->schedule.piece;
  QUERN_ROLLED do {
    schedule.next();
    if (piece.begin < piece.end) take_piece(p, shared->schedule.sequence, piece, dynamic_shared(), shared, sums);
  } while (schedule.more());
}
