// From a consumer's sums to results, straight from registers: to `out`, or where an item is cut to the piece's slot,
// and then whoever comes last joins the item's slots.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "attention/kernels/sm90/mend.cuh"

namespace q {

// 16 bytes a thread: the threads of a quad exchange their columns. Sums of a tile's columns from first_column on; where
// these are cut there may be fewer.
template <bool kCut = false, int count>
QUERN_DEVICE void write_out(const AttentionParams& p, const Sequence& s, i32 head, const Rows& rows, int thread,
                            const RowSoftmax& softmax, const f32 (&sum)[2], const f32 (&o)[count],
                            i32 first_column = 0) {
  constexpr int kOctets = count / 4;
  QUERN_UNROLL for (int h = 0; h < 2; ++h) {
    const i32 row = rows.first + 8 * h;
    const bool inside = row < s.q_len * kGroup;
    const RowPlace place = place_of(p, s, head, inside ? row : 0);
    const Finished done = finish(p, softmax.max[h], sum[h], place.q_head);
    QUERN_UNROLL for (int first = 0; first < kOctets; first += 4) {
      u32 v[4];
      QUERN_UNROLL for (int j = 0; j < 4; ++j) {
        const f32x2 two = two_sums(o, (first + j < kOctets ? first + j : 0) * 4 + 2 * h);
        v[j] = pack<Element>(two.x * done.inverse, two.y * done.inverse);
      }
      transpose_quad(v, thread);
      const int eight = first + thread % 4;
      const i32 column = first_column + eight * 8;
      if (inside && (kOctets % 4 == 0 || eight < kOctets) && (!kCut || column < kDimV))
        store16_global(place.out + column, {{v[0], v[1], v[2], v[3]}});
    }
    if (inside && thread % 4 == 0 && place.lse && first_column == 0) *place.lse = done.lse;
  }
}

template <bool kCut = false, int count>
QUERN_DEVICE void write_slot(const AttentionParams& p, const Sequence& s, const Rows& rows, i32 first_of_tile,
                             int thread, const RowSoftmax& softmax, const f32 (&sum)[2], const f32 (&o)[count],
                             f32* slot, i32 first_column = 0) {
  QUERN_UNROLL for (int h = 0; h < 2; ++h) {
    const i32 row = rows.first + 8 * h;
    if (row >= s.q_len * kGroup) continue;
    const i32 in_tile = row - first_of_tile;
    f32* const to = slot + in_tile * kSlotPitch + first_column + accumulator_column(thread, 0);
    QUERN_UNROLL for (int i = 2 * h; i < count; i += 4) {
      if (kCut && first_column + accumulator_column(thread, i) >= kDimV) continue;
      *reinterpret_cast<f32x2*>(to + accumulator_column(0, i)) = two_sums(o, i);
    }
    if (thread % 4 != 0 || first_column != 0) continue;
    slot[p.slot_rows * kSlotPitch + in_tile] = softmax.max[h];
    slot[p.slot_rows * (kSlotPitch + 1) + in_tile] = sum[h];
  }
}

// Joins an item's pieces, kAtOnce at once, when the last of all who write them is done: `writers` teams of consumers
// each.
template <int kAtOnce>
QUERN_DEVICE void join_last(const AttentionParams& p, const Sequence& s, const Piece& piece, i32 writers,
                            i32* scratch) {
  Piece written = piece;
  written.count *= writers;
  if (!arrived_last<Consumers>(p, written, scratch)) return;
  const Parts slots{slot_at(p, piece, 0), slot_at(p, piece, 1), static_cast<i64>(piece.slot_step) * p.slot_floats,
                    piece.count, p.slot_rows};
  join<8, kAtOnce, Consumers>(p, s, piece, slots, nullptr);
}

template <class Sums>
QUERN_DEVICE void write_results(const AttentionParams& p, const Sequence& s, const Piece& piece, const Rows& rows,
                                int thread, RowSoftmax softmax, const Sums& sums, i32* scratch) {
  f32 sum[2], o[Sums::kElements];
  sums.read_all(o);
  if constexpr (kTokenScales) {
    QUERN_UNROLL for (int i = 0; i < Sums::kElements; ++i) o[i] *= softmax.values;
  }
  QUERN_UNROLL for (int h = 0; h < 2; ++h) softmax.max[h] -= kLift;
  QUERN_UNROLL for (int h = 0; h < 2; ++h) sum[h] = quad_sum(softmax.sum[h][0] + softmax.sum[h][1]);
  f32* const slot = piece.count == 1 ? nullptr : slot_at(p, piece, piece.index);
  if (!slot) {
    write_out(p, s, piece.head, rows, thread, softmax, sum, o);
  } else {
    write_slot(p, s, rows, piece.tile * kRows, thread, softmax, sum, o, slot);
  }
  // A row that sees a key which is not a number is NaN in all of its columns, and stays so.
  const bool spoilt[2] = {sum[0] == sum[0] && is_spoilt(o, 0), sum[1] == sum[1] && is_spoilt(o, 1)};
  mend_spoilt(p, s, piece, rows, spoilt, slot);
  if (slot) join_last<2>(p, s, piece, 1, scratch);
}

}  // namespace q
