// Weights on their way from the warpgroup that makes them to those that multiply with them: through the shared memory
// of both blocks of the cluster, with what they are relative to; in the end in the same way sums of weights.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "attention/kernels/sm90/softmax.cuh"
#include "attention/kernels/sm90/wide_shape.cuh"

namespace q {

using Weights = u32[kProductsV][4];  // as operand A

struct Handover {
  Shared* shared;
  u8* tiles;
  i32 group, thread, me;
  u32 other;                       // the other block
  u32 there, rows_there, barrier;  // what this consumer gives, in the other block's memory
  u32 given = 0, received = 0;     // parities, those of `received` a bit a source
  SharedArray<Mbarrier> weights, taken;

  QUERN_DEVICE Handover(Shared* s, u8* memory, i32 of_group, i32 of_thread, i32 source)
      : shared(s),
        tiles(memory),
        group(of_group),
        thread(of_thread),
        me(source),
        other(cluster_rank() ^ 1),
        there(cluster_address(memory + own() * kWeightBytes, other)),
        rows_there(cluster_address(s->rows[own()], other)),
        barrier(cluster_address(&s->weights[own()], other)),
        weights(s->weights),
        taken(s->taken) {}

  // The place of what this consumer gives, and that of what a source gave it.
  QUERN_DEVICE i32 own() const { return kTall ? group : me; }
  QUERN_DEVICE i32 place_of_source(i32 source) const { return kTall ? group : source; }
  QUERN_DEVICE bool is_near(i32 source) const { return !kTall && static_cast<u32>(source / kConsumers) != other; }

  // ---- Giving
  QUERN_DEVICE void begin() {
    mbarrier_wait_cluster(taken, group, given ^ 1);
    given ^= 1;
    sync_warp();  // what only some lanes give may be taken before the others have looked
  }
  QUERN_DEVICE void give_rows(const f32 (&x)[2]) const {
    if (thread % 4 != 0) return;
    QUERN_UNROLL for (int h = 0; h < 2; ++h) {
      const i32 row = accumulator_row(thread, h);
      store_async(rows_there + static_cast<u32>(row) * 4, x[h], barrier);
      if (!kTall) shared->rows[own()][row] = x[h];
    }
  }
  QUERN_DEVICE void end() const {
    if (kTall) return;
    sync_warp();
    if (elect_one()) mbarrier_arrive(weights, me);
  }
  QUERN_DEVICE void give(const Weights& x, const f32 (&relative_to)[2]) {
    begin();
    QUERN_UNROLL for (int h = 0; h < 2; ++h) {
      const i32 row = accumulator_row(thread, h);
      QUERN_UNROLL for (int i = 0; i < kBlock / 32; ++i) {
        // Of four groups of eight keys each thread of the quad gets one.
        u32 v[4];
        QUERN_UNROLL for (int j = 0; j < 4; ++j) v[j] = x[2 * i + j / 2][j % 2 * 2 + h];
        transpose_quad(v, thread);
        const i32 to = row * kSpanBytes + ((4 * i + thread % 4) ^ row % 8) * 16;
        const vec16 eight = {{v[0], v[1], v[2], v[3]}};
        store_async(there + static_cast<u32>(to), eight, barrier);
        if (!kTall) store16(tiles + own() * kWeightBytes + to, eight);
      }
    }
    give_rows(relative_to);
    end();
  }
  QUERN_DEVICE void give(const f32 (&x)[2]) {
    begin();
    give_rows(x);
    end();
  }

  // ---- Taking
  // Waits for what a source gives: so many bytes, where it is in the other block. One thread says how many that are.
  QUERN_DEVICE void await(i32 source, u32 bytes) {
    const i32 at = place_of_source(source);
    if (!is_near(source) && thread == 0 && (kTall || group == 0)) mbarrier_arrive_expect(weights, at, bytes);
    mbarrier_wait_cluster(weights, at, received >> source & 1);
    received ^= 1u << source;
  }
  QUERN_DEVICE void take_rows(i32 source, f32 (&x)[2]) const {
    QUERN_UNROLL for (int h = 0; h < 2; ++h) x[h] = shared->rows[place_of_source(source)][accumulator_row(thread, h)];
  }
  QUERN_DEVICE void take(i32 source, Weights& x, f32 (&relative_to)[2]) {
    await(source, kWeightBytes + kRowBytes);
    const int l = lane(), row = thread / kWarp * 16 + l % 16;
    const u8* const from = tiles + place_of_source(source) * kWeightBytes + row * kSpanBytes;
    QUERN_UNROLL for (int k = 0; k < kProductsV; ++k) load_matrix<false>(x[k], from + ((2 * k + l / 16) ^ l % 8) * 16);
    take_rows(source, relative_to);
  }
  // What was taken is in registers, for products have used it: there are no loads that the giver could overtake.
  QUERN_DEVICE void done(i32 source) const {
    sync_warp();
    if (!elect_one()) return;
    if (is_near(source)) {
      mbarrier_arrive(taken, giver_of(source));
    } else {
      mbarrier_arrive_remote_relaxed(taken, giver_of(source), other);
    }
  }
  // The same where nothing has used it yet: the giver writes only after it has been read.
  QUERN_DEVICE void done_reading(i32 source) const {
    sync_warp();
    if (!elect_one()) return;
    if (is_near(source)) {
      mbarrier_arrive(taken, giver_of(source));
    } else {
      mbarrier_arrive_remote(shared->taken[giver_of(source)], other);
    }
  }

 private:
  // Which consumer of its block a source is.
  QUERN_DEVICE i32 giver_of(i32 source) const { return kTall ? group : source % kConsumers; }
};

// Weights times powers of two, which changes no digit of theirs.
QUERN_DEVICE void scale_weights(Weights& x, const f32 (&factor)[2]) {
  QUERN_UNROLL for (int k = 0; k < kProductsV; ++k) {
    QUERN_UNROLL for (int r = 0; r < 4; ++r) {
      const f32x2 two = unpack<Element>(x[k][r]);
      x[k][r] = pack<Element>(two.x * factor[r % 2], two.y * factor[r % 2]);
    }
  }
}

}  // namespace q
