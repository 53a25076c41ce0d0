// What a warpgroup of the kernel of 64 rows does with its sums at a task's end.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/sm90/accumulator.cuh"
#include "mla_decode/kernels/sm90/pairs.cuh"

namespace q {

struct Rows {
  f32 base[2];  // what weights are relative to, in powers of two
  f32 sum[2];   // of this thread's own weights
};

// A number of each row, which the row's four threads have alike.
QUERN_DEVICE void publish_rows(f32* to, const f32 (&rows)[2], int thread) {
  if ((thread & 3) != 0) return;
  QUERN_UNROLL for (int h = 0; h < 2; ++h) to[accumulator_row(thread, h)] = rows[h];
}

// To `out`, or to a slot.
QUERN_DEVICE void write_results(const MlaParams& p, const Memory& m, const Task& t, int group, int thread,
                                f32 (&sums)[128], Rows& rows) {
  QUERN_UNROLL for (int h = 0; h < 2; ++h) rows.sum[h] = quad_sum(rows.sum[h]);
  publish_rows(m.sum(group), rows.sum, thread);
  sync_named(kBoth, kConsumers);  // and nobody multiplies queries any more
  f32 total[2];
  QUERN_UNROLL for (int h = 0; h < 2; ++h) {
    const i32 row = accumulator_row(thread, h);
    total[h] = m.sum(0)[row] + m.sum(1)[row];
  }
  const bool first = group == 0 && (thread & 3) == 0;
  const int column = group * 256 + accumulator_column(thread, 0);
  if (t.slot >= 0) {
    const Meeting meeting{kBoth, kConsumers, &m.told().word};
    f32* slot = slot_at(p, t.slot, tile_of_block(p));
    if (first) {
      QUERN_UNROLL for (int h = 0; h < 2; ++h) {
        const i32 row = accumulator_row(thread, h);
        slot[kRows * kLatent + row] = rows.base[h];
        slot[kRows * (kLatent + 1) + row] = total[h];
      }
    }
    if (!kJoinsPairs || t.partner < 0) {
      QUERN_UNROLL for (int h = 0; h < 2; ++h) {
        f32* to = slot + accumulator_row(thread, h) * kLatent + column;
        QUERN_UNROLL for (int i = 2 * h; i < 128; i += 4) {
          *reinterpret_cast<u64*>(to + (i >> 2) * 8) = bits_of(sums[i]) | static_cast<u64>(bits_of(sums[i + 1])) << 32;
        }
      }
      return;
    }
    if (!meeting.is_there(p, t)) {
      store_sums(slot, sums);
      if (!meeting.hand_in(p, t)) return;
    }
    const f32* other = slot_at(p, t.partner, tile_of_block(p));
    Pair pairs[2];
    QUERN_UNROLL for (int h = 0; h < 2; ++h) {
      const i32 row = accumulator_row(thread, h);
      pairs[h] = Pair(t, rows.base[h], total[h], other[kRows * kLatent + row], other[kRows * (kLatent + 1) + row]);
    }
    QUERN_UNROLL for (int i = 0; i < 128; ++i) sums[i] = pairs[half_of(i)].join(sums[i], load_sum(other, i));
    Meeting::leave(p, t);
  }
  QUERN_UNROLL for (int h = 0; h < 2; ++h) {
    const i32 row = accumulator_row(thread, h);
    const bool there = row < t.rows;
    const RowPlace place = place_of(p, t.q_begin, t.first_row + (there ? row : 0));
    const Finished done = finish(p, rows.base[h], total[h], place.head);
    if (first && there && place.lse) *place.lse = done.lse;
    // Of four groups of eight columns each of the four threads that have the row gets one.
    Element* to = place.out + group * 256 + (thread & 3) * 8;
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

}  // namespace q
