// From logits to weights, and from sums to results: what a warpgroup does with the accumulators of a tile of 64 rows.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/sm90/accumulator.cuh"
#include "common/sm90/wgmma.cuh"
#include "mla_decode/kernels/sm90/tasks.cuh"

namespace q {

inline constexpr int kTiles = 9, kRopeTile = 8, kHalf = 4;  // of 64 columns; those of a half of the values
inline constexpr int kTileBytes = kRows64Tile, kBlockBytes = kRows64Matrix;
inline constexpr int kGroupThreads = 128;
inline constexpr int kKeys = 64;     // of a block; the schedule counts pairs
inline constexpr f32 kSlack = 8.0f;  // by how much a maximum may be left behind, in powers of two: see raise()
static_assert(kRows == 64 && kBlock == 2 * kKeys && kLatent == 512 && kRope == 64);

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

// A thread of a warpgroup that has logits of a block of keys.
struct Weigher {
  const MlaParams& p;
  int thread;  // of the warpgroup

  // How weights so far change when they become relative to `to`: `factor`. True when they do, for some thread of the
  // warp.
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
  // The maximum that weights are relative to need not be the very maximum: it follows only when it is left behind by
  // more than kSlack, so that what was summed before seldom has to be multiplied. 2^8 is far from overflow in every
  // type involved.
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
  // Weights as operand A of the next product, to a tile; whoever reads them is told afterwards.
  QUERN_DEVICE void store_weights(u8* to, const u32 (&weights)[4][4]) const {
    const int l = lane(), row = (thread >> 5) * 16 + (l & 15);
    QUERN_UNROLL for (int k = 0; k < 4; ++k) store_matrix<false>(to + place_in_tile(row, k * 2 + (l >> 4)), weights[k]);
    fence_async();
  }
  // Keys that no row of the tile sees may be anything, NaN too: as values they must be zeros, since their weight is.
  QUERN_DEVICE void clear_unseen(u8* block, const Range& any, i32 key) const {
    QUERN_ROLLED for (i32 i = thread; i < kKeys * kRopeTile * 8; i += kGroupThreads) {
      const i32 row = i >> 6;
      if (key + row >= any.first && key + row < any.last) continue;
      store16(block + (i >> 3 & 7) * kTileBytes + row * 128 + (i & 7) * 16, {});
    }
    fence_async();
  }

  // A number a row, that four threads have alike.
  QUERN_DEVICE void publish(f32* to, const f32 (&rows)[2]) const {
    if ((thread & 3) != 0) return;
    QUERN_UNROLL for (int h = 0; h < 2; ++h) to[accumulator_row(thread, h)] = rows[h];
  }
  QUERN_DEVICE void learn(const f32* from, f32 (&rows)[2]) const {
    QUERN_UNROLL for (int h = 0; h < 2; ++h) rows[h] = from[accumulator_row(thread, h)];
  }
};

// A thread of a warpgroup that has the sums of one half of the columns.
struct Writer {
  const MlaParams& p;
  int half, thread;
  QUERN_DEVICE bool first() const { return half == 0 && (thread & 3) == 0; }

  // To a slot: maxima and sums of weights, and the sums themselves.
  QUERN_DEVICE void write_rows(f32* slot, const f32 (&base)[2], const f32 (&total)[2]) const {
    if (!first()) return;
    QUERN_UNROLL for (int h = 0; h < 2; ++h) {
      const i32 row = accumulator_row(thread, h);
      slot[kRows * kLatent + row] = base[h];
      slot[kRows * (kLatent + 1) + row] = total[h];
    }
  }
  QUERN_DEVICE void write_partial(f32* slot, const f32 (&sums)[128]) const {
    const int column = half * 256 + accumulator_column(thread, 0);
    QUERN_UNROLL for (int h = 0; h < 2; ++h) {
      f32* to = slot + accumulator_row(thread, h) * kLatent + column;
      QUERN_UNROLL for (int i = 2 * h; i < 128; i += 4) {
        *reinterpret_cast<u64*>(to + (i >> 2) * 8) = bits_of(sums[i]) | static_cast<u64>(bits_of(sums[i + 1])) << 32;
      }
    }
  }
  // To `out`.
  QUERN_DEVICE void write_out(const Task& t, const f32 (&sums)[128], const f32 (&base)[2],
                              const f32 (&total)[2]) const {
    QUERN_UNROLL for (int h = 0; h < 2; ++h) {
      const i32 row = accumulator_row(thread, h);
      const bool there = row < t.rows;
      const RowPlace place = place_of(p, t.q_begin, t.first_row + (there ? row : 0));
      const Finished done = finish(p, base[h], total[h], place.head);
      if (first() && there && place.lse) *place.lse = done.lse;
      // Of four groups of eight columns each of the four threads that have the row gets one.
      Element* to = place.out + half * 256 + (thread & 3) * 8;
      QUERN_UNROLL for (int i = 0; i < 8; ++i) {
        u32 v[4];
        QUERN_UNROLL for (int g = 0; g < 4; ++g) {
          const int e = i * 16 + g * 4 + 2 * h;
          v[g] = pack<Element>(sums[e] * done.inverse, sums[e + 1] * done.inverse);
        }
        transpose_quad(v, thread);
        if (there) store16_global(to + i * 32, {v[0], v[1], v[2], v[3]});
      }
    }
  }
};

// sums += weights values of a block, the values one half of its columns. One product of all 256 columns needs more
// registers than 512 threads have at their start.
QUERN_DEVICE void add_values(f32 (&sums)[128], const Operand<Major::k>& weights, const Operand<Major::mn>& values,
                             u32 block_bytes) {
  wgmma_fence();
  QUERN_UNROLL for (int i = 0; i < 2; ++i) {
    wgmma_four<32, 16 * 128, Element, Element, Major::k, Major::mn>(
        *reinterpret_cast<f32(*)[64]>(sums + 64 * i), weights.at(block_bytes),
        values.at(block_bytes + static_cast<u32>(2 * i * kTileBytes)), true);
  }
  wgmma_commit();
  wgmma_wait<0>(sums);
}

// Queries by the 256 threads that have sums: four threads have a row. `latent` has eight tiles, `rope` one.
QUERN_DEVICE void load_queries(const MlaParams& p, const Task& t, int thread, u8* latent, u8* rope) {
  const i32 row = thread >> 2;
  const QueryRow from(p, t, row);
  QUERN_UNROLL for (int i = 0; i < kTiles * 2; ++i) {
    const i32 tile = i >> 1, piece = (thread & 3) + (i & 1) * 4;
    copy_async_16((tile == kRopeTile ? rope : latent + tile * kTileBytes) + place_in_tile(row, piece),
                  (tile == kRopeTile ? from.rope : from.latent + tile * 64) + piece * 8, from.there);
  }
  copy_async_commit();
  copy_async_wait<0>();
  fence_async();
}

}  // namespace q
