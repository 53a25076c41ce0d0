// Writing results: of an item that one thread block did alone, of a piece into its slot, and of a cut item from its slots.
//
// A slot: slot_rows rows of kDimV f32 (not yet divided by the sum), then as many maxima and as many sums.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "attention/schedule.cuh"

namespace q {

struct Slot {
  f32* rows;
  f32* max;
  f32* sum;
};
QUERN_DEVICE Slot slot_at(const AttentionParams& p, i32 index) {
  f32* rows = p.partials + index * p.slot_floats;
  f32* max = rows + p.slot_rows * kDimV;
  return {rows, max, max + p.slot_rows};
}

// Where row `row` of KV head `head` goes.
struct RowPlace {
  Element* out;
  f32* lse;
  i32 q_head;
};
QUERN_DEVICE RowPlace place_of(const AttentionParams& p, const Sequence& s, i32 head, i32 row) {
  const i32 q_head = head * kGroup + row % kGroup;
  const i64 token = s.q_begin + row / kGroup;
  RowPlace r;
  r.out = static_cast<Element*>(p.out) + token * p.out_stride_token + q_head * p.out_stride_head;
  r.lse = p.lse ? p.lse + token * p.lse_stride_token + q_head * p.lse_stride_head : nullptr;
  r.q_head = q_head;
  return r;
}

// True in all threads of the last thread block that arrives for this piece's item; the counter is then zero again.
QUERN_DEVICE bool arrived_last(const AttentionParams& p, const Piece& piece, i32* scratch) {
  fence();
  sync_block();
  if (thread_index() == 0) {
    const u32 before = atomic_add(p.counters + piece.counter, 1u);
    const bool last = before + 1 == static_cast<u32>(piece.count);
    if (last) p.counters[piece.counter] = 0;
    *scratch = last;
  }
  sync_block();
  fence();
  return *scratch != 0;
}

// Joins the slots of a cut item in the order of its pieces.
template <int kThreads>
QUERN_DEVICE void join_pieces(const AttentionParams& p, const Sequence& s, const Piece& piece) {
  constexpr int kQuads = kDimV / 4;
  const i32 rows = s.q_len * kGroup - piece.tile * kRows;
  QUERN_ROLLED for (i32 i = thread_index(); i < (rows < kRows ? rows : kRows) * kQuads; i += kThreads) {
    const i32 row = i / kQuads, quad = i % kQuads;
    // One pass, rescaling as the maximum grows: the loads of several pieces overlap.
    f32 max = -infinity(), sum = 0.0f, acc[4] = {};
    QUERN_FOUR_AT_ONCE for (i32 j = 0; j < piece.count; ++j) {
      const Slot slot = slot_at(p, slot_of_piece(piece, j));
      const vec16 part = load16(slot.rows + row * kDimV + quad * 4);
      const f32 part_max = slot.max[row], part_sum = slot.sum[row];
      const f32 grown = fmax(max, part_max), base = finite_max(grown);
      const f32 before = exp2(max - base), weight = exp2(part_max - base);
      max = grown;
      sum = fma(weight, part_sum, sum * before);
      QUERN_UNROLL for (int c = 0; c < 4; ++c) acc[c] = fma(weight, f32_of(part.x[c]), acc[c] * before);
    }
    const RowPlace place = place_of(p, s, piece.head, piece.tile * kRows + row);
    const Finished done = finish(p, max, sum, place.q_head);
    QUERN_UNROLL for (int c = 0; c < 4; c += 2) {
      *reinterpret_cast<u32*>(place.out + quad * 4 + c) = pack<Element>(acc[c] * done.inverse, acc[c + 1] * done.inverse);
    }
    if (quad == 0 && place.lse) *place.lse = done.lse;
  }
}

}  // namespace q
