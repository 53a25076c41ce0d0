// From partial results to results: those of a block's warps, or of one tile, lie in shared memory; those of a cut
// item's pieces lie in slots of the workspace. Both are joined by the same code.
//
// A partial result: as many rows of kSlotPitch f32 as a slot has, of which the first kDimV are the row's sums, not yet
// divided; then the rows' maxima, then the sums of their weights.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "attention/kernels/shared/schedule.cuh"
#include "common/arrival.cuh"
#include "common/reduce.cuh"
#include "common/scale.cuh"

namespace q {

inline constexpr int kSlotPitch = slot_pitch(kDimV);

// Partial results of the same rows: the first, and the others `step` f32 apart.
struct Parts {
  const f32* first;
  const f32* others;
  i64 step;
  i32 count;
  i32 rows;  // of each: what lies between the rows and the maxima
};

QUERN_DEVICE f32* slot_at(const AttentionParams& p, const Piece& piece, i32 i) {
  return p.partials + static_cast<i64>(slot_of_piece(piece, i)) * p.slot_floats;
}

// Where row `row` of KV head `head` goes.
struct RowPlace {
  OutElement* out;
  f32* lse;
  i32 q_head;
};
QUERN_DEVICE RowPlace place_of(const AttentionParams& p, const Sequence& s, i32 head, i32 row) {
  const i32 q_head = head * kGroup + row % kGroup;
  const i64 token = s.q_begin + row / kGroup;
  RowPlace r;
  r.out = static_cast<OutElement*>(p.out) + token * p.out_stride_token + q_head * p.out_stride_head;
  r.lse = p.lse ? p.lse + token * p.lse_stride_token + q_head * p.lse_stride_head : nullptr;
  r.q_head = q_head;
  return r;
}

// True in all threads of the last team that arrives for this piece's item; the counter is then zero again.
template <class Team>
QUERN_DEVICE bool arrived_last(const AttentionParams& p, const Piece& piece, i32* scratch) {
  return arrived_last(
      Team::index() == 0, scratch, [] { Team::sync(); }, [&] { return p.counters + piece.counter; },
      [&] { return static_cast<u32>(piece.count); });
}

// A thread's part of a row's results to where they go.
template <int kWide>
QUERN_DEVICE void store_results(OutElement* to, const f32 (&v)[kWide]) {
  u32 packed[kWide / 2];
  QUERN_UNROLL for (int c = 0; c < kWide; c += 2) packed[c / 2] = pack<Element>(v[c], v[c + 1]);
  if (COPY_BYTES == 16 && kWide == 8) {
    store16(to, {{packed[0], packed[1], packed[kWide / 2 - 2], packed[kWide / 2 - 1]}});
  } else {
    QUERN_UNROLL for (int c = 0; c < kWide; c += 2) * reinterpret_cast<u32*>(to + c) = packed[c / 2];
  }
}
// The same of 8 bits, by the scale of the group that neighbouring lanes have together, which the first of them stores.
// All lanes of a warp call it; `there` is false in one that has no results.
template <int kWide>
QUERN_DEVICE void store_codes(OutElement* to, f32* scale, bool there, const f32 (&v)[kWide]) {
  f32 largest = 0.0f;
  QUERN_UNROLL for (int c = 0; c < kWide; ++c) {
    const f32 magnitude = fabs(v[c]);
    if (magnitude < infinity()) largest = fmax(largest, magnitude);
  }
  constexpr int kLanes = kScaleGroup / kWide;
  if constexpr (kLanes == kWarp) {  // numbers that are not negative are in the order of their bits
    largest = f32_of(warp_max(bits_of(largest)));
  } else {
    largest = lanes_reduce<kLanes>(largest, Larger());
  }
  // A quotient's last bit, which a division would get right, is nothing beside what a code rounds off.
  const f32 by = largest == 0.0f ? 1.0f : fmax(largest * (1.0f / kLargest<OutElement>), 0x1p-126f);
  if (!there) return;
  f32 code[kWide];
  const f32 inverse = rcp_approx(by);
  QUERN_UNROLL for (int c = 0; c < kWide; ++c) code[c] = v[c] * inverse;
  QUERN_UNROLL for (int c = 0; c < kWide; c += 4) {
    *reinterpret_cast<u32*>(to + c) = pack_four_fp8<OutElement>(code[c], code[c + 1], code[c + 2], code[c + 3]);
  }
  if (lane() % kLanes == 0) *scale = by;
}

// Joins partial results in their order, and writes them to `slot`, or where that is null to `out`; a thread takes kWide
// columns and kAtOnce (1, 2 or 4) parts at once. What is given begins with row `first` of the tile, and is of kCount
// rows at most; of kColumns columns from `first_column` on, of which those beyond kDimV are passed over.
template <int kWide, int kAtOnce, class Team = WholeBlock, int kCount = kRows, int kColumns = kDimV>
QUERN_DEVICE void join(const AttentionParams& p, const Sequence& s, const Piece& piece, const Parts& from, f32* slot,
                       i32 first = 0, i32 first_column = 0) {
  constexpr int kChunks = kColumns / kWide, kPitch = slot_pitch(kColumns);
  const i32 rows = s.q_len * kGroup - piece.tile * kRows - first;
  const i32 chunks = (rows < kCount ? rows : kCount) * kChunks;
  // A scale is found by whole warps, whose last lanes may have nothing.
  const i32 turns = kCodedResults ? round_up(chunks, kWarp) : chunks;
  QUERN_ROLLED for (i32 i = Team::index(); i < turns; i += Team::kThreads) {
    const bool there = !kCodedResults || i < chunks;
    const i32 given = there ? i / kChunks : 0, row = first + given, column = i % kChunks * kWide,
              own = first_column + column;
    if (kColumns != kDimV && own >= kDimV) continue;
    struct {
      f32 max = -infinity(), sum = 0.0f, row[kWide] = {};
    } all;
    const f32* part = from.first;
    // In one pass, rescaling as the maximum grows: so the loads of one part overlap with those of others.
    const auto add = [&](i32 j) {
      const f32 part_max = part[from.rows * kPitch + given], part_sum = part[from.rows * (kPitch + 1) + given];
      const f32 grown = fmax(all.max, part_max), base = finite_max(grown);
      const f32 before = exp2(all.max - base), weight = exp2(part_max - base);
      all.max = grown;
      all.sum = fma(weight, part_sum, all.sum * before);
      QUERN_UNROLL for (int c = 0; c < kWide; c += 4) {
        const vec16 four = load16(part + given * kPitch + column + c);
        QUERN_UNROLL for (int x = 0; x < 4; ++x) all.row[c + x] =
            fma(weight, f32_of(four.x[x]), all.row[c + x] * before);
      }
      part = j == 0 ? from.others : part + from.step;
    };
    if (kAtOnce == 4) {
      QUERN_FOUR_AT_ONCE for (i32 j = 0; j < from.count; ++j) add(j);
    } else if (kAtOnce == 2) {
      QUERN_TWO_AT_ONCE for (i32 j = 0; j < from.count; ++j) add(j);
    } else {
      QUERN_ROLLED for (i32 j = 0; j < from.count; ++j) add(j);
    }
    if (slot) {
      if (!there) continue;
      QUERN_UNROLL for (int c = 0; c < kWide; c += 4) {
        store16(slot + row * kSlotPitch + own + c,
                {{bits_of(all.row[c]), bits_of(all.row[c + 1]), bits_of(all.row[c + 2]), bits_of(all.row[c + 3])}});
      }
      if (own == 0)
        slot[p.slot_rows * kSlotPitch + row] = all.max, slot[p.slot_rows * (kSlotPitch + 1) + row] = all.sum;
      continue;
    }
    const RowPlace place = place_of(p, s, piece.head, piece.tile * kRows + row);
    const Finished done = finish(p, all.max, all.sum, place.q_head);
    f32 result[kWide];
    QUERN_UNROLL for (int c = 0; c < kWide; ++c) result[c] = all.row[c] * done.inverse;
    if constexpr (kCodedResults) {
      const i64 token = s.q_begin + (piece.tile * kRows + row) / kGroup;
      const i32 group = place.q_head * (kDimV / kScaleGroup) + own / kScaleGroup;
      store_codes(place.out + own, p.out_scale + token * p.out_scale_stride_token + group * p.out_scale_stride_group,
                  there, result);
      if (!there) continue;
    } else {
      store_results(place.out + own, result);
    }
    if (own == 0 && place.lse) *place.lse = done.lse;
  }
}

// Writes a piece's results, which lie in shared memory: to `out`, or to the piece's slot, and then whoever comes last
// joins the item's slots.
template <int kWide, int kAtOnce>
QUERN_DEVICE void write_results(const AttentionParams& p, const Sequence& s, const Piece& piece, Parts from,
                                i32* scratch) {
  f32* slot = piece.count > 1 ? slot_at(p, piece, piece.index) : nullptr;
  QUERN_ROLLED for (;;) {
    join<kWide, kAtOnce>(p, s, piece, from, slot);
    if (!slot || !arrived_last<WholeBlock>(p, piece, scratch)) return;
    from = {slot_at(p, piece, 0), slot_at(p, piece, 1), static_cast<i64>(piece.slot_step) * p.slot_floats, piece.count,
            p.slot_rows};
    slot = nullptr;
  }
}

}  // namespace q
