// MLA decode for every target. A block of threads has a tile of rows; keys come block by block through shared memory,
// once for both products, and every warp holds the sums of its own columns of the result.
//
//   logits = scale queries keys^T      the warps share the 16x16 tiles
//   weights = softmax, running          the warps share the rows
//   sums = sums rescaled + weights keys, whose first D_LATENT columns are the values
// SPDX-License-Identifier: Apache-2.0
#include "mla_decode/kernels/portable/keys.cuh"

namespace q {

inline constexpr int kStages = STAGES;
inline constexpr int kRowTiles = kRows / 16;
inline constexpr int kKeyTiles = kBlock / 16;
inline constexpr int kColumnTiles = div_up(kLatent / 16, kWarps);  // that a warp has
inline constexpr int kHeld = 256 / kWarp;                          // elements of a tile that a lane has
inline constexpr int kLogitPitch = logit_pitch(kBlock);
inline constexpr int kWeightPitch = tile_pitch(kBlock);
inline constexpr PortableLayout kLayout = portable_layout(kKind, kColumns, kRows, kBlock, kStages);
static_assert(sizeof(KeyPlaces) <= kBlock * 24);

struct Memory {
  Element* queries;
  u8* stages;
  Element* numbers;
  f32* logits;
  Element* weights;
  f32 *max, *sum, *rescale;
  KeyPlaces* places;  // of two blocks
};
QUERN_DEVICE Memory carve(u8* shared) {
  Memory m;
  m.queries = reinterpret_cast<Element*>(shared + kLayout.queries);
  m.stages = shared + kLayout.stages;
  m.numbers = reinterpret_cast<Element*>(shared + kLayout.numbers);
  m.logits = reinterpret_cast<f32*>(shared + kLayout.logits);
  m.weights = reinterpret_cast<Element*>(shared + kLayout.weights);
  m.max = reinterpret_cast<f32*>(shared + kLayout.rows);
  m.sum = m.max + kRows;
  m.rescale = m.sum + kRows;
  m.places = reinterpret_cast<KeyPlaces*>(shared + kLayout.keys);
  return m;
}

struct Sums {
  Accumulator x[kRowTiles][kColumnTiles];
};

QUERN_DEVICE void multiply_keys(const Memory& m, const Element* keys) {
  QUERN_ROLLED for (int unit = warp(); unit < kRowTiles * kKeyTiles; unit += kWarps) {
    const int row = unit / kKeyTiles * 16, key = unit % kKeyTiles * 16;
    Accumulator sum = {};
    QUERN_FOUR_AT_ONCE for (int k = 0; k < kColumns; k += 16) {
      mma(sum, load_a(m.queries + row * kPitch + k, kPitch), load_b(keys + key * kPitch + k, kPitch));
    }
    QUERN_UNROLL for (int i = 0; i < kHeld; ++i) {
      m.logits[(row + row_of(lane(), held_row(i))) * kLogitPitch + key + column_of(lane(), i)] = sum.x[i];
    }
  }
}

// Of the block at key `first`, keys that only some of the rows see: `all` is what all of them do.
QUERN_DEVICE void clear_nan(i32 first, const Range& all, Element* keys) {
  constexpr int kPieces = kLatent / 8;
  if (first >= all.first && first + kBlock <= all.last) return;
  QUERN_ROLLED for (i32 i = thread_index(); i < kBlock * kPieces; i += kThreads) {
    const i32 row = i / kPieces, piece = i - row * kPieces;
    if (first + row >= all.first && first + row < all.last) continue;
    Element* at = keys + row * kPitch + piece * 8;
    store16(at, without_nan(load16(at)));
  }
}

// Logits to weights, and what the rows' sums so far are to be multiplied with.
QUERN_DEVICE void weigh(const MlaParams& p, const Sequence& s, const Memory& m, const KeyPlaces& places,
                        i32 first_row) {
  constexpr int kEach = div_up(kBlock, kWarp);
  QUERN_ROLLED for (int row = warp(); row < kRows; row += kWarps) {
    const Range seen = visible(p, s, first_row + row);
    f32 x[kEach], max = -infinity();
    QUERN_UNROLL for (int e = 0; e < kEach; ++e) {
      const int key = e * kWarp + lane();
      x[e] = -infinity();
      if (key < kBlock) {
        const i32 position = places.position[key];
        if (position >= 0 && position >= seen.first && position < seen.last)
          x[e] = logit(p, m.logits[row * kLogitPitch + key]);
      }
      max = fmax(max, x[e]);
    }
    max = warp_max(max);
    const f32 before = m.max[row], grown = fmax(before, max), base = finite_max(grown);
    f32 sum = 0.0f;
    QUERN_UNROLL for (int e = 0; e < kEach; ++e) {
      const int key = e * kWarp + lane();
      const f32 weight = exp2(x[e] - base);
      sum += weight;
      if (key < kBlock) m.weights[row * kWeightPitch + key] = from_f32<Element>(weight);
    }
    sum = warp_sum(sum);
    sync_warp();  // all lanes have read the row's maximum
    if (lane() == 0) {
      const f32 rescale = exp2(before - base);
      m.max[row] = grown;
      m.sum[row] = fma(m.sum[row], rescale, sum);
      m.rescale[row] = rescale;
    }
  }
}

QUERN_DEVICE void multiply_values(const Memory& m, const Element* keys, Sums& sums) {
  bool changed = false;
  f32 factor[kRowTiles][kRowsHeld];
  QUERN_UNROLL for (int t = 0; t < kRowTiles; ++t) {
    QUERN_UNROLL for (int h = 0; h < kRowsHeld; ++h) {
      factor[t][h] = m.rescale[t * 16 + row_of(lane(), h)];
      changed |= factor[t][h] != 1.0f;
    }
  }
  if (ballot(changed)) {
    QUERN_UNROLL for (int t = 0; t < kRowTiles; ++t) {
      QUERN_UNROLL for (int c = 0; c < kColumnTiles; ++c) {
        QUERN_UNROLL for (int i = 0; i < kHeld; ++i) sums.x[t][c].x[i] *= factor[t][held_row(i)];
      }
    }
  }
  QUERN_ROLLED for (int k = 0; k < kBlock; k += 16) {
    OperandA<Element> weights[kRowTiles];
    QUERN_UNROLL for (int t = 0; t < kRowTiles; ++t) weights[t] =
        load_a(m.weights + t * 16 * kWeightPitch + k, kWeightPitch);
    QUERN_UNROLL for (int c = 0; c < kColumnTiles; ++c) {
      const int column = (warp() * kColumnTiles + c) * 16;
      if (kLatent / 16 % kColumnTiles != 0 || kLatent / 16 < kWarps * kColumnTiles) {
        if (column >= kLatent) continue;  // the same for all lanes
      }
      const OperandB<Element> values = load_b_transposed(keys + k * kPitch + column, kPitch);
      QUERN_UNROLL for (int t = 0; t < kRowTiles; ++t) mma(sums.x[t][c], weights[t], values);
    }
  }
}

// To `out`, or to the piece's slot.
QUERN_DEVICE void write_results(const MlaParams& p, const Sequence& s, const Piece& piece, i32 first_row, i32 tile,
                                const Memory& m, const Sums& sums) {
  f32* slot = piece.count > 1 ? slot_at(p, slot_of_piece(piece.slot, piece.slot_step, piece.index), tile) : nullptr;
  const i32 rows = s.q_len * p.heads - first_row;
  QUERN_UNROLL for (int t = 0; t < kRowTiles; ++t) {
    QUERN_UNROLL for (int h = 0; h < kRowsHeld; ++h) {
      const i32 row = t * 16 + row_of(lane(), h);
      if (row >= rows) continue;
      const f32 max = m.max[row], sum = m.sum[row];
      RowPlace place{};
      Finished done{1.0f, 0.0f};
      if (!slot) {
        place = place_of(p, s.q_begin, first_row + row);
        done = finish(p, max, sum, place.head);
      }
      const bool first = warp() == 0 && column_of(lane(), 0) == 0;
      if (first && slot) slot[kRows * kLatent + row] = max, slot[kRows * (kLatent + 1) + row] = sum;
      if (first && !slot && place.lse) *place.lse = done.lse;
      QUERN_UNROLL for (int c = 0; c < kColumnTiles; ++c) {
        QUERN_UNROLL for (int i = 0; i < kHeld; i += 2) {
          if (held_row(i) != h) continue;
          const i32 column = (warp() * kColumnTiles + c) * 16 + column_of(lane(), i);
          if (column >= kLatent) continue;
          const f32 x = sums.x[t][c].x[i] * done.inverse, y = sums.x[t][c].x[i + 1] * done.inverse;
          if (slot) {
            slot[row * kLatent + column] = x;
            slot[row * kLatent + column + 1] = y;
          } else {
            *reinterpret_cast<u32*>(place.out + column) = pack<Element>(x, y);
          }
        }
      }
    }
  }
}

QUERN_DEVICE void take_piece(const MlaParams& p, Sequence s, const Piece& piece, const Memory& m) {
  Listed listed{};
  if (kListed) {
    listed = listed_of(p, s.index);
    s.kv_len = listed.kv_len;
    s.position = listed.position;
    if (listed.sequence < 0) s.q_len = 0;
  }
  note_cut(p, s, piece, thread_index() == 0);
  const i32 tile = tile_of_block(p), first_row = (piece.group * p.side_by_side + tile) * kRows;
  if (first_row >= s.q_len * p.heads) return;
  const i32 last_row = s.q_len * p.heads - 1 < first_row + kRows - 1 ? s.q_len * p.heads - 1 : first_row + kRows - 1;
  const Range of_first = visible(p, s, first_row), of_last = visible(p, s, last_row);
  const Range seen = {of_first.first, of_last.last}, all = {of_last.first, of_first.last};

  sync_block();  // whoever still reads what the piece before left in shared memory
  copy_queries(p, s, first_row, m.queries);
  QUERN_ROLLED for (i32 r = thread_index(); r < kRows; r += kThreads) m.max[r] = -infinity(), m.sum[r] = 0.0f;
  look_up(p, s, listed, seen, piece.begin, m.places[0]);
  sync_block();
  copy_keys(m.places[0], m.stages);
  copy_async_commit();
  Sums sums{};
  int stage = 0, buffer = 0;
  QUERN_ROLLED for (i32 block = piece.begin; block < piece.end; ++block) {
    const bool more = block + 1 < piece.end;
    if (more) look_up(p, s, listed, seen, block + 1, m.places[buffer ^ 1]);
    if (kStages > 1) {
      sync_block();
      if (more) copy_keys(m.places[buffer ^ 1], m.stages + (stage ^ 1) * kLayout.stage_bytes);
      copy_async_commit();
      copy_async_wait<1>();
    } else {
      copy_async_wait<0>();
    }
    sync_block();
    u8* raw = m.stages + stage * kLayout.stage_bytes;
    Element* keys = reinterpret_cast<Element*>(raw);
    if (kQuantised) {
      widen_keys(p, m.places[buffer], raw, m.numbers);
      sync_block();
      keys = m.numbers;
    }
    multiply_keys(m, keys);
    sync_block();
    weigh(p, s, m, m.places[buffer], first_row);
    if (!kListed && differ(seen, all)) clear_nan(s.first + block * kBlock, all, keys);
    sync_block();
    multiply_values(m, keys, sums);
    sync_block();
    if (kStages == 1 && more) copy_keys(m.places[buffer ^ 1], m.stages);
    if (kStages == 1) copy_async_commit();
    buffer ^= 1;
    if (kStages > 1) stage ^= 1;
  }
  write_results(p, s, piece, first_row, tile, m, sums);
}

}  // namespace q

QUERN_KERNEL(quern_mla_decode, THREADS, 1, QUERN_PARAM q::MlaParams p) {
  using namespace q;
  launch_next_grid();
  wait_for_previous_grid();
  const Memory memory = carve(dynamic_shared());
  Schedule schedule(p);
  note_no_cut(p, schedule.run(), thread_index() == 0);
  Sequence sequence;
  Piece piece;
  QUERN_ROLLED while (schedule.next(sequence, piece)) {
    if (piece.begin < piece.end) take_piece(p, sequence, piece, memory);
  }
}
