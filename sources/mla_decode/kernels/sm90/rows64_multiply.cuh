// The products of the kernel of 64 rows: a warpgroup that makes weights of keys, and two that add values up.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mla_decode/kernels/sm90/pairs.cuh"
#include "mla_decode/kernels/sm90/rows64_memory.cuh"

namespace q {

// Logits and weights. Some of the queries are held in registers, as operand A: products of 64 x 64 ask as
// much of shared memory as it can give while both operands lie there.
struct Logits : Weigher {
  Memory m;
  u32 queries[kHeldTiles * 4][4];

  QUERN_DEVICE Logits(const MlaParams& params, Memory memory) : Weigher{params, thread_index()}, m(memory) {}

  QUERN_DEVICE void take_queries() {
    const int l = lane(), row = (thread >> 5) * 16 + (l & 15);
    QUERN_UNROLL for (int i = 0; i < kHeldTiles * 4; ++i) {
      load_matrix<false>(queries[i], m.queries() + (i >> 2) * kTileBytes + place_in_tile(row, (i & 3) * 2 + (l >> 4)));
    }
  }
  QUERN_DEVICE void multiply(f32 (&logits)[32], const PipelineState<kStages>& slot) const {
    const SharedArray<Mbarrier> full(m.barriers().full[0]);
    const Operand<Major::k> keys(m.keys(slot.stage)), others(m.queries());
    wgmma_fence();
    QUERN_UNROLL for (int tile = 0; tile < kTiles; ++tile) {
      if (tile % 2 == 0) mbarrier_wait(full, slot.stage * kParts + tile / 2, slot.phase);
      const u32 at = static_cast<u32>(tile * kTileBytes);
      if (tile >= kHeldTiles) {
        wgmma_four<32, 32, Element>(logits, others.at(at), keys.at(at), true);
        continue;
      }
      QUERN_UNROLL for (int k = 0; k < 4; ++k) {
        wgmma<Element>(logits, queries[tile * 4 + k], keys.at(at + static_cast<u32>(k * 32)), tile > 0 || k > 0);
      }
    }
    wgmma_commit();
    wgmma_wait<0>(logits);
  }

  // Keys from `low` to `high` begin blocks of which every row sees all keys.
  QUERN_DEVICE void take_block(const Task& t, i32 key, i32 low, i32 high, const PipelineState<kStages>& slot,
                               Rows& rows, bool last) const {
    Barriers& barriers = m.barriers();
    f32 logits[32], to[2], factor[2];
    u32 weights[4][4];
    multiply(logits, slot);
    if (last && elect_one()) mbarrier_arrive(barriers.queries_empty[1]);
    arrive_named(kOwn, 2 * kGroupThreads);  // this warp has multiplied the rope part, over which weights go
#if CAP
    QUERN_UNROLL for (int i = 0; i < 32; ++i) logits[i] = logit(p, logits[i]);
#endif
    const bool edge = key < low || key > high;
    if (edge) mask(t, key, logits);
    raise(logits, rows.base, to);
    const bool changed = follow(rows, to, factor);
    if (changed) publish(m.factors(slot.stage), factor);
    if (lane() == 0) m.told().changed[slot.stage][thread >> 5] = changed;
    weigh(logits, to);
    to_operand<Element>(logits, weights);
    u8* block = m.keys(slot.stage);
    if (edge) clear_unseen(block, t.any, key);
    meet_named(kOwn, 2 * kGroupThreads);
    store_weights(block + kRopeTile * kTileBytes, weights);
    sync_warp();
    if (elect_one()) mbarrier_arrive(barriers.weights[slot.stage]);
    sum(logits, rows.sum);
  }

  QUERN_DEVICE void run() {
    Barriers& barriers = m.barriers();
    Listener listener(m.told().mailbox);
    PipelineState<kStages> slot;
    u32 turn = 0;
    bool later = false;
    QUERN_ROLLED for (i32 place = 0;; place ^= 1) {
      const Task& t = listener.next();
      if (shuffle(t.rows, 0) < 0) break;
      if (later) {
        mbarrier_wait(barriers.queries_full, turn);
        turn ^= 1;
        fence_async();  // what other warps' cp.async wrote
      } else {
        sync_named(kEverybody, kAll);
        later = true;
      }
      take_queries();
      sync_warp();
      if (elect_one()) mbarrier_arrive(barriers.queries_empty[0]);
      Rows rows = {{-infinity(), -infinity()}, {0.0f, 0.0f}};
      const i32 count = blocks_of(t), first = shuffle(t.key, 0);
      const i32 low = shuffle(t.all.first, 0), high = shuffle(t.all.last, 0) - kKeys;
      if (count == 0 && elect_one()) mbarrier_arrive(barriers.queries_empty[1]);
      QUERN_ROLLED for (i32 i = 0; i < count; ++i, slot.next()) {
        take_block(t, first + i * kKeys, low, high, slot, rows, i + 1 == count);
      }
      QUERN_UNROLL for (int h = 0; h < 2; ++h) rows.sum[h] = quad_sum(rows.sum[h]);
      publish(m.bases(place), rows.base);
      publish(m.totals(place), rows.sum);
      sync_warp();
      if (elect_one()) mbarrier_arrive(barriers.finished[place]);
      listener.done();
    }
  }
};

// Sums of one half of the columns.
struct Sums : Writer {
  Memory m;

  QUERN_DEVICE Sums(const MlaParams& params, Memory memory, int group)
      : Writer{params, group, thread_index() - (1 + group) * kGroupThreads}, m(memory) {}

  QUERN_DEVICE void take_block(const PipelineState<kStages>& slot, f32 (&sums)[128]) const {
    Barriers& barriers = m.barriers();
    mbarrier_wait(barriers.weights[slot.stage], slot.phase);
    if (m.told().changed[slot.stage][thread >> 5] != 0) {
      f32 factor[2];
      QUERN_UNROLL for (int h = 0; h < 2; ++h) factor[h] = m.factors(slot.stage)[accumulator_row(thread, h)];
      scale_rows(sums, factor);
    }
    // Who has logits has seen the keys arrive; who multiplies them as values has to see it for itself.
    QUERN_UNROLL for (int i = 0; i < 2; ++i) mbarrier_wait(barriers.full[slot.stage][half * 2 + i], slot.phase);
    const u8* block = m.keys(slot.stage);
    add_values(sums, Operand<Major::k>(block + kRopeTile * kTileBytes),
               Operand<Major::mn>(block + half * kHalf * kTileBytes), 0);
    if (elect_one()) mbarrier_arrive(barriers.empty[slot.stage][half]);
  }

  QUERN_DEVICE void write(const Task& t, i32 place, f32 (&sums)[128]) const {
    f32 base[2], total[2];
    QUERN_UNROLL for (int h = 0; h < 2; ++h) {
      const i32 row = accumulator_row(thread, h);
      base[h] = m.bases(place)[row];
      total[h] = m.totals(place)[row];
    }
    if (t.slot >= 0) {
      const int own = half * kGroupThreads + thread;
      const Meeting meeting{kBoth, kConsumers, own, &m.told().word};
      f32* slot = slot_at(p, t.slot, block_index(0) % p.side_by_side);
      write_rows(slot, base, total);
      if (t.partner < 0) return write_partial(slot, sums);
      if (!meeting.is_there(p, t)) {
        store_sums(slot, own, sums);
        if (!meeting.hand_in(p, t)) return;
      }
      const f32* other = slot_at(p, t.partner, block_index(0) % p.side_by_side);
      Pair pairs[2];
      QUERN_UNROLL for (int h = 0; h < 2; ++h) {
        const i32 row = accumulator_row(thread, h);
        pairs[h] = Pair(t, base[h], total[h], other[kRows * kLatent + row], other[kRows * (kLatent + 1) + row]);
      }
      QUERN_UNROLL for (int i = 0; i < 128; ++i) sums[i] = pairs[half_of(i)].join(sums[i], load_sum(other, own, i));
      meeting.leave(p, t);
    }
    write_out(t, sums, base, total);
  }

  QUERN_DEVICE void run() const {
    Barriers& barriers = m.barriers();
    Listener listener(m.told().mailbox);
    PipelineState<kStages> slot;
    u32 turns = 0;  // a bit for each place
    bool later = false;
    f32 sums[128];
    QUERN_ROLLED for (i32 place = 0;; place ^= 1) {
      const Task& t = listener.next();
      if (shuffle(t.rows, 0) < 0) break;
      if (!later) {
        load_queries(p, t, half * kGroupThreads + thread, m.queries(), m.queries() + kRopeTile * kTileBytes);
        sync_named(kEverybody, kAll);
        later = true;
      }
      QUERN_UNROLL for (int i = 0; i < 128; ++i) sums[i] = 0.0f;
      const i32 count = blocks_of(t);
      QUERN_ROLLED for (i32 i = 0; i < count; ++i, slot.next()) take_block(slot, sums);
      mbarrier_wait(barriers.finished[place], turns >> place & 1);
      turns ^= 1u << place;
      write(t, place, sums);
      listener.done();
    }
  }
};

}  // namespace q
