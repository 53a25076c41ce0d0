// Attention with few rows a KV head (decode, speculative decode): bound by reading K and V.
//
// One tile of 16 rows. Of every block of keys each warp takes 16 for itself, with a pipeline of asynchronous copies of
// its own, so that the warps of a thread block never wait for each other until the piece is done; then their results
// are joined through shared memory.
// SPDX-License-Identifier: Apache-2.0
#include "attention/kernels/portable/cache.cuh"
#include "attention/kernels/portable/softmax.cuh"
#include "attention/kernels/shared/combine.cuh"

namespace q {

inline constexpr int kThreads = THREADS;
inline constexpr int kWarps = kThreads / kWarp;
inline constexpr int kStages = STAGES;
// Sixteen keys from a multiple of 16 on lie in one page.
inline constexpr bool kOnePage = PAGE_SIZE != 0 && PAGE_SIZE % 16 == 0;
static_assert(kRows == 16 && kBlock == 16 * kWarps, "a warp takes one tile of keys of a block");

inline constexpr int kStageBytes = stage_bytes(kDimK, kDimV, 16, kCacheBytes);
inline constexpr int kWarpBytes = decode_warp_bytes(kDimK, kDimV, kStages, kCacheBytes);

// 16 keys and values as they were copied, and with kTokenScales their scales.
struct Stage {
  CacheElement* keys;
  CacheElement* values;
  f32* scales;  // of the keys, then of the values
};
QUERN_DEVICE Stage stage_at(u8* stages, int stage) {
  u8* at = stages + stage * kStageBytes;
  CacheElement* keys = reinterpret_cast<CacheElement*>(at);
  return {keys, keys + 16 * kCachedPitchK,
          reinterpret_cast<f32*>(at + 16 * (kCachedPitchK + kCachedPitchV) * kCacheBytes)};
}

// One warp's reader of keys and values.
struct Reader {
  const AttentionParams& p;
  Cache cache;
  Range keys;  // that the tile sees
  u32 page;    // of the tile that is copied next: one for all its keys, or that of key `lane() % 16`
  u8* stages;
  const f32* k_scales;  // with kTokenScales
  const f32* v_scales;

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
  QUERN_DEVICE void copy_rows(CacheElement* to, int pitch, const u8* base, u32 page_bytes, u32 token_bytes, i32 key) {
    const TileCopy<CacheElement, 16, kDim, kWarp, kCacheCopyBytes> tile(lane());
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
        source +=
            static_cast<u64>(shuffle(page, row)) * page_bytes + static_cast<u64>(slot_of(p, key + row)) * token_bytes;
      } else {
        source += static_cast<u64>(static_cast<u32>(row)) * token_bytes;
      }
      if (tile.inside(step)) tile.copy(tile.own(to, pitch), pitch, step, source, takes(keys, key, row));
    }
  }

  // The scale of a lane's own key or value: lanes 0 to 15 take the keys', 16 to 31 the values'.
  QUERN_DEVICE void copy_scales(f32* to, i32 key) {
    if (lane() >= 32) return;
    const int row = lane() & 15;
    const bool values = lane() >= 16;
    const i64 slot = PAGED ? static_cast<i64>(slot_of(p, key + row)) : static_cast<i64>(key + row);
    const f32* from = (values ? v_scales : k_scales) +
                      (PAGED ? static_cast<i64>(page) * (values ? p.v_scale_stride_page : p.k_scale_stride_page) : 0) +
                      slot * (values ? p.v_scale_stride_token : p.k_scale_stride_token);
    copy_async_4(to + lane(), from, takes(keys, key, row));
  }

  QUERN_DEVICE void copy(int stage, i32 key) {
    const Stage to = stage_at(stages, stage);
    copy_rows<kDimK>(to.keys, kCachedPitchK, cache.k, p.k_page_bytes, p.k_token_bytes, key);
    copy_rows<kDimV>(to.values, kCachedPitchV, cache.v, p.v_page_bytes, p.v_token_bytes, key);
    if constexpr (kTokenScales) copy_scales(to.scales, key);
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

// What a warp multiplies: its own stage, or of 8 bits what it is widened to.
struct Operands {
  Element* keys;
  Element* values;
};

// Readies a stage. Where some of the tile's rows do not see all of it (`check`), values that are not finite are
// cleared, so that they do not reach those rows; a bit for each of their keys is returned.
QUERN_DEVICE u64 ready(const Stage& stage, const Operands& to, bool check) {
  u64 rows = 0;
  if constexpr (kCoded) {
    constexpr bool kMayBeNan = !kIsInteger<CacheElement>;
    widen_rows<16, kDimK, kWarp>(stage.keys, kCachedPitchK, to.keys, kPitchK, lane(), false, [](int) {});
    u32 found = 0;
    widen_rows<16, kDimV, kWarp>(stage.values, kCachedPitchV, to.values, kPitchV, lane(), kMayBeNan && check,
                                 [&](int row) { found |= 1u << row; });
    if (kMayBeNan && check) {
      QUERN_UNROLL for (int mask = 1; mask < kWarp; mask *= 2) found |= shuffle_xor(found, mask);
      rows = found;
    }
    sync_warp();
  } else if (check) {
    u32 found = 0;
    clear_not_finite<16, kDimV, kWarp>(to.values, kPitchV, lane(), [&](int row) { found |= 1u << row; });
    QUERN_UNROLL for (int mask = 1; mask < kWarp; mask *= 2) found |= shuffle_xor(found, mask);
    rows = found;
    sync_warp();
  }
  (void)stage;
  return rows;
}

QUERN_DEVICE void attend(const AttentionParams& p, const Sequence& s, const PieceContext& piece,
                         const OperandA<Element> (*queries)[1], const Stage& stage, const Operands& with, i32 key,
                         const RowContext (&rows)[1], const TileRange& seen, Softmax<1>& softmax, Sums& sums) {
  const bool masked = is_masked(piece, seen.all, key, 16);
  // What no row sees was not copied.
  const bool check = masked && (kCustomMask || (key < seen.all.first && key + 16 > seen.any.first) ||
                                (key + 16 > seen.all.last && key < seen.any.last && seen.all.last < seen.any.last));
  const u64 bad = ready(stage, with, check);
  sums.scores.clear();
  QUERN_UNROLL for (int k = 0; k < kStepsK; ++k) sums.scores.add(queries[k], with.keys + k * 16, kPitchK);
  mask_scores(p, s, piece, sums.scores, key, masked, rows, stage.scales);
  f32 rescale[1][kRowsHeld];
  OperandA<Element> weights[1][1];
  if (ballot(weigh_scores(piece, sums.scores, softmax, rescale, weights, stage.scales + 16)))
    sums.values.multiply_rows(rescale);
  if (bad != 0) spoil_rows(p, s, piece, bad, key, rows, softmax);
  sums.values.add_transposed(weights[0], with.values, kPitchV);
}

// A warp's results to where its own stages were: nobody else has read those, and all its copies have arrived.
QUERN_DEVICE void stage_results(const Softmax<1>& softmax, Sums& sums, f32* results) {
  finish_values(softmax, sums.values);
  sync_warp();
  f32* ends = results + 16 * kSlotPitch + row_of(lane(), 0);
  QUERN_UNROLL for (int h = 0; h < kRowsHeld; ++h) {
    const f32 sum = reduce_row_sum(softmax.sum[0][h]);
    if (column_of(lane(), 0) == 0) ends[rows_on(h)] = softmax.max[0][h], ends[16 + rows_on(h)] = sum;
  }
  sums.values.template store<kSlotPitch>(results);
}

QUERN_DEVICE void take_piece(const AttentionParams& p, const Sequence& s, const Piece& piece, u8* memory,
                             Shared* shared, Sums& sums) {
  Element* query_tile = reinterpret_cast<Element*>(memory);
  u8* stages = memory + kRows * kPitchK * 2;

  const TileRange seen = tile_range(p, s, piece.tile * kRows, kRows);
  const i32 begin = piece.begin, end = piece.end, origin = s.first + warp() * 16;
  u8* own_stages = stages + warp() * kWarpBytes;
  Reader reader{p, cache_of(p, s.index, piece.head), seen.any, 0, own_stages, nullptr, nullptr};
  if constexpr (kTokenScales) {
    const i64 token = PAGED ? 0 : static_cast<i64>(p.cu_kv[s.index]);
    reader.k_scales = p.k_scale + piece.head * p.k_scale_stride_head + token * p.k_scale_stride_token;
    reader.v_scales = p.v_scale + piece.head * p.v_scale_stride_head + token * p.v_scale_stride_token;
  }
  Element* widened = reinterpret_cast<Element*>(own_stages + kStages * kStageBytes);
  const auto key_of = [&](i32 block) { return origin + block * kBlock; };

  copy_queries<kThreads>(p, s, piece.head, piece.tile, query_tile);
  copy_async_commit();
  reader.look_up(key_of(begin));
  if (kStepsK * 16 != kDimK || kTilesV * 16 != kDimV) {  // what no copy writes must still be finite
    constexpr int kWords = (kCoded ? 16 * (kPitchK + kPitchV) * 2 : kStages * kStageBytes) / 4;
    u32* words = kCoded ? reinterpret_cast<u32*>(widened) : reinterpret_cast<u32*>(own_stages);
    QUERN_ROLLED for (int i = lane(); i < kWords; i += kWarp) words[i] = 0;
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
  const PieceContext context = piece_context(p, s, piece.head);
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
    const Stage here = stage_at(own_stages, stage);
    const Operands with =
        kCoded ? Operands{widened, widened + 16 * kPitchK}
               : Operands{reinterpret_cast<Element*>(here.keys), reinterpret_cast<Element*>(here.values)};
    attend(p, s, context, queries, here, with, key_of(block), rows, seen, softmax, sums);
    stage = stage + 1 == kStages ? 0 : stage + 1;
    next = next + 1 == kStages ? 0 : next + 1;
  }
  stage_results(softmax, sums, reinterpret_cast<f32*>(own_stages));
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
  }
  while (schedule.more());
}
