// Attention with wide heads: more than 256 columns of keys or of values, whatever the number of rows.
//
// Neither a row of keys nor one of values is ever whole in shared memory. Of a block of keys first the columns of the
// keys come, kColumns at a time, and products are summed over them; then those of the values. Four warps, a team, share
// the same rows. Each multiplies with a quarter of the block's keys, hands its weights to the others, and holds the
// sums of a quarter of each kColumns columns of values: together the team holds the whole of its rows' results, so that
// no product is computed twice.
// SPDX-License-Identifier: Apache-2.0
#include "attention/kernels/portable/cache.cuh"
#include "attention/kernels/portable/softmax.cuh"
#include "attention/kernels/shared/combine.cuh"

namespace q {

inline constexpr int kThreads = THREADS;
inline constexpr int kWarps = kThreads / kWarp;
inline constexpr int kStages = STAGES;
inline constexpr int kRowTiles = ROW_TILES;  // of a team
inline constexpr int kColumns = COLUMNS_AT_ONCE;
inline constexpr int kPitch = shared_pitch(kColumns);
// The queries stay in shared memory where there is room, else their columns come with those of the keys.
inline constexpr bool kHoldQueries = HOLD_QUERIES != 0;

inline constexpr int kTeams = kWarps / kTeamWarps;
inline constexpr int kOwnRows = kRowTiles * 16;
inline constexpr int kOwnKeys = kBlock / kTeamWarps;  // of a warp
inline constexpr int kOwnColumns = kColumns / kTeamWarps;
inline constexpr int kKeyTiles = kOwnKeys / 16;
inline constexpr int kOwnTiles = kOwnColumns / 16;
inline constexpr int kSteps = kColumns / 16;
inline constexpr int kKeyParts = div_up(kDimK, kColumns);  // of kColumns columns
inline constexpr int kValueParts = div_up(kDimV, kColumns);
inline constexpr int kParts = kKeyParts + kValueParts;
inline constexpr int kLastSteps = kStepsK - (kKeyParts - 1) * kSteps;  // of the last part of the keys
inline constexpr int kAhead = kStages > 1 ? kStages - 1 : 0;           // parts that are on their way
inline constexpr int kWeightPitch = shared_pitch(kBlock);
inline constexpr int kOwnPitch = slot_pitch(kOwnColumns);  // of a warp's results, as they are staged
inline constexpr int kStageElements = wide_stage_bytes(kRows, kBlock, kColumns, kHoldQueries) / 2;
static_assert(!kCoded && !kCodedQueries, "keys, values and queries are multiplied as they come");
static_assert(kRows == kTeams * kOwnRows && kOwnKeys % 16 == 0 && kOwnColumns % 16 == 0);
static_assert(kAhead < kParts, "the places of a block's keys are found during the block before");
static_assert(2 * kBlock <= kThreads, "a thread looks up one row of keys or of values");

// What a piece reads. Kept in shared memory: in registers there is no room.
struct Source {
  Cache cache;
  PieceContext context;
  TileRange seen;          // by the tile
  TileRange mine[kTeams];  // by each team's rows
  i32 begin;               // the first key of the first block that is read,
  u32 count;               // and how many keys are read from seen.any.first on
};

struct Shared {
  ScheduleScratch schedule;
  Source source;
  i32 flag;
  u32 not_finite[2][kBlock / 32];  // of the keys of a block, in turns: a bit for each whose values were not finite, and
                                   // were cleared
};

// The rows of a block's keys, then those of its values; null where a key is not copied.
struct Places {
  const u8* of[2][kBlock];
};
static_assert(2 * sizeof(Places) == wide_places_bytes(kBlock));

struct Memory {
  Places* places;    // of two blocks, in turns
  Element* weights;  // [kRows][kWeightPitch]
  f32* maxima;       // [kTeamWarps][kRows]; in the end the sums
  Element* queries;  // where they are held [kRows][kPitchK]
  Element* stages;   // [kStages]: keys or values [kBlock][kPitch], then where queries are not held [kRows][kPitch]
  f32* results;      // where the queries and stages were
};
QUERN_DEVICE Memory memory_at(u8* base) {
  Memory m;
  m.places = reinterpret_cast<Places*>(base);
  m.weights = reinterpret_cast<Element*>(m.places + 2);
  m.maxima = reinterpret_cast<f32*>(m.weights + kRows * kWeightPitch);
  m.results = m.maxima + kTeamWarps * kRows;
  m.queries = reinterpret_cast<Element*>(m.results);
  m.stages = m.queries + (kHoldQueries ? kRows * kPitchK : 0);
  return m;
}

// Brings the parts of a piece's blocks to shared memory, in the order in which they are multiplied.
struct Reader {
  const AttentionParams& p;
  const Sequence& s;
  const Piece& piece;
  Memory memory;
  const Source& source;
  i32 blocks;     // that are read
  i32 block = 0;  // whose part is copied next
  i32 part = 0;
  u32 stage = 0;  // that is multiplied next
  u32 page = 0;   // of the thread's own key in the block after the one whose places were noted last

  QUERN_DEVICE static int own_key() { return thread_index() % kBlock; }
  QUERN_DEVICE bool takes_key(i32 key) const { return static_cast<u32>(key - source.seen.any.first) < source.count; }

  // Of the page table the thread's entry for a block, long before it is needed.
  QUERN_DEVICE void look_up(i32 of_block) {
#if PAGED
    const i32 key = source.begin + of_block * kBlock + own_key();
    if (thread_index() >= 2 * kBlock) return;
    page = takes_key(key) ? static_cast<u32>(source.cache.pages[page_of(p, key)]) : 0;
#else
    (void)of_block;
#endif
  }
  QUERN_DEVICE void note_places(i32 of_block) const {
    if (thread_index() >= 2 * kBlock) return;
    const bool values = thread_index() >= kBlock;
    const i32 key = source.begin + of_block * kBlock + own_key();
    const u8* row = values ? source.cache.v : source.cache.k;
    const u32 token_bytes = values ? p.v_token_bytes : p.k_token_bytes;
    if (PAGED) {
      row += static_cast<u64>(page) * (values ? p.v_page_bytes : p.k_page_bytes);
      row += static_cast<u64>(slot_of(p, key)) * token_bytes;
    } else {
      row += static_cast<u64>(static_cast<u32>(key)) * token_bytes;
    }
    memory.places[of_block & 1].of[values][own_key()] = takes_key(key) ? row : nullptr;
  }

  // The next part on its way to a stage; columns beyond the last come as zeros.
  QUERN_DEVICE void copy(u32 to) {
    if (block < blocks) {
      const bool values = part >= kKeyParts;
      const int column = (values ? part - kKeyParts : part) * kColumns;
      Element* rows = memory.stages + to * kStageElements;
      const u8* const* from = memory.places[block & 1].of[values];
      using Copy = TileCopy<Element, kBlock, kColumns, kThreads, kCacheCopyBytes>;
      static_assert(Copy::kEven, "a thread's columns are the same in all rows");
      const Copy tile(thread_index());
      const bool inside = column + tile.column * Copy::kChunkElements < (values ? kDimV : kDimK);
      Element* own = tile.own(rows, kPitch);
      QUERN_TWO_AT_ONCE for (int step = 0; step < Copy::kSteps; ++step) {
        const u8* row = from[tile.row_at(step)];
        tile.copy(own, kPitch, step, row + column * 2, inside && row != nullptr);
      }
      if (!kHoldQueries && !values) copy_query_columns(rows + kBlock * kPitch, column);
      if (++part == kParts) part = 0, ++block;
    }
    copy_async_commit();
  }
  QUERN_DEVICE void copy_query_columns(Element* to, int column) const {
    const Element* queries =
        static_cast<const Element*>(p.queries) + s.q_begin * p.q_stride_token + piece.head * kGroup * p.q_stride_head;
    const i32 rows = s.q_len * kGroup - piece.tile * kRows;
    using Copy = TileCopy<Element, kRows, kColumns, kThreads, kCopyBytes>;
    const Copy tile(thread_index());
    const bool inside = column + tile.column * Copy::kChunkElements < kDimK;
    Element* own = tile.own(to, kPitch);
    QUERN_ROLLED for (int step = 0; step < Copy::kSteps; ++step) {
      if (!tile.inside(step)) continue;
      const int row = tile.row_at(step);
      const i32 r = piece.tile * kRows + row;
      const Element* source = queries + r / kGroup * p.q_stride_token + r % kGroup * p.q_stride_head + column;
      tile.copy(own, kPitch, step, reinterpret_cast<const u8*>(source), inside && row < rows);
    }
  }

  // Waits for the part that is multiplied next, and sends for the one that now has a stage.
  QUERN_DEVICE Element* next() {
    if (kStages > 1) {
      copy_async_wait < kStages<2 ? 0 : kStages - 2>();
      sync_block();
      copy((stage + kStages - 1) % kStages);
    } else {
      sync_block();
      copy(0);
      copy_async_wait<0>();
      sync_block();
    }
    Element* here = memory.stages + stage * kStageElements;
    stage = stage + 1 == kStages ? 0 : stage + 1;
    return here;
  }
};

// The weights of a team's rows, of all keys of a block.
struct Weights {
  OperandA<Element> x[kBlock / 16][kRowTiles];
};

// A warp's sums of weights and values: for each part of the values its quarter of the columns.
template <int kCount>
struct ValueSums {
  ValueSums<kCount - 1> before;
  TileSums<4 + (kCount - 1) * kRowTiles * kOwnTiles, kRowTiles, kOwnTiles> last;

  QUERN_DEVICE void clear() {
    before.clear();
    last.clear();
  }
  QUERN_DEVICE void multiply_rows(const f32 (&factors)[kRowTiles][kRowsHeld]) {
    before.multiply_rows(factors);
    last.multiply_rows(factors);
  }
  // next(part) brings a part of the values, and returns where the warp's columns begin; with `live` they are multiplied
  // with the weights.
  template <class Next>
  QUERN_DEVICE void add(const Weights& weights, bool live, const Next& next) {
    before.add(weights, live, next);
    const Element* values = next(kCount - 1);
    if (!live) return;
    QUERN_UNROLL for (int k = 0; k < kBlock / 16; ++k) {
      last.add_transposed(weights.x[k], values + k * 16 * kPitch, kPitch);
    }
  }
  QUERN_DEVICE void store(int part, f32* to) const {
    before.store(part, to);
    if (part == kCount - 1) last.template store<kOwnPitch>(to);
  }
};
template <>
struct ValueSums<0> {
  QUERN_DEVICE void clear() {}
  QUERN_DEVICE void multiply_rows(const f32 (&)[kRowTiles][kRowsHeld]) {}
  template <class Next>
  QUERN_DEVICE void add(const Weights&, bool, const Next&) {}
  QUERN_DEVICE void store(int, f32*) const {}
};
struct Sums {
  TileSums<0, kRowTiles, kKeyTiles> scores;
  ValueSums<kValueParts> values;
};

// Makes the maxima of a team's rows known to all of its warps.
struct Team {
  static constexpr bool kThere = true;
  f32* maxima;  // of the team's first row
  int member;   // this warp

  QUERN_DEVICE void write(const f32 (&x)[kRowTiles][kRowsHeld]) const {
    QUERN_UNROLL for (int t = 0; t < kRowTiles; ++t) {
      QUERN_UNROLL for (int h = 0; h < kRowsHeld; ++h) {
        if (column_of(lane(), 0) == 0) maxima[member * kRows + t * 16 + row_of(lane(), h)] = x[t][h];
      }
    }
  }
  QUERN_DEVICE f32 of(int warp, int t, int h) const { return maxima[warp * kRows + t * 16 + row_of(lane(), h)]; }

  QUERN_DEVICE void operator()(f32 (&max)[kRowTiles][kRowsHeld]) const {
    write(max);
    sync_block();
    QUERN_UNROLL for (int t = 0; t < kRowTiles; ++t) {
      QUERN_UNROLL for (int h = 0; h < kRowsHeld; ++h) {
        QUERN_UNROLL for (int w = 0; w < kTeamWarps; ++w) max[t][h] = fmax(max[t][h], of(w, t, h));
      }
    }
  }
};

// A warp that joins what it has staged itself.
struct OwnWarp {
  static constexpr int kThreads = kWarp;
  QUERN_DEVICE static int index() { return lane(); }
  QUERN_DEVICE static void sync() { sync_warp(); }
};

// Products with some of the columns of the keys.
template <int kCount>
QUERN_DEVICE void multiply(Sums& sums, const Element* queries, int query_pitch, const Element* keys) {
  QUERN_UNROLL for (int k = 0; k < kCount; ++k) {
    OperandA<Element> a[kRowTiles];
    QUERN_UNROLL for (int t = 0; t < kRowTiles; ++t) {
      a[t] = load_a(queries + t * 16 * query_pitch + k * 16, query_pitch);
    }
    sums.scores.add(a, keys + k * 16, kPitch);
  }
}

// Weights where the team finds them: operands are laid out as accumulators are.
QUERN_DEVICE void hand_over(const OperandA<Element> (&weights)[kKeyTiles][kRowTiles], Element* to) {
  QUERN_UNROLL for (int n = 0; n < kKeyTiles; ++n) {
    QUERN_UNROLL for (int t = 0; t < kRowTiles; ++t) {
      QUERN_UNROLL for (int i = 0; i < kHeld / 2; ++i) {
        Element* at =
            to + (t * 16 + row_of(lane(), held_row(2 * i))) * kWeightPitch + n * 16 + column_of(lane(), 2 * i);
        *reinterpret_cast<u32*>(at) = weights[n][t].x[i];
      }
    }
  }
}

// The results of the warp's rows and columns to `out`, or to the piece's slot, a part at a time by way of shared
// memory.
QUERN_DEVICE void write_own(const AttentionParams& p, const Sequence& s, const Piece& piece, const Memory& memory,
                            const Team& team, int row0, const Softmax<kRowTiles>& softmax, Sums& sums, f32* slot) {
  f32* staged = memory.results + warp() * (wide_result_bytes(kOwnRows, kOwnColumns) / 4);
  QUERN_UNROLL for (int t = 0; t < kRowTiles; ++t) {
    QUERN_UNROLL for (int h = 0; h < kRowsHeld; ++h) {
      f32 sum = 0.0f;
      QUERN_UNROLL for (int w = 0; w < kTeamWarps; ++w) sum += team.of(w, t, h);
      if (column_of(lane(), 0) != 0) continue;
      f32* ends = staged + kOwnRows * kOwnPitch + t * 16 + row_of(lane(), h);
      ends[0] = softmax.max[t][h], ends[kOwnRows] = sum;
    }
  }
  QUERN_ROLLED for (int part = 0; part < kValueParts; ++part) {
    sync_warp();
    sums.values.store(part, staged);
    sync_warp();
    join<8, 1, OwnWarp, kOwnRows, kOwnColumns>(p, s, piece, {staged, staged, 0, 1, kOwnRows}, slot, row0,
                                               part * kColumns + team.member * kOwnColumns);
  }
}

QUERN_DEVICE void take_piece(const AttentionParams& p, const Sequence& s, const Piece& piece, const Memory& memory,
                             Shared* shared, Sums& sums) {
  const TileRange seen = tile_range(p, s, piece.tile * kRows, kRows);
  // The sequence's blocks that this tile sees at all; an uncut item skips the others.
  i32 begin = (seen.any.first - s.first) / kBlock, end = div_up(seen.any.last - s.first, kBlock);
  begin = begin > piece.begin ? begin : piece.begin;
  end = end < piece.end ? end : piece.end;
  const int row0 = warp() / kTeamWarps * kOwnRows, member = warp() % kTeamWarps;
  const i32 first_row = piece.tile * kRows + row0;
  if (thread_index() == 0) {
    const i32 last = s.first + end * kBlock, count = (last < seen.any.last ? last : seen.any.last) - seen.any.first;
    shared->source.cache = cache_of(p, s.index, piece.head);
    shared->source.context = piece_context(p, s, piece.head);
    shared->source.seen = seen;
    shared->source.begin = s.first + begin * kBlock;
    shared->source.count = static_cast<u32>(count > 0 ? count : 0);
  }
  if (member == 0 && lane() == 0) {
    TileRange of_team = tile_range(p, s, first_row, kOwnRows);
    if (first_row >= s.q_len * kGroup) of_team.any.last = of_team.any.first;  // no row at all
    shared->source.mine[row0 / kOwnRows] = of_team;
  }
  sync_block();
  const Source& source = shared->source;
  const PieceContext& context = source.context;
  Reader reader{p, s, piece, memory, source, end > begin ? end - begin : 0};

  if (thread_index() < 2 * kBlock / 32) shared->not_finite[thread_index() & 1][thread_index() >> 1] = 0;
  reader.look_up(0);
  reader.note_places(0);
  reader.look_up(1);
  if constexpr (kHoldQueries) copy_queries<kThreads>(p, s, piece.head, piece.tile, memory.queries);
  copy_async_commit();
  sync_block();
  QUERN_ROLLED for (int i = 0; i < kAhead; ++i) reader.copy(static_cast<u32>(i));

  const TileRange& mine = source.mine[row0 / kOwnRows];
  const Team team{memory.maxima + row0, member};
  Element* weights = memory.weights + row0 * kWeightPitch;
  RowContext rows[kRowTiles];
  QUERN_UNROLL for (int t = 0; t < kRowTiles; ++t) rows[t] = row_context(p, s, piece.head, first_row + t * 16);
  Softmax<kRowTiles> softmax = empty_softmax<kRowTiles>();
  sums.values.clear();

  QUERN_ROLLED for (i32 block = 0; block < reader.blocks; ++block) {
    const i32 block_key = source.begin + block * kBlock, block_end = block_key + kBlock;
    // Whether some of the team's rows see some of the block's keys.
    const bool live = block_key < mine.any.last && block_end > mine.any.first;
    // Where some rows of the tile do not see all that is there, values that are not finite must not reach them.
    const bool check = (kCustomMask && block_end > context.mask.first) ||
                       (block_key < source.seen.all.first && block_end > source.seen.any.first) ||
                       (block_end > source.seen.all.last && block_key < source.seen.any.last &&
                        source.seen.all.last < source.seen.any.last);
    u32* not_finite = shared->not_finite[block & 1];

    sums.scores.clear();
    QUERN_ROLLED for (int part = 0; part < kKeyParts; ++part) {
      const Element* keys = reader.next();
      if (part == 0) {
        reader.note_places(block + 1);
        reader.look_up(block + 2);
        // The next block's: they were last read before the barrier.
        if (thread_index() < kBlock / 32) shared->not_finite[(block + 1) & 1][thread_index()] = 0;
      }
      if (!live) continue;
      const Element* queries =
          kHoldQueries ? memory.queries + row0 * kPitchK + part * kColumns : keys + (kBlock + row0) * kPitch;
      const int pitch = kHoldQueries ? kPitchK : kPitch;
      const Element* own = keys + member * kOwnKeys * kPitch;
      if (kLastSteps == kSteps || part + 1 < kKeyParts) {
        multiply<kSteps>(sums, queries, pitch, own);
      } else {
        multiply<kLastSteps>(sums, queries, pitch, own);
      }
    }

    const i32 key = block_key + member * kOwnKeys;
    const bool masked = !live || is_masked(context, mine.all, key, kOwnKeys);
    mask_scores(p, s, context, sums.scores, key, masked, rows, nullptr);
    OperandA<Element> own[kKeyTiles][kRowTiles];
    f32 rescale[kRowTiles][kRowsHeld];
    const bool changed = weigh_scores(context, sums.scores, softmax, rescale, own, nullptr, team);
    hand_over(own, weights + member * kOwnKeys);
    if (ballot(changed)) sums.values.multiply_rows(rescale);

    Weights all;
    sums.values.add(all, live, [&](int part) {
      Element* values = reader.next();
      if (part == 0 && live) {
        QUERN_UNROLL for (int k = 0; k < kBlock / 16; ++k) {
          QUERN_UNROLL for (int t = 0; t < kRowTiles; ++t) {
            all.x[k][t] = load_a(weights + t * 16 * kWeightPitch + k * 16, kWeightPitch);
          }
        }
      }
      if (check) {
        clear_not_finite<kBlock, kColumns, kThreads>(
            values, kPitch, thread_index(), [&](int row) { atomic_or(not_finite + row / 32, 1u << row % 32); });
        sync_block();
      }
      return values + member * kOwnColumns;
    });
    if (!check) continue;
    QUERN_ROLLED for (int w = 0; w < kBlock / 32; ++w) {
      if (not_finite[w] != 0) spoil_rows(p, s, context, not_finite[w], block_key + w * 32, rows, softmax);
    }
  }
  copy_async_wait<0>();  // where there was no block, of the queries
  f32 sum[kRowTiles][kRowsHeld];
  QUERN_UNROLL for (int t = 0; t < kRowTiles; ++t) {
    QUERN_UNROLL for (int h = 0; h < kRowsHeld; ++h) sum[t][h] = reduce_row_sum(softmax.sum[t][h]);
  }
  team.write(sum);  // all have passed a barrier since they read the last maxima
  sync_block();     // all warps are done with the stages, where results are staged
  f32* slot = piece.count > 1 ? slot_at(p, piece, piece.index) : nullptr;
  write_own(p, s, piece, memory, team, row0, softmax, sums, slot);
  if (!slot || !arrived_last<WholeBlock>(p, piece, &shared->flag)) return;
  const Parts parts = {slot_at(p, piece, 0), slot_at(p, piece, 1), static_cast<i64>(piece.slot_step) * p.slot_floats,
                       piece.count, p.slot_rows};
  join<8, 1>(p, s, piece, parts, nullptr);
}

}  // namespace q

QUERN_KERNEL(quern_attention_wide, THREADS, BLOCKS_PER_SM, QUERN_PARAM q::AttentionParams p) {
  using namespace q;
  QUERN_SHARED(Shared, shared, 1);
  Sums sums;
  launch_next_grid();
  wait_for_previous_grid();
  const Memory memory = memory_at(dynamic_shared());
  Schedule<MANY_ROWS != 0, MANY_ROWS != 0> schedule(p, &shared->schedule);
  const Piece& piece = shared->schedule.piece;
  QUERN_ROLLED do {
    schedule.next();
    if (piece.begin < piece.end) take_piece(p, shared->schedule.sequence, piece, memory, shared, sums);
  }
  while (schedule.more());
}
