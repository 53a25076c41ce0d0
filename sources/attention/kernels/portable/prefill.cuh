// Attention with many rows a KV head (prefill, chunked prefill, long speculation): bound by the tensor cores.
//
// Four warps share the tiles of keys and values, each with ROW_TILES tiles of 16 rows of its own. The kernel also
// carries the batch-invariant variant of every length of query: the sums of a row do not depend on which rows stand
// beside it.
// SPDX-License-Identifier: Apache-2.0
#include "attention/kernels/portable/cache.cuh"
#include "attention/kernels/portable/softmax.cuh"
#include "attention/kernels/shared/combine.cuh"

namespace q {

inline constexpr int kThreads = THREADS;
inline constexpr int kWarps = kThreads / kWarp;
inline constexpr int kStages = STAGES;
inline constexpr int kRowTiles = ROW_TILES;  // of a warp
// A block of keys is taken in parts: the shorter they are, the less code, and the fewer registers for the scores.
inline constexpr int kKeys = KEYS_AT_ONCE;
inline constexpr int kParts = kBlock / kKeys;
inline constexpr int kKeyTiles = kKeys / 16;
static_assert(kParts == 1 || kParts == 2,
              "the keys of the next block come during the first part, the values during the last");
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
  u32 not_finite[2]
                [2];  // of the keys of a block, in turns: a bit for each whose values were not finite, and were cleared
};

// Where the piece's keys and values lie. Kept in shared memory: in registers there is no room, and to compute it again
// for every block of keys takes a chain of 64-bit products before the first copy.
struct Source {
  const u8* base;
  u32 page_bytes, token_bytes;
};
struct Sources {
  Source of[2];  // the keys, the values
  const i32* pages;
};
static_assert(sizeof(Sources) <= kSourceBytes);

struct Memory {
  Element* queries;
  Element* keys;  // of 16 bits [kStages][kBlock][kPitchK]; of 8 bits one block, as it is multiplied
  Element* values;
  CacheElement* copied_keys;  // [kStages][kBlock][kCachedPitchK]
  CacheElement* copied_values;
  f32* scales;  // with kTokenScales: [kStages][2][kBlock], of the keys, then of the values
  Sources* sources;
};
QUERN_DEVICE Memory memory_at(u8* base) {
  Memory m;
  m.queries = reinterpret_cast<Element*>(base);
  m.keys = m.queries + kRows * kPitchK;
  if constexpr (kCoded) {
    m.values = m.keys + kBlock * kPitchK;
    m.copied_keys = reinterpret_cast<CacheElement*>(m.values + kBlock * kPitchV);
    m.copied_values = m.copied_keys + kStages * kBlock * kCachedPitchK;
    m.scales = reinterpret_cast<f32*>(m.copied_values + kStages * kBlock * kCachedPitchV);
    m.sources = reinterpret_cast<Sources*>(m.scales + kStages * 2 * kBlock);
  } else {
    m.values = m.keys + kStages * kBlock * kPitchK;
    m.copied_keys = reinterpret_cast<CacheElement*>(m.keys);
    m.copied_values = reinterpret_cast<CacheElement*>(m.values);
    m.scales = nullptr;
    m.sources = reinterpret_cast<Sources*>(m.values + kStages * kBlock * kPitchV);
  }
  return m;
}

// Copies blocks of keys and values, all threads together, a step at a time so that it can be woven into arithmetic.
struct Reader {
  static constexpr int kEach = kBlock / kPages;  // keys of a block that share an entry of the page table

  const AttentionParams& p;
  i32 begin;  // the first key of the piece's first block; blocks are counted from that one
  i32 first;  // the first key that the tile sees,
  u32 count;  // and how many it sees from there to the piece's end
  Memory memory;
  Shared* shared;
  const f32* k_scales;  // with kTokenScales
  const f32* v_scales;

  QUERN_DEVICE i32 key_of(i32 block) const { return begin + block * kBlock; }
  QUERN_DEVICE u32 stage_of(i32 block) const { return static_cast<u32>(block) % kStages; }
  QUERN_DEVICE const i32* ring_of(i32 block) const { return shared->pages[static_cast<u32>(block) % kPageRing]; }

  // The page table's entries go to shared memory the same way as the keys and values.
  QUERN_DEVICE void copy_pages(i32 block) const {
#if PAGED
    const int i = thread_index();
    if (i >= kPages) return;
    const i32 key = key_of(block) + i * kEach;
    const bool take = count != 0 && static_cast<u32>(key + kEach - 1 - first) < count + (kEach - 1);
    copy_async_4(const_cast<i32*>(ring_of(block)) + i, memory.sources->pages + (take ? page_of(p, key) : 0), take);
#else
    (void)block;
#endif
  }

  // A block's scales on their way.
  QUERN_DEVICE void copy_scales(i32 block) const {
    QUERN_ROLLED for (int i = thread_index(); i < 2 * kBlock; i += kThreads) {
      const bool values = i >= kBlock;
      const int row = values ? i - kBlock : i;
      const i32 key = key_of(block) + row;
      const i64 page = PAGED ? static_cast<i64>(ring_of(block)[row / kEach]) : 0;
      const i64 slot = PAGED ? static_cast<i64>(slot_of(p, key)) : static_cast<i64>(key);
      const f32* from = (values ? v_scales : k_scales) +
                        page * (values ? p.v_scale_stride_page : p.k_scale_stride_page) +
                        slot * (values ? p.v_scale_stride_token : p.k_scale_stride_token);
      copy_async_4(memory.scales + stage_of(block) * (2 * kBlock) + i, from, static_cast<u32>(key - first) < count);
    }
  }

  // A block's keys, or its values, on their way. Beyond the piece's last block there are none, and zeros are written: a
  // branch would cost more.
  template <int kDim>
  struct Copies {
    using Copy = TileCopy<CacheElement, kBlock, kDim, kThreads, kCacheCopyBytes>;
    static constexpr int kSteps = Copy::kSteps;
    static constexpr int kPitch = cached_row_bytes(kDim, kCacheBytes) / kCacheBytes;
    // The entry of the page table is the same for all threads in a step, and what a step adds to a thread's own row is
    // a constant.
    static constexpr bool kWhole = Copy::kEven && (!PAGED || (PAGE_SIZE != 0 && kEach % Copy::kRowsAtOnce == 0));
    static constexpr bool kOnePage = kWhole && kPages == 1;

    Copy tile{thread_index()};
    CacheElement* own;  // TileCopy::own
    Source source;
    const i32* pages;
    u32 page;  // with kOnePage
    i32 key;
    u32 place;  // of the block's first key among those that the tile sees
    u32 count;

    QUERN_DEVICE Copies(const Reader& r, i32 block, bool values)
        : key(r.key_of(block)), place(static_cast<u32>(key - r.first)), count(r.count) {
      own = tile.own((values ? r.memory.copied_values : r.memory.copied_keys) + r.stage_of(block) * kBlock * kPitch,
                     kPitch);
      source = r.memory.sources->of[values];
      pages = r.ring_of(block);
      page = PAGED && kOnePage ? static_cast<u32>(pages[0]) : 0;
    }

    // The address is computed here and not before: what is loaded above has then had time to come.
    QUERN_DEVICE void copy(const AttentionParams& params, int step) const {
      if (!tile.inside(step)) return;
      const int row = tile.row_at(step);
      const u8* from = source.base;
      if (PAGED) {
        const u32 of_row = kOnePage ? page : static_cast<u32>(pages[(kWhole ? step * Copy::kRowsAtOnce : row) / kEach]);
        from += static_cast<u64>(of_row) * source.page_bytes;
      }
      if (kWhole) {
        // A block of keys begins on a multiple of its length: in pages as long, or shorter, always on a page's first
        // key. The thread's own row comes first, since what a step adds to it is the same for all threads.
        const u32 slot = PAGED ? (PAGE_SIZE > kBlock ? slot_of(params, key) : 0) : static_cast<u32>(key);
        const int ahead = step * Copy::kRowsAtOnce;
        from += static_cast<u64>(slot + static_cast<u32>(tile.row)) * source.token_bytes;
        from += static_cast<u64>(static_cast<u32>(PAGED ? ahead % kEach : ahead)) * source.token_bytes;
      } else {
        const u32 slot = !PAGED                          ? static_cast<u32>(key + row)
                         : PAGE_SIZE == 0 || kPages == 1 ? slot_of(params, key + row)
                                                         : static_cast<u32>(row % kEach);
        from += static_cast<u64>(slot) * source.token_bytes;
      }
      tile.copy(own, kPitch, step, from, place + static_cast<u32>(row) < count);
    }
  };
};

// What is copied while a part of a block is worked on: of the block ahead the keys, then the values, or both at once.
struct Share {
  using Keys = Reader::Copies<kDimK>;
  using Values = Reader::Copies<kDimV>;
  static constexpr bool kOneCode = kParts == 2 && kDimK == kDimV;
  static constexpr int kSteps = kParts == 1                     ? Keys::kSteps + Values::kSteps
                                : Keys::kSteps > Values::kSteps ? Keys::kSteps
                                                                : Values::kSteps;

  Keys keys;
  Values values;
  bool last;  // part of the block

  QUERN_DEVICE Share(const Reader& reader, i32 block, int part)
      : keys(reader, block, kOneCode && part != 0), values(reader, block, true), last(part != 0) {}

  QUERN_DEVICE void copy(const AttentionParams& p, int step) const {
    if (kOneCode) {
      keys.copy(p, step);
    } else if (kParts == 1 ? step < Keys::kSteps : !last) {
      if (step < Keys::kSteps) keys.copy(p, step);
    } else {
      const int own = kParts == 1 ? step - Keys::kSteps : step;
      if (own < Values::kSteps) values.copy(p, own);
    }
  }
};

struct Weights {
  OperandA<Element> x[kKeyTiles][kRowTiles];
};

// A warp's sums: of queries and keys, then of weights and values.
struct Sums {
  TileSums<0, kRowTiles, kKeyTiles> scores;
  TileSums<16, kRowTiles, kTilesV> values;
};

// One warp's rows.
struct Rows {
  Sums& sums;
  RowContext context[kRowTiles];
  Softmax<kRowTiles> softmax;
  OperandA<Element> queries[kHoldQueries ? kStepsK : 1];
  const Element* query_tile;  // the warp's first row in shared memory

  // The products with a block of keys; between(k) is called in each of the kStepsK steps.
  template <class Between>
  QUERN_DEVICE void multiply(const Element* keys, const Between& between) {
    sums.scores.clear();
    QUERN_UNROLL for (int k = 0; k < kStepsK; ++k) {
      OperandA<Element> a[kRowTiles];
      QUERN_UNROLL for (int t = 0; t < kRowTiles; ++t) {
        a[t] = kHoldQueries ? queries[kHoldQueries ? k : 0] : load_a(query_tile + t * 16 * kPitchK + k * 16, kPitchK);
      }
      sums.scores.add(a, keys + k * 16, kPitchK);
      between(k);
    }
  }

  QUERN_DEVICE void accumulate(const Element* values, const Weights& weights) {
    QUERN_UNROLL for (int k = 0; k < kKeyTiles; ++k) {
      sums.values.add_transposed(weights.x[k], values + k * 16 * kPitchV, kPitchV);
    }
  }

  // The results of the warp's rows, not yet divided, to a partial result in shared memory.
  QUERN_DEVICE void stage(f32* results, int row0) {
    finish_values(softmax, sums.values);
    const int l = lane();
    f32* ends = results + kRows * kSlotPitch + row0 + row_of(l, 0);
    sums.values.template store<kSlotPitch>(results + row0 * kSlotPitch);
    QUERN_UNROLL for (int t = 0; t < kRowTiles; ++t) {
      QUERN_UNROLL for (int h = 0; h < kRowsHeld; ++h) {
        const int row = t * 16 + rows_on(h);
        const f32 sum = reduce_row_sum(softmax.sum[t][h]);
        if (column_of(l, 0) == 0) ends[row] = softmax.max[t][h], ends[kRows + row] = sum;
      }
    }
  }
};

// Widens a block of keys and values of 8 bits. With `check` values that are not finite are cleared and their keys
// noted.
QUERN_DEVICE void widen_block(const Memory& memory, u32 stage, bool check, u32* not_finite) {
  const auto note = [&](int row) { atomic_or(not_finite + row / 32, 1u << row % 32); };
  widen_rows<kBlock, kDimK, kThreads>(memory.copied_keys + stage * kBlock * kCachedPitchK, kCachedPitchK, memory.keys,
                                      kPitchK, thread_index(), false, note);
  widen_rows<kBlock, kDimV, kThreads>(memory.copied_values + stage * kBlock * kCachedPitchV, kCachedPitchV,
                                      memory.values, kPitchV, thread_index(), !kIsInteger<CacheElement> && check, note);
}

QUERN_DEVICE void take_piece(const AttentionParams& p, const Sequence& s, const Piece& piece, const Memory& memory,
                             Shared* shared, Sums& sums) {
  const TileRange seen = tile_range(p, s, piece.tile * kRows, kRows);
  // The sequence's blocks that this tile sees at all; an uncut item skips the others.
  i32 begin = (seen.any.first - s.first) / kBlock, end = div_up(seen.any.last - s.first, kBlock);
  begin = begin > piece.begin ? begin : piece.begin;
  end = end < piece.end ? end : piece.end;
  const i32 first_key = s.first + begin * kBlock, last = s.first + end * kBlock, blocks = end - begin;
  const i32 count = (last < seen.any.last ? last : seen.any.last) - seen.any.first;
  Reader reader{p,      first_key, seen.any.first, static_cast<u32>(count > 0 ? count : 0),
                memory, shared,    nullptr,        nullptr};
  if constexpr (kTokenScales) {
    const i64 token = PAGED ? 0 : static_cast<i64>(p.cu_kv[s.index]);
    reader.k_scales = p.k_scale + piece.head * p.k_scale_stride_head + token * p.k_scale_stride_token;
    reader.v_scales = p.v_scale + piece.head * p.v_scale_stride_head + token * p.v_scale_stride_token;
  }
  if (thread_index() == 0) {
    shared->not_finite[0][0] = shared->not_finite[0][1] = shared->not_finite[1][0] = shared->not_finite[1][1] = 0;
    const Cache cache = cache_of(p, s.index, piece.head);
    *memory.sources = {{{cache.k, p.k_page_bytes, p.k_token_bytes}, {cache.v, p.v_page_bytes, p.v_token_bytes}},
                       cache.pages};
  }
  sync_block();
  const auto copy_share = [&](const Share& share) {
    QUERN_ROLLED for (int step = 0; step < Share::kSteps; ++step) share.copy(p, step);
  };

  QUERN_ROLLED for (int i = 0; i < kAhead; ++i) reader.copy_pages(i);
  copy_queries<kThreads>(p, s, piece.head, piece.tile, memory.queries);
  copy_async_commit();
  if (kStepsK * 16 != kDimK || kTilesV * 16 != kDimV) {  // what no copy writes must still be finite
    u32* words = reinterpret_cast<u32*>(memory.keys);
    QUERN_ROLLED for (int i = thread_index(); i < (kCoded ? 1 : kStages) * kBlock * (kPitchK + kPitchV) / 2;
                      i += kThreads) words[i] = 0;
  }
  copy_async_wait<0>();
  sync_block();

  const int row0 = warp() * kRowTiles * 16;
  const i32 first_row = piece.tile * kRows + row0;
  TileRange mine = tile_range(p, s, first_row, kRowTiles * 16);
  if (first_row >= s.q_len * kGroup) mine.any.last = mine.any.first;  // no row at all
  mine.any.first = mine.any.first > first_key ? mine.any.first : first_key;
  Rows rows{sums};
  rows.softmax = empty_softmax<kRowTiles>();
  rows.query_tile = memory.queries + row0 * kPitchK;
  QUERN_UNROLL for (int t = 0; t < kRowTiles; ++t) {
    rows.context[t] = row_context(p, s, piece.head, first_row + t * 16);
  }
  const PieceContext context = piece_context(p, s, piece.head);
  sums.values.clear();
  if (kHoldQueries) {
    QUERN_UNROLL for (int k = 0; k < kStepsK; ++k) {
      rows.queries[kHoldQueries ? k : 0] = load_a(rows.query_tile + k * 16, kPitchK);
    }
  }

  // The first kStages - 1 turns only copy: their keys come before any that a row sees.
  QUERN_ROLLED for (i32 block = 1 - kStages; block < blocks; ++block) {
    copy_async_wait < kStages<2 ? 0 : kStages - 2>();
    sync_block();
    // The next block's: they were last read before this barrier.
    if (thread_index() == 0) shared->not_finite[(block + 1) & 1][0] = shared->not_finite[(block + 1) & 1][1] = 0;
    const i32 ahead = block + kStages - 1;
    reader.copy_pages(ahead + kAhead);
    if (kStages == 1) {
      QUERN_ROLLED for (int part = 0; part < kParts; ++part) copy_share(Share(reader, block, part));
      if constexpr (kTokenScales) reader.copy_scales(block);
      copy_async_commit();
      copy_async_wait<0>();
      sync_block();
    }
    if constexpr (kTokenScales && kStages > 1) reader.copy_scales(ahead);
    // Where some rows of the tile do not see all that is there, values that are not finite must not reach them.
    const i32 block_key = reader.key_of(block), block_end = block_key + kBlock;
    const bool check =
        block >= 0 && ((kCustomMask && block_end > context.mask.first) ||
                       (block_key < seen.all.first && block_end > seen.any.first) ||
                       (block_end > seen.all.last && block_key < seen.any.last && seen.all.last < seen.any.last));
    u32* not_finite = shared->not_finite[block & 1];
    const u32 in_stages = reader.stage_of(block) * kBlock, in_use = kCoded ? 0 : in_stages;
    u64 bad = 0;
    if (kCoded && block >= 0) widen_block(memory, reader.stage_of(block), check, not_finite);
    if (!kCoded && check) {
      clear_not_finite<kBlock, kDimV, kThreads>(memory.values + in_use * kPitchV, kPitchV, thread_index(),
                                                [&](int row) { atomic_or(not_finite + row / 32, 1u << row % 32); });
    }
    if (kCoded || check) {
      sync_block();
      bad = not_finite[0] | static_cast<u64>(not_finite[1]) << 32;
    }
    const f32* scales = memory.scales + in_stages * 2;
    QUERN_ROLLED for (int part = 0; part < kParts; ++part) {
      const Share share(reader, ahead, part);
      const i32 key = block_key + part * kKeys;
      if (key >= mine.any.last || key + kKeys <= mine.any.first) {  // none of the warp's rows sees these keys
        if (kStages > 1) copy_share(share);
        continue;
      }
      const u32 first = in_use + part * kKeys;
      rows.multiply(memory.keys + first * kPitchK, [&](int k) {
        if (kStages == 1) return;
        constexpr int kAtOnce = div_up(Share::kSteps, kStepsK), kApart = kAtOnce == 1 ? kStepsK / Share::kSteps : 1;
        if (k % kApart != kApart - 1) return;
        QUERN_UNROLL for (int i = 0; i < kAtOnce; ++i) {
          if (k / kApart * kAtOnce + i < Share::kSteps) share.copy(p, k / kApart * kAtOnce + i);
        }
      });
      Weights weights;
      f32 rescale[kRowTiles][kRowsHeld];
      const f32* part_scales = scales + part * kKeys;
      mask_scores(p, s, context, sums.scores, key, is_masked(context, mine.all, key, kKeys), rows.context, part_scales);
      if (ballot(weigh_scores(context, sums.scores, rows.softmax, rescale, weights.x, part_scales + kBlock))) {
        sums.values.multiply_rows(rescale);
      }
      const u64 bad_part = kParts == 1 ? bad : bad >> part * kKeys & ((u64{1} << kKeys % 64) - 1);
      if (bad_part != 0) spoil_rows(p, s, context, bad_part, key, rows.context, rows.softmax);
      rows.accumulate(memory.values + first * kPitchV, weights);
    }
    if (kStages > 1) copy_async_commit();
  }
  // The copies ahead of the last block have nothing to bring, but they write: zeros to where results are staged, and to
  // the page entries that the next piece begins with.
  copy_async_wait<0>();
  sync_block();  // all warps are done with the shared memory that results are staged in
  f32* results = reinterpret_cast<f32*>(memory.queries);
  rows.stage(results, row0);
  sync_block();
  write_results<8, kParts == 1 ? 2 : 1>(p, s, piece, {results, results, 0, 1, kRows}, &shared->flag);
}

}  // namespace q

QUERN_KERNEL(quern_attention_prefill, THREADS, BLOCKS_PER_SM, QUERN_PARAM q::AttentionParams p) {
  using namespace q;
  QUERN_SHARED(Shared, shared, 1);
  Sums sums;
  launch_next_grid();
  wait_for_previous_grid();
  const Memory memory = memory_at(dynamic_shared());
  Schedule<true, INVARIANT != 0> schedule(p, &shared->schedule);
  const Piece& piece = shared->schedule.piece;
  QUERN_ROLLED do {
    schedule.next();
    if (piece.begin < piece.end) take_piece(p, shared->schedule.sequence, piece, memory, shared, sums);
  }
  while (schedule.more());
}
