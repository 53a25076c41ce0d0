// MLA decode on Hopper: d_latent 512 and d_rope 64, tiles of 64 rows, keys by blocks of 64.
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
// A block of keys is nine tiles of 64 columns, each copied on its own with a barrier of its own, and filled again by halves as soon
// as the half's columns have been multiplied.
// SPDX-License-Identifier: Apache-2.0
#include "common/sm90/accumulator.cuh"
#include "common/sm90/tma.cuh"
#include "common/sm90/wgmma.cuh"
#include "mla_decode/kernels/shared/schedule.cuh"

namespace q {

inline constexpr int kTiles = 9, kRopeTile = 8, kHalf = 4;  // of 64 columns; those of a half of the values
inline constexpr int kTileBytes = kRows64Tile, kBlockBytes = kRows64Matrix;
inline constexpr int kGroupThreads = 128, kConsumers = 2 * kGroupThreads;
inline constexpr int kPageRows = PAGE_ROWS;              // of one copy
inline constexpr int kCopies = kBlock / kPageRows;       // of one tile
inline constexpr int kOutPitch = kLatent + 8;            // elements from row to row of staged results
inline constexpr f32 kSlack = 8.0f;  // by how much a maximum may be left behind, in powers of two: see raise()
static_assert(kRows == 64 && kBlock == 64 && kLatent == 512 && kRope == 64 && THREADS == kRows64Threads);
static_assert(kRows * kOutPitch * 2 <= kBlockBytes, "results are staged where the queries were");

// Named barriers: the weights of block 0 and of block 1 are there; one of each warpgroup; one of both.
enum Named { kWeights0 = 1, kWeights1 = 2, kOwn = 3, kBoth = 5 };

struct Barriers {
  Mbarrier full[2][kTiles];
  Mbarrier empty[2][2];  // of block 0: left; right and rope. Of block 1: left and rope; right
};
static_assert(sizeof(Barriers) <= kRows64Barriers);

struct Memory {
  u8* queries;
  u8* keys[2];
  f32* base[2];  // the rows' maxima as block 0's and as block 1's logits left them
  f32* sum[2];   // of each warpgroup's weights
  Barriers* barriers;
};
QUERN_DEVICE Memory carve(u8* shared) {
  Memory m;
  m.queries = shared;
  m.keys[0] = shared + kBlockBytes;
  m.keys[1] = shared + 2 * kBlockBytes;
  f32* numbers = reinterpret_cast<f32*>(shared + 3 * kBlockBytes);
  m.base[0] = numbers, m.base[1] = numbers + kRows;
  m.sum[0] = numbers + 2 * kRows, m.sum[1] = numbers + 3 * kRows;
  m.barriers = reinterpret_cast<Barriers*>(shared + 3 * kBlockBytes + kRows64Numbers);
  return m;
}

// Of a piece, what copying and multiplying it both need.
struct Tile {
  i32 first_row, rows;  // of the sequence's rows; none where rows <= 0
  Range any, all;       // what any of its rows sees, and what all of them see
};
QUERN_DEVICE Tile tile_of(const MlaParams& p, const Sequence& s, const Piece& piece) {
  Tile t;
  t.first_row = (piece.group * p.side_by_side + block_index(0) % p.side_by_side) * kRows;
  t.rows = s.q_len * p.heads - t.first_row;
  const i32 last_row = t.first_row + (t.rows < kRows ? t.rows : kRows) - 1;
  const Range a = visible(p, s, t.first_row), b = visible(p, s, last_row > t.first_row ? last_row : t.first_row);
  t.any = {a.first, b.last};
  t.all = {b.first, a.last};
  return t;
}

// ---- The warp that copies
struct Source {
  const i32* pages;
  i32 held;     // the first of kWarp copies whose pages the lanes hold
  i32 page;
};

// Whether some row of the tile sees any of the copy's keys, the first of which is `key`.
QUERN_DEVICE bool is_needed(const Tile& t, i32 key) { return key < t.any.last && key + kPageRows > t.any.first; }

// The page of copy `at` of the sequence, copies counting from key 0.
QUERN_DEVICE i32 page_of(const MlaParams& p, const Tile& t, Source& source, i32 at) {
  if (at - source.held >= kWarp || at < source.held) {
    source.held = at;
    const i32 key = (at + lane()) * kPageRows;
    source.page = is_needed(t, key) ? source.pages[quotient(key, p.page_size)] : 0;
    if (static_cast<u32>(source.page) >= static_cast<u32>(p.pool_pages)) {
      source.page = p.pool_pages;  // beyond the pool the copy gives zeros
      tell(p, kBadPage);
    }
  }
  return shuffle(source.page, at - source.held);
}

template <int kFrom, int kTo>
QUERN_DEVICE void copy_tiles(const MlaParams& p, const TensorMap& latent, const TensorMap& rope, u8* keys, Mbarrier* full,
                             i32 key, const i32 (&pages)[kCopies], const Tile& t) {
  if (lane() != 0) return;
  i32 copies = 0;
  QUERN_UNROLL for (int c = 0; c < kCopies; ++c) copies += is_needed(t, key + c * kPageRows);
  QUERN_ROLLED for (int tile = kFrom; tile < kTo; ++tile) {
    mbarrier_arrive_expect(full[tile], static_cast<u32>(copies * kPageRows * 128));
    QUERN_UNROLL for (int c = 0; c < kCopies; ++c) {
      const i32 at = key + c * kPageRows;
      if (!is_needed(t, at)) continue;
      const i32 slot = at - quotient(at, p.page_size) * p.page_size;
      u8* to = keys + tile * kTileBytes + c * kPageRows * 128;
      if (tile == kRopeTile) {
        tma_load(to, rope, full[tile], CacheHint::evict_first, 0, slot, pages[c]);
      } else {
        tma_load(to, latent, full[tile], CacheHint::evict_first, tile * 64, slot, pages[c]);
      }
    }
  }
}

QUERN_DEVICE void copy_all(const MlaParams& p, const TensorMap& latent, const TensorMap& rope, const Memory& m) {
  u32 round[2] = {0, 0};
  Schedule schedule(p);
  QUERN_ROLLED while (schedule.more()) {
    Sequence s;
    const Piece piece = schedule.next(s);
    if (piece.begin >= piece.end) continue;
    const Tile t = tile_of(p, s, piece);
    if (t.rows <= 0) continue;
    Source source;
    source.pages = p.pages + (p.page_indptr ? static_cast<i64>(p.page_indptr[s.index]) : s.index * p.pages_stride);
    source.held = -2 * kWarp;
    QUERN_ROLLED for (i32 block = piece.begin; block < piece.end; ++block) {
      const int b = (block - piece.begin) & 1;
      const i32 key = s.first + block * kBlock;
      i32 pages[kCopies];
      QUERN_UNROLL for (int c = 0; c < kCopies; ++c) pages[c] = page_of(p, t, source, quotient(key, kPageRows) + c);
      Mbarrier* full = m.barriers->full[b];
      mbarrier_wait(m.barriers->empty[b][0], round[b] ^ 1);
      copy_tiles<0, kHalf>(p, latent, rope, m.keys[b], full, key, pages, t);
      if (b == 1) copy_tiles<kRopeTile, kTiles>(p, latent, rope, m.keys[b], full, key, pages, t);
      mbarrier_wait(m.barriers->empty[b][1], round[b] ^ 1);
      copy_tiles<kHalf, kRopeTile>(p, latent, rope, m.keys[b], full, key, pages, t);
      if (b == 0) copy_tiles<kRopeTile, kTiles>(p, latent, rope, m.keys[b], full, key, pages, t);
      round[b] ^= 1;
    }
  }
}

// ---- The warpgroups that multiply
// Byte `column` (of 128, in 16s) of row `row` of a swizzled tile.
QUERN_DEVICE u32 place_in_tile(i32 row, i32 piece) { return static_cast<u32>(row * 128 + ((piece ^ (row & 7)) << 4)); }

// The tile's queries, zeros beyond the last row: by plain loads, which any strides allow.
QUERN_DEVICE void load_queries(const MlaParams& p, const Sequence& s, const Tile& t, u8* to, int thread) {
  constexpr int kPieces = kTiles * 8;  // of 16 bytes, of a row
  QUERN_UNROLL for (int i = 0; i < kRows * kPieces / kConsumers; ++i) {
    const i32 at = i * kConsumers + thread, row = at / kPieces, piece = at - row * kPieces;
    vec16 v{};
    if (row < t.rows) {
      const i32 of = t.first_row + row, within = quotient(of, p.heads), head = of - within * p.heads;
      const i64 token = s.q_begin + within;
      const Element* from = static_cast<const Element*>(p.q) + token * p.q_stride_token + head * p.q_stride_head + piece * 8;
      if (piece >= kRopeTile * 8) {
        from = static_cast<const Element*>(p.q_rope) + token * p.q_rope_stride_token + head * p.q_rope_stride_head +
               (piece - kRopeTile * 8) * 8;
      }
      v = load16(from);
    }
    store16(to + piece / 8 * kTileBytes + place_in_tile(row, piece & 7), v);
  }
}

struct Rows {
  f32 base[2];  // what weights are relative to, in powers of two
  f32 sum[2];   // of this thread's own weights
};

// The maximum that weights are relative to need not be the very maximum: it follows only when it is left behind by more than
// kSlack, so that what was summed before seldom has to be multiplied. 2^8 is far from overflow in every type involved.
// True when a row's has changed, for some thread of the warp: what was summed is then to be multiplied by `factor`.
QUERN_DEVICE bool follow(Rows& rows, const f32 (&to)[2], f32 (&factor)[2]) {
  bool changed = false;
  QUERN_UNROLL for (int h = 0; h < 2; ++h) {
    changed |= to[h] != rows.base[h];
    factor[h] = exp2(rows.base[h] - finite_max(to[h]));
    rows.sum[h] *= factor[h];
    rows.base[h] = to[h];
  }
  return ballot(changed) != 0;
}
QUERN_DEVICE void raise(const f32 (&before)[2], const f32 (&max)[2], f32 (&after)[2]) {
  QUERN_UNROLL for (int h = 0; h < 2; ++h) after[h] = max[h] > before[h] + kSlack ? max[h] : before[h];
}

QUERN_DEVICE void multiply_keys(f32 (&logits)[32], const Memory& m, int block, u32 round) {
  const u64 queries = matrix_descriptor(m.queries, k_major_layout(Swizzle::bytes128));
  const u64 keys = matrix_descriptor(m.keys[block], k_major_layout(Swizzle::bytes128));
  wgmma_fence();
  QUERN_UNROLL for (int i = 0; i < kTiles; ++i) {
    // In the order in which they are copied.
    const int tile = block == 0 || i < kHalf ? i : i == kHalf ? kRopeTile : i - 1;
    mbarrier_wait(m.barriers->full[block][tile], round);
    QUERN_UNROLL for (int k = 0; k < 4; ++k) {
      const u32 at = static_cast<u32>(tile * kTileBytes + k * 32);
      wgmma<Element, Element>(logits, advanced(queries, at), advanced(keys, at), i > 0 || k > 0);
    }
  }
  wgmma_commit();
  wgmma_wait<0>(logits);
}

// A warpgroup's half of the columns: sums += weights keys.
QUERN_DEVICE void multiply_values(f32 (&sums)[128], const u32 (&weights)[4][4], const u8* keys) {
  const u64 values = matrix_descriptor(keys, mn_major_layout(Swizzle::bytes128, kBlock));
  wgmma_fence();
  QUERN_UNROLL for (int k = 0; k < 4; ++k) {
    wgmma<Element, Element, Major::k, Major::mn>(sums, weights[k], advanced(values, static_cast<u32>(k * 16 * 128)), true);
  }
  wgmma_commit();
}
QUERN_DEVICE void multiply_values(f32 (&sums)[128], const u8* weights, const u8* keys) {
  const u64 from = matrix_descriptor(weights, k_major_layout(Swizzle::bytes128));
  const u64 values = matrix_descriptor(keys, mn_major_layout(Swizzle::bytes128, kBlock));
  wgmma_fence();
  QUERN_UNROLL for (int k = 0; k < 4; ++k) {
    wgmma<Element, Element, Major::k, Major::mn>(sums, advanced(from, static_cast<u32>(k * 32)),
                                                 advanced(values, static_cast<u32>(k * 16 * 128)), true);
  }
  wgmma_commit();
}

QUERN_DEVICE void store_weights(u8* to, const u32 (&weights)[4][4], int thread) {
  const int l = thread & 31, row = (thread >> 5) * 16 + (l & 15);
  QUERN_UNROLL for (int k = 0; k < 4; ++k) store_matrix<false>(to + place_in_tile(row, k * 2 + (l >> 4)), weights[k]);
}

// Products to weights: what a block's rows do not see becomes -inf; the rows' maxima rise; exponents.
QUERN_DEVICE void mask(const MlaParams& p, const Sequence& s, const Tile& t, f32 (&logits)[32], i32 key, int thread) {
#if CAP
  QUERN_UNROLL for (int i = 0; i < 32; ++i) logits[i] = logit(p, logits[i]);
#endif
  if (key >= t.all.first && key + kBlock <= t.all.last) return;
  i32 from[2], to[2];
  QUERN_UNROLL for (int h = 0; h < 2; ++h) {
    const Range seen = visible(p, s, t.first_row + accumulator_row(thread, h));
    from[h] = seen.first - key;
    to[h] = seen.last - key;
  }
  keep_columns(logits, thread, from, to);
}
QUERN_DEVICE void largest(const MlaParams& p, const f32 (&logits)[32], f32 (&max)[2]) {
  max[0] = max[1] = -infinity();
  maximum(logits, max);
  QUERN_UNROLL for (int h = 0; h < 2; ++h) max[h] = quad_max(max[h]) * (CAP ? 1.0f : p.scale);
}
QUERN_DEVICE void weigh(const MlaParams& p, f32 (&logits)[32], Rows& rows, u32 (&weights)[4][4]) {
  const f32 scale = CAP ? 1.0f : p.scale, base[2] = {finite_max(rows.base[0]), finite_max(rows.base[1])};
  QUERN_UNROLL for (int i = 0; i < 32; ++i) logits[i] = exp2(fma(logits[i], scale, -base[half_of(i)]));
  sum(logits, rows.sum);
  to_operand<Element>(logits, weights);
}

// Keys that no row of the tile sees may be anything, NaN too: as values they must be zeros, since their weight is.
QUERN_DEVICE void clear_unseen(const Tile& t, u8* keys, i32 key, int group, int thread) {
  if (key >= t.any.first && key + kBlock <= t.any.last) return;
  QUERN_ROLLED for (i32 i = thread; i < kBlock * kRopeTile * 8; i += kGroupThreads) {
    const i32 row = i >> 6;
    if (key + row >= t.any.first && key + row < t.any.last) continue;
    store16(keys + (i >> 3 & 7) * kTileBytes + row * 128 + (i & 7) * 16, {});
  }
  fence_async();
  sync_named(kOwn + group, kGroupThreads);
}

QUERN_DEVICE void publish(f32* to, const f32 (&rows)[2], int thread) {
  if ((thread & 3) != 0) return;
  QUERN_UNROLL for (int h = 0; h < 2; ++h) to[accumulator_row(thread, h)] = rows[h];
}
QUERN_DEVICE void learn(const f32* from, f32 (&rows)[2], int thread) {
  QUERN_UNROLL for (int h = 0; h < 2; ++h) rows[h] = from[accumulator_row(thread, h)];
}

// One warpgroup's part of a pair of blocks, the first at key `key`. `two`: there is a second.
template <int kGroup>
QUERN_DEVICE void take_pair(const MlaParams& p, const Sequence& s, const Tile& t, const Memory& m, f32 (&sums)[128], Rows& rows,
                            i32 key, bool two, u32 (&round)[2], int thread) {
  f32 logits[32], factor[2], max[2], next[2];
  u32 weights[4][4];
  Barriers& barriers = *m.barriers;
  const u8* half[2] = {m.keys[0] + kGroup * kHalf * kTileBytes, m.keys[1] + kGroup * kHalf * kTileBytes};
  u8* shared_weights[2] = {m.keys[0] + kRopeTile * kTileBytes, m.keys[1] + kRopeTile * kTileBytes};
  if constexpr (kGroup == 0) {
    multiply_keys(logits, m, 0, round[0]);
    mask(p, s, t, logits, key, thread);
    largest(p, logits, max);
    raise(rows.base, max, next);
    const bool changed = follow(rows, next, factor);
    weigh(p, logits, rows, weights);
    sync_named(kOwn, kGroupThreads);  // all warps have taken the rope part, which weights lie over
    clear_unseen(t, m.keys[0], key, 0, thread);
    store_weights(shared_weights[0], weights, thread);
    publish(m.base[0], rows.base, thread);
    fence_async();
    arrive_named(kWeights0, kConsumers);
    if (changed) scale_rows(sums, factor);
    multiply_values(sums, weights, half[0]);
    if (two) {
      meet_named(kWeights1, kConsumers);
      learn(m.base[1], next, thread);
      wgmma_wait<0>(sums);
      if (lane() == 0) mbarrier_arrive(barriers.empty[0][0]);
      if (follow(rows, next, factor)) scale_rows(sums, factor);
      QUERN_UNROLL for (int tile = 0; tile < kHalf; ++tile) mbarrier_wait(barriers.full[1][tile], round[1]);
      multiply_values(sums, shared_weights[1], half[1]);
      wgmma_wait<0>(sums);
      if (lane() == 0) mbarrier_arrive(barriers.empty[1][0]);
    } else {
      wgmma_wait<0>(sums);
      if (lane() == 0) mbarrier_arrive(barriers.empty[0][0]);
    }
  } else {
    if (two) multiply_keys(logits, m, 1, round[1]);
    meet_named(kWeights0, kConsumers);
    learn(m.base[0], next, thread);
    if (follow(rows, next, factor)) scale_rows(sums, factor);
    QUERN_UNROLL for (int tile = kHalf; tile < kRopeTile; ++tile) mbarrier_wait(barriers.full[0][tile], round[0]);
    multiply_values(sums, shared_weights[0], half[0]);
    if (two) {
      mask(p, s, t, logits, key + kBlock, thread);
      largest(p, logits, max);
      raise(rows.base, max, next);
      const bool changed = follow(rows, next, factor);
      weigh(p, logits, rows, weights);
      sync_named(kOwn + 1, kGroupThreads);
      clear_unseen(t, m.keys[1], key + kBlock, 1, thread);
      store_weights(shared_weights[1], weights, thread);
      publish(m.base[1], rows.base, thread);
      fence_async();
      arrive_named(kWeights1, kConsumers);
      wgmma_wait<0>(sums);
      if (lane() == 0) mbarrier_arrive(barriers.empty[0][1]);
      if (changed) scale_rows(sums, factor);
      multiply_values(sums, weights, half[1]);
      wgmma_wait<0>(sums);
      if (lane() == 0) mbarrier_arrive(barriers.empty[1][1]);
    } else {
      wgmma_wait<0>(sums);
      if (lane() == 0) mbarrier_arrive(barriers.empty[0][1]);
    }
  }
  round[0] ^= 1;
  if (two) round[1] ^= 1;
}

// To `out` by way of shared memory, or to the piece's slot.
template <int kGroup>
QUERN_DEVICE void write_results(const MlaParams& p, const Sequence& s, const Piece& piece, const Tile& t, const Memory& m,
                                f32 (&sums)[128], Rows& rows, int thread) {
  QUERN_UNROLL for (int h = 0; h < 2; ++h) rows.sum[h] = quad_sum(rows.sum[h]);
  publish(m.sum[kGroup], rows.sum, thread);
  sync_named(kBoth, kConsumers);  // and nobody multiplies queries any more
  f32 other[2];
  learn(m.sum[kGroup ^ 1], other, thread);
  const bool first = kGroup == 0 && (thread & 3) == 0;
  if (piece.count > 1) {
    f32* slot = slot_at(p, slot_of_piece(piece.slot, piece.slot_step, piece.index), block_index(0) % p.side_by_side);
    QUERN_UNROLL for (int h = 0; h < 2; ++h) {
      const i32 row = accumulator_row(thread, h);
      f32* to = slot + row * kLatent + kGroup * 256 + accumulator_column(thread, 0);
      QUERN_UNROLL for (int i = 2 * h; i < 128; i += 4) {
        *reinterpret_cast<u64*>(to + (i >> 2) * 8) = bits_of(sums[i]) | static_cast<u64>(bits_of(sums[i + 1])) << 32;
      }
      if (first) slot[kRows * kLatent + row] = rows.base[h], slot[kRows * (kLatent + 1) + row] = rows.sum[h] + other[h];
    }
    return;
  }
  Element* staged = reinterpret_cast<Element*>(m.queries);
  QUERN_UNROLL for (int h = 0; h < 2; ++h) {
    const i32 row = accumulator_row(thread, h);
    const bool there = row < t.rows;
    const RowPlace place = place_of(p, s.q_begin, t.first_row + (there ? row : 0));
    // One order of the two sums in both warpgroups: their results have one divisor.
    const f32 all = kGroup == 0 ? rows.sum[h] + other[h] : other[h] + rows.sum[h];
    const Finished done = finish(p, rows.base[h], all, place.head);
    if (first && there && place.lse) *place.lse = done.lse;
    Element* to = staged + row * kOutPitch + kGroup * 256 + accumulator_column(thread, 0);
    QUERN_UNROLL for (int i = 2 * h; i < 128; i += 4) {
      *reinterpret_cast<u32*>(to + (i >> 2) * 8) = pack<Element>(sums[i] * done.inverse, sums[i + 1] * done.inverse);
    }
  }
  sync_named(kBoth, kConsumers);
  constexpr int kPieces = kLatent / 8;
  QUERN_ROLLED for (i32 i = kGroup * kGroupThreads + thread; i < kRows * kPieces; i += kConsumers) {
    const i32 row = i / kPieces, piece_of_row = i % kPieces;
    if (row >= t.rows) break;
    store16_global(place_of(p, s.q_begin, t.first_row + row).out + piece_of_row * 8,
                   load16(staged + row * kOutPitch + piece_of_row * 8));
  }
}

template <int kGroup>
QUERN_DEVICE void multiply_all(const MlaParams& p, const Memory& m) {
  const int thread = thread_index() - kGroup * kGroupThreads;
  u32 round[2] = {0, 0};
  f32 sums[128];
  Schedule schedule(p);
  if (kGroup == 0) note_no_cut(p, schedule.run());
  QUERN_ROLLED while (schedule.more()) {
    Sequence s;
    const Piece piece = schedule.next(s);
    if (piece.begin >= piece.end) continue;
    if (kGroup == 0) note_cut(p, s, piece);
    const Tile t = tile_of(p, s, piece);
    if (t.rows <= 0) continue;
    sync_named(kBoth, kConsumers);  // whoever still reads results where the queries go
    load_queries(p, s, t, m.queries, kGroup * kGroupThreads + thread);
    fence_async();
    sync_named(kBoth, kConsumers);
    Rows rows = {{-infinity(), -infinity()}, {0.0f, 0.0f}};
    QUERN_UNROLL for (int i = 0; i < 128; ++i) sums[i] = 0.0f;
    QUERN_ROLLED for (i32 block = piece.begin; block < piece.end; block += 2) {
      take_pair<kGroup>(p, s, t, m, sums, rows, s.first + block * kBlock, block + 1 < piece.end, round, thread);
    }
    write_results<kGroup>(p, s, piece, t, m, sums, rows, thread);
  }
}

}  // namespace q

QUERN_KERNEL(quern_mla_rows64, THREADS, 1, QUERN_PARAM q::MlaParams p, QUERN_PARAM q::TensorMap latent, QUERN_PARAM q::TensorMap rope) {
  using namespace q;
  const Memory memory = carve(tile_shared());
  if (thread_index() == 0) {
    Barriers& b = *memory.barriers;
    QUERN_ROLLED for (int i = 0; i < 2 * kTiles; ++i) mbarrier_init(b.full[0][i], 1);
    QUERN_ROLLED for (int i = 0; i < 4; ++i) mbarrier_init(b.empty[0][i], kGroupThreads / kWarp);
    fence_mbarrier_init();
    if (p.pool_pages > 0) {
      prefetch_tensor_map(latent);
      prefetch_tensor_map(rope);
    }
  }
  sync_block();
  launch_next_grid();
  wait_for_previous_grid();
  if (warp() >= kConsumers / kWarp) {
    copy_all(p, latent, rope, memory);
  } else if (warp() < kGroupThreads / kWarp) {
    multiply_all<0>(p, memory);
  } else {
    multiply_all<1>(p, memory);
  }
}
