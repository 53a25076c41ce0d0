// MLA decode on Hopper: d_latent 512 and d_rope 64, tiles of 64 rows, keys by pairs of blocks of 64.
//
// Two warpgroups multiply, a warp copies. Keys come in pairs of blocks: each warpgroup makes the weights of one of the two, and
// holds the sums of one half of the columns, to which it adds both blocks':
//
//   warpgroup 0                                       warpgroup 1
//   logits of block 0                                 logits of block 1
//   weights of block 0, to shared memory  ---------->
//   left sums  += weights 0 * left keys 0             right sums += weights 0 * right keys 0 (from shared memory)
//                                         <----------  weights of block 1, to shared memory
//   left sums  += weights 1 * left keys 1             right sums += weights 1 * right keys 1
//
// So one warpgroup's softmax runs while the other's products do. Weights are relative to one maximum a row, which both follow in
// turn: block 0's logits raise it, then block 1's. Weights of a block go where its rope part was, which only logits need.
//
// A block of keys is nine tiles of 64 columns, copied two at a time with a barrier for each two, and filled again by halves as soon as
// the half's columns have been multiplied. Each of the two blocks has a warp that copies it.
// SPDX-License-Identifier: Apache-2.0
#include "common/sm90/accumulator.cuh"
#include "common/sm90/tma.cuh"
#include "common/sm90/wgmma.cuh"
#include "mla_decode/kernels/shared/schedule.cuh"

namespace q {

inline constexpr int kTiles = 9, kRopeTile = 8, kHalf = 4;  // of 64 columns; those of a half of the values
inline constexpr int kParts = 5, kRopePart = 4;             // two tiles each, but for the rope part
inline constexpr int kTileBytes = kRows64Tile, kBlockBytes = kRows64Matrix;
inline constexpr int kGroupThreads = 128, kConsumers = 2 * kGroupThreads;
inline constexpr int kPageRows = PAGE_ROWS;              // of one copy
inline constexpr int kKeys = 64;                         // of a block; the schedule counts pairs
inline constexpr int kCopies = kKeys / kPageRows;        // of one tile's rows
// Tiles of one copy: where a copy has all rows of a block, those of one tile end where the next one's begin.
inline constexpr int kTilesAtOnce = kCopies == 1 ? 2 : 1;
inline constexpr int kOutPitch = kLatent + 8;            // elements from row to row of staged results
inline constexpr f32 kSlack = 8.0f;  // by how much a maximum may be left behind, in powers of two: see raise()
static_assert(kRows == 64 && kBlock == 2 * kKeys && kLatent == 512 && kRope == 64 && THREADS == kRows64Threads);
static_assert(kRows * kOutPitch * 2 <= kBlockBytes, "results are staged where the queries were");

// Named barriers: the weights of block 0 and of block 1 are there; one of each warpgroup; one of both; block 0's maxima are there.
enum Named { kWeights0 = 1, kWeights1 = 2, kOwn = 3, kBoth = 5, kBase = 6 };

struct Barriers {
  Mbarrier full[2][kParts];
  Mbarrier empty[2][2];  // of block 0: left; right and rope. Of block 1: left and rope; right
  Mbarrier told[2], done[2];
};

// A piece as this block of threads has it: one tile of its rows.
struct Task {
  i32 q_begin;
  i32 position, kv_len;
  i32 first_row, rows;  // of the sequence's rows; rows 0: there is no further task
  i32 key, end_key;     // the first key, and where the last pair of blocks ends
  Range any, all;       // what any of its rows sees, and what all of them see
  i32 slot;             // of the partial result; -1: results go to `out`
  i64 pages;            // where the sequence's pages begin in MlaParams::pages
};
struct Told {
  Barriers barriers;
  Task tasks[2];
};
static_assert(sizeof(Told) <= kRows64Told);

// Shared memory, by where it begins.
struct Memory {
  u8* at;
  QUERN_DEVICE u8* queries() const { return at; }
  QUERN_DEVICE u8* keys(int block) const { return at + (1 + block) * kBlockBytes; }
  QUERN_DEVICE f32* numbers(int i) const { return reinterpret_cast<f32*>(at + 3 * kBlockBytes) + i * kRows; }
  // The rows' maxima as block 0's and as block 1's logits left them; the sums of each warpgroup's weights.
  QUERN_DEVICE f32* base(int block) const { return numbers(block); }
  QUERN_DEVICE f32* sum(int group) const { return numbers(2 + group); }
  QUERN_DEVICE Told& told() const { return *reinterpret_cast<Told*>(at + 3 * kBlockBytes + kRows64Numbers); }
  QUERN_DEVICE Barriers& barriers() const { return told().barriers; }
};

// ---- The warp that schedules: it tells the others of a task while they still have the one before
QUERN_DEVICE Sequence sequence_of(const Task& t) {
  Sequence s{};
  s.q_begin = t.q_begin;
  s.position = t.position;
  s.kv_len = t.kv_len;
  return s;
}

QUERN_DEVICE void schedule_all(const MlaParams& p, Memory m) {
  const i32 tile = block_index(0) % p.side_by_side;
  Schedule schedule(p);
  note_no_cut(p, schedule.run(), lane() == 0);
  i32 place = 0;
  u32 phase = 0;
  QUERN_ROLLED for (;;) {
    Sequence s;
    Piece piece;
    const bool more = schedule.next(s, piece);
    Task t{};
    if (more) {
      if (piece.begin >= piece.end) continue;
      note_cut(p, s, piece, lane() == 0);
      t.first_row = (piece.group * p.side_by_side + tile) * kRows;
      t.rows = s.q_len * p.heads - t.first_row;
      if (t.rows <= 0) continue;
      if (t.rows > kRows) t.rows = kRows;
      const Range a = visible(p, s, t.first_row), b = visible(p, s, t.first_row + t.rows - 1);
      t.q_begin = s.q_begin;
      t.position = s.position;
      t.kv_len = s.kv_len;
      t.key = s.first + piece.begin * kBlock;
      t.end_key = s.first + piece.end * kBlock;
      t.any = {a.first, b.last};
      t.all = {b.first, a.last};
      t.slot = piece.count > 1 ? slot_of_piece(piece.slot, piece.slot_step, piece.index) : -1;
      t.pages = p.page_indptr ? static_cast<i64>(p.page_indptr[s.index]) : s.index * p.pages_stride;
    }
    mbarrier_wait(m.barriers().done[place], phase ^ 1);
    if (lane() == 0) {
      m.told().tasks[place] = t;
      mbarrier_arrive(m.barriers().told[place]);
    }
    if (!more) break;
    place ^= 1;
    phase ^= static_cast<u32>(place == 0);
  }
}

// Who is told: waits for each task, and says when it needs it no more.
struct Listener {
  Memory m;
  i32 place;
  u32 phase;
  QUERN_DEVICE explicit Listener(Memory memory) : m(memory), place(0), phase(0) {}
  QUERN_DEVICE Task& next() const {
    mbarrier_wait(m.barriers().told[place], phase);
    return m.told().tasks[place];
  }
  QUERN_DEVICE void done() {
    sync_warp();
    if (lane() == 0) mbarrier_arrive(m.barriers().done[place]);
    place ^= 1;
    phase ^= static_cast<u32>(place == 0);
  }
};

// ---- The warp that copies
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
        tma_load(to + i * kTileBytes, maps.latent, full[part], CacheHint::evict_first, 0, rows.slot[c], 2 * part + i, rows.page[c]);
      }
    }
  }
}

template <int block>
QUERN_DEVICE void copy_all(const MlaParams& p, const Maps& maps, Memory m) {
  Listener listener(m);
  u8* keys = m.keys(block);
  Mbarrier* full = m.barriers().full[block];
  u32 round = 0;
  QUERN_ROLLED for (;;) {
    const Task& t = listener.next();
    if (shuffle(t.rows, 0) == 0) break;
    Pages source{p.pages + t.pages, t.any, -kWarp, 0};
    const i32 end = shuffle(t.end_key, 0);
    QUERN_ROLLED for (i32 key = shuffle(t.key, 0) + block * kKeys; key < end; key += kBlock) {
      Rows64 rows;
      rows.count = 0;
      QUERN_UNROLL for (int c = 0; c < kCopies; ++c) {
        const i32 at = key + c * kPageRows;
        rows.page[c] = source.of(p, quotient(at, kPageRows));
        rows.slot[c] = at - quotient(at, p.page_size) * p.page_size;
        rows.needed[c] = is_needed(source.any, at);
        rows.count += rows.needed[c];
      }
      // The half first that is released first, the rope part with the half whose reader reads the weights that lie there.
      constexpr int kFirst = block == 0 ? 0 : 1;
      mbarrier_wait(m.barriers().empty[block][kFirst], round ^ 1);
      if (elect_one()) {
        copy_part<2 * kFirst>(maps, keys, full, rows);
        copy_part<2 * kFirst + 1>(maps, keys, full, rows);
      }
      sync_warp();
      mbarrier_wait(m.barriers().empty[block][1 - kFirst], round ^ 1);
      if (elect_one()) {
        copy_part<2 - 2 * kFirst>(maps, keys, full, rows);
        copy_part<3 - 2 * kFirst>(maps, keys, full, rows);
        copy_part<kRopePart>(maps, keys, full, rows);
      }
      sync_warp();
      round ^= 1;
    }
    listener.done();
  }
}

// ---- The warpgroups that multiply
// Piece `piece` (of 16 bytes) of row `row` of a swizzled tile.
QUERN_DEVICE u32 place_in_tile(i32 row, i32 piece) { return static_cast<u32>(row * 128 + ((piece ^ (row & 7)) << 4)); }

// The part of a matrix descriptor that changes is its low word.
template <Major major>
struct Operand {
  static constexpr u64 kLayout =
      major == Major::k ? k_major_layout(Swizzle::bytes128) : mn_major_layout(Swizzle::bytes128, kKeys);
  u32 low;
  QUERN_DEVICE explicit Operand(const u8* tile) : low(static_cast<u32>(matrix_descriptor(tile, kLayout))) {}
  QUERN_DEVICE u64 at(u32 bytes) const { return (kLayout >> 32 << 32) | (low + (bytes >> 4)); }
};

struct Rows {
  f32 base[2];  // what weights are relative to, in powers of two
  f32 sum[2];   // of this thread's own weights
};

template <int group>
struct Multiplier {
  const MlaParams& p;
  Memory m;
  int thread;  // of the warpgroup
  SharedArray<Mbarrier> full;
  Operand<Major::k> queries, keys;    // keys: of the block whose weights it makes
  Operand<Major::mn> values;          // its half of block 0
  Operand<Major::k> others_weights;

  QUERN_DEVICE Multiplier(const MlaParams& params, Memory memory)
      : p(params), m(memory), thread(thread_index() - group * kGroupThreads), full(memory.barriers().full[0]),
        queries(memory.queries()), keys(memory.queries() + (1 + group) * kBlockBytes),
        values(memory.queries() + kBlockBytes + group * kHalf * kTileBytes),
        others_weights(memory.queries() + (2 - group) * kBlockBytes + kRopeTile * kTileBytes) {}

  // The tile's queries, zeros beyond the last row: by copies of 16 bytes, which any strides allow. Four threads have a row.
  QUERN_DEVICE void load_queries(const Task& t) const {
    const i32 row = thread_index() >> 2;
    const bool take = row < t.rows;
    const i32 of = t.first_row + (take ? row : 0), within = quotient(of, p.heads), head = of - within * p.heads;
    const i64 token = t.q_begin + within;
    const Element* latent = static_cast<const Element*>(p.q) + token * p.q_stride_token + head * p.q_stride_head;
    const Element* rope = static_cast<const Element*>(p.q_rope) + token * p.q_rope_stride_token + head * p.q_rope_stride_head;
    QUERN_UNROLL for (int i = 0; i < kTiles * 2; ++i) {
      const i32 tile = i >> 1, piece = (thread_index() & 3) + (i & 1) * 4;
      const Element* from = (tile == kRopeTile ? rope : latent + tile * 64) + piece * 8;
      copy_async_16(m.queries() + tile * kTileBytes + place_in_tile(row, piece), from, take);
    }
    copy_async_commit();
    copy_async_wait<0>();
    fence_async();
  }

  QUERN_DEVICE void multiply_keys(f32 (&logits)[32], u32 round) const {
    wgmma_fence();
    QUERN_UNROLL for (int i = 0; i < kParts; ++i) {
      // In the order in which they come.
      const int part = group == 0 || i == kRopePart ? i : i ^ 2;
      mbarrier_wait(full, group * kParts + part, round);
      QUERN_UNROLL for (int k = 0; k < (part == kRopePart ? 4 : 8); ++k) {
        const u32 at = static_cast<u32>((2 * part + k / 4) * kTileBytes + k % 4 * 32);
        wgmma<Element>(logits, queries.at(at), keys.at(at), i > 0 || k > 0);
      }
    }
    wgmma_commit();
    wgmma_wait<0>(logits);
  }
  // sums += weights values, the weights its own or the other's, of block `block`; the values its half of the columns.
  QUERN_DEVICE void add_own(f32 (&sums)[128], const u32 (&weights)[4][4]) const {
    wgmma_fence();
    QUERN_UNROLL for (int k = 0; k < 4; ++k) {
      const u32 at = static_cast<u32>(group * kBlockBytes + k * 16 * 128);
      wgmma<Element, Element, Major::k, Major::mn>(sums, weights[k], values.at(at), true);
    }
    wgmma_commit();
  }
  QUERN_DEVICE void add_others(f32 (&sums)[128], u32 round) const {
    // Copied for the other warpgroup, which has seen them arrive; this one has to see it for itself.
    QUERN_UNROLL for (int i = 0; i < 2; ++i) mbarrier_wait(full, (1 - group) * kParts + group * 2 + i, round);
    wgmma_fence();
    QUERN_UNROLL for (int k = 0; k < 4; ++k) {
      const u32 at = static_cast<u32>((1 - group) * kBlockBytes + k * 16 * 128);
      wgmma<Element, Element, Major::k, Major::mn>(sums, others_weights.at(static_cast<u32>(k * 32)), values.at(at), true);
    }
    wgmma_commit();
  }
  QUERN_DEVICE void release(Mbarrier& empty) const {
    if (elect_one()) mbarrier_arrive(empty);
  }

  // How weights so far change when they become relative to `to`: `factor`. True when they do, for some thread of the warp.
  QUERN_DEVICE bool follow(Rows& rows, const f32 (&to)[2], f32 (&factor)[2]) const {
    bool changed = false;
    QUERN_UNROLL for (int h = 0; h < 2; ++h) {
      changed |= to[h] != rows.base[h];
      factor[h] = exp2(rows.base[h] - finite_max(to[h]));
      rows.sum[h] *= factor[h];
      rows.base[h] = to[h];
    }
    return ballot(changed) != 0;
  }

  // What a row does not see becomes -inf.
  QUERN_DEVICE void mask(const Task& t, i32 key, f32 (&logits)[32]) const {
    i32 from[2], to[2];
    QUERN_UNROLL for (int h = 0; h < 2; ++h) {
      const Range seen = visible(p, sequence_of(t), t.first_row + accumulator_row(thread, h));
      from[h] = seen.first - key;
      to[h] = seen.last - key;
    }
    keep_columns(logits, thread, from, to);
  }
  // The maximum that weights are relative to need not be the very maximum: it follows only when it is left behind by more than
  // kSlack, so that what was summed before seldom has to be multiplied. 2^8 is far from overflow in every type involved.
  QUERN_DEVICE void raise(const f32 (&logits)[32], const f32 (&before)[2], f32 (&after)[2]) const {
    f32 max[2] = {-infinity(), -infinity()};
    maximum(logits, max);
    QUERN_UNROLL for (int h = 0; h < 2; ++h) {
      max[h] = quad_max(max[h]) * scale();
      after[h] = max[h] > before[h] + kSlack ? max[h] : before[h];
    }
  }
  QUERN_DEVICE f32 scale() const { return CAP ? 1.0f : p.scale; }
  QUERN_DEVICE void weigh(f32 (&logits)[32], const f32 (&to)[2]) const {
    const f32 base[2] = {finite_max(to[0]), finite_max(to[1])};
    QUERN_UNROLL for (int i = 0; i < 32; ++i) logits[i] = exp2(fma(logits[i], scale(), -base[half_of(i)]));
  }

  // Keys that no row of the tile sees may be anything, NaN too: as values they must be zeros, since their weight is.
  QUERN_DEVICE void clear_unseen(const Range& any, i32 key) const {
    u8* block = m.keys(group);
    QUERN_ROLLED for (i32 i = thread; i < kKeys * kRopeTile * 8; i += kGroupThreads) {
      const i32 row = i >> 6;
      if (key + row >= any.first && key + row < any.last) continue;
      store16(block + (i >> 3 & 7) * kTileBytes + row * 128 + (i & 7) * 16, {});
    }
    fence_async();
  }
  // Weights to where the block's rope part was.
  QUERN_DEVICE void hand_over(const u32 (&weights)[4][4]) const {
    u8* to = m.keys(group) + kRopeTile * kTileBytes;
    const int l = lane(), row = (thread >> 5) * 16 + (l & 15);
    QUERN_UNROLL for (int k = 0; k < 4; ++k) store_matrix<false>(to + place_in_tile(row, k * 2 + (l >> 4)), weights[k]);
    fence_async();
    arrive_named(kWeights0 + group, kConsumers);
  }
  QUERN_DEVICE void publish(f32* to, const f32 (&rows)[2]) const {
    if ((thread & 3) != 0) return;
    QUERN_UNROLL for (int h = 0; h < 2; ++h) to[accumulator_row(thread, h)] = rows[h];
  }
  QUERN_DEVICE void learn(const f32* from, f32 (&rows)[2]) const {
    QUERN_UNROLL for (int h = 0; h < 2; ++h) rows[h] = from[accumulator_row(thread, h)];
  }

  // A pair of blocks, the first at key `key`. Keys from `low` to `high` begin blocks of which every row sees all keys.
  QUERN_DEVICE void take_pair(const Task& t, i32 key, i32 low, i32 high, u32 round, f32 (&sums)[128], Rows& rows) const {
    Barriers& barriers = m.barriers();
    f32 logits[32], factor[2], to[2], before[2] = {1.0f, 1.0f};
    u32 weights[4][4];
    const i32 own_key = key + group * kKeys;
    const bool edge = own_key < low || own_key > high;
    multiply_keys(logits, round);
    arrive_named(kOwn + group, 2 * kGroupThreads);  // this warp has multiplied the rope part, over which weights go
#if CAP
    QUERN_UNROLL for (int i = 0; i < 32; ++i) logits[i] = logit(p, logits[i]);
#endif
    if (edge) mask(t, own_key, logits);
    bool changed_before = false;
    if (group == 0) {
      raise(logits, rows.base, to);
      publish(m.base(0), to);
      arrive_named(kBase, kConsumers);
    } else {
      f32 first[2];
      raise(logits, rows.base, to);
      meet_named(kBase, kConsumers);
      learn(m.base(0), first);
      // From block 0's maxima on, and only then higher: -inf where it has left them alone means no key of it is higher.
      QUERN_UNROLL for (int h = 0; h < 2; ++h) to[h] = to[h] > first[h] + kSlack ? to[h] : first[h];
      changed_before = follow(rows, first, before);
      publish(m.base(1), to);
    }
    const bool changed = follow(rows, to, factor);
    weigh(logits, to);
    to_operand<Element>(logits, weights);
    if (edge) clear_unseen(t.any, own_key);
    meet_named(kOwn + group, 2 * kGroupThreads);
    hand_over(weights);
    if (group == 1) {
      if (changed_before) scale_rows(sums, before);
      meet_named(kWeights0, kConsumers);
      add_others(sums, round);
    }
    sum(logits, rows.sum);
    if (group == 1) {
      wgmma_wait<0>(sums);
      release(barriers.empty[0][1]);
    }
    if (changed) scale_rows(sums, factor);
    add_own(sums, weights);
    if (group == 0) {
      wgmma_wait<0>(sums);
      release(barriers.empty[0][0]);
      meet_named(kWeights1, kConsumers);
      learn(m.base(1), to);
      if (follow(rows, to, factor)) scale_rows(sums, factor);
      add_others(sums, round);
    }
    wgmma_wait<0>(sums);
    release(barriers.empty[1][group]);
  }

  // To `out` by way of shared memory, or to a slot.
  QUERN_DEVICE void write_results(const Task& t, f32 (&sums)[128], Rows& rows) const {
    QUERN_UNROLL for (int h = 0; h < 2; ++h) rows.sum[h] = quad_sum(rows.sum[h]);
    publish(m.sum(group), rows.sum);
    sync_named(kBoth, kConsumers);  // and nobody multiplies queries any more
    const bool first = group == 0 && (thread & 3) == 0;
    const int column = group * 256 + accumulator_column(thread, 0);
    if (t.slot >= 0) {
      f32* slot = slot_at(p, t.slot, block_index(0) % p.side_by_side);
      QUERN_UNROLL for (int h = 0; h < 2; ++h) {
        const i32 row = accumulator_row(thread, h);
        f32* to = slot + row * kLatent + column;
        QUERN_UNROLL for (int i = 2 * h; i < 128; i += 4) {
          *reinterpret_cast<u64*>(to + (i >> 2) * 8) = bits_of(sums[i]) | static_cast<u64>(bits_of(sums[i + 1])) << 32;
        }
        if (!first) continue;
        slot[kRows * kLatent + row] = rows.base[h];
        slot[kRows * (kLatent + 1) + row] = m.sum(0)[row] + m.sum(1)[row];
      }
      return;
    }
    Element* staged = reinterpret_cast<Element*>(m.queries());
    QUERN_UNROLL for (int h = 0; h < 2; ++h) {
      const i32 row = accumulator_row(thread, h);
      const bool there = row < t.rows;
      const RowPlace place = place_of(p, t.q_begin, t.first_row + (there ? row : 0));
      const Finished done = finish(p, rows.base[h], m.sum(0)[row] + m.sum(1)[row], place.head);
      if (first && there && place.lse) *place.lse = done.lse;
      Element* to = staged + row * kOutPitch + column;
      QUERN_UNROLL for (int i = 2 * h; i < 128; i += 4) {
        *reinterpret_cast<u32*>(to + (i >> 2) * 8) = pack<Element>(sums[i] * done.inverse, sums[i + 1] * done.inverse);
      }
    }
    sync_named(kBoth, kConsumers);
    constexpr int kPieces = kLatent / 8;
    QUERN_ROLLED for (i32 i = thread_index(); i < t.rows * kPieces; i += kConsumers) {
      const i32 row = i / kPieces, piece = i % kPieces;
      store16_global(place_of(p, t.q_begin, t.first_row + row).out + piece * 8, load16(staged + row * kOutPitch + piece * 8));
    }
  }

  QUERN_DEVICE void run() const {
    Listener listener(m);
    u32 round = 0;
    f32 sums[128];
    QUERN_ROLLED for (;;) {
      const Task& t = listener.next();
      if (shuffle(t.rows, 0) == 0) break;
      sync_named(kBoth, kConsumers);  // whoever still reads results where the queries go
      load_queries(t);
      sync_named(kBoth, kConsumers);
      Rows rows = {{-infinity(), -infinity()}, {0.0f, 0.0f}};
      QUERN_UNROLL for (int i = 0; i < 128; ++i) sums[i] = 0.0f;
      const i32 end = shuffle(t.end_key, 0), low = shuffle(t.all.first, 0), high = shuffle(t.all.last, 0) - kKeys;
      QUERN_ROLLED for (i32 key = shuffle(t.key, 0); key < end; key += kBlock) {
        take_pair(t, key, low, high, round, sums, rows);
        round ^= 1;
      }
      write_results(t, sums, rows);
      listener.done();
    }
  }
};

}  // namespace q

QUERN_KERNEL(quern_mla_rows64, THREADS, 1, QUERN_PARAM q::MlaParams p, QUERN_PARAM q::TensorMap latent, QUERN_PARAM q::TensorMap rope) {
  using namespace q;
  const Memory memory = {tile_shared()};
  if (thread_index() == 0) {
    Barriers& b = memory.barriers();
    QUERN_ROLLED for (int i = 0; i < 2 * kParts; ++i) mbarrier_init(b.full[0][i], 1);
    QUERN_ROLLED for (int i = 0; i < 4; ++i) mbarrier_init(b.empty[0][i], kGroupThreads / kWarp);
    QUERN_ROLLED for (int i = 0; i < 2; ++i) {
      mbarrier_init(b.told[i], 1);
      mbarrier_init(b.done[i], kConsumers / kWarp + 2);
    }
    fence_mbarrier_init();
    if (p.pool_pages > 0) {
      prefetch_tensor_map(latent);
      prefetch_tensor_map(rope);
    }
  }
  sync_block();
  launch_next_grid();
  wait_for_previous_grid();
  const int group = shuffle(thread_index() / kGroupThreads, 0);
  if (group == 2) {
    registers_shrink<40>();
    const int w = shuffle(warp() - 2 * kGroupThreads / kWarp, 0);
    if (w == 0) copy_all<0>(p, {latent, rope}, memory);
    if (w == 1) copy_all<1>(p, {latent, rope}, memory);
    if (w == 2) schedule_all(p, memory);
  } else {
    registers_grow<232>();
    if (group == 0) {
      Multiplier<0>(p, memory).run();
    } else {
      Multiplier<1>(p, memory).run();
    }
  }
}
