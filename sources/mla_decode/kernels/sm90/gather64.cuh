// MLA decode on Hopper where keys are gathered: d_latent 512 and d_rope 64, tiles of 64 rows, keys by pairs of blocks
// of 64.
//
// Two warpgroups multiply, two copy. Keys come in pairs of blocks: each warpgroup that multiplies makes the weights of
// one of the two, and holds the sums of one half of the columns, to which it adds both blocks':
//
//   warpgroup 0                                       warpgroup 1
//   logits of block 0                                 logits of block 1
//   weights of block 0, to shared memory  ---------->
//   left sums  += weights 0 * left keys 0             right sums += weights 0 * right keys 0
//                                         <----------  weights of block 1, to shared memory
//   left sums  += weights 1 * left keys 1             right sums += weights 1 * right keys 1
//
// So one warpgroup's softmax runs while the other's products do. Weights are relative to one maximum a row, which both
// follow in turn: block 0's logits raise it, then block 1's. Weights of a block go where its rope part was, which only
// logits need. A block is filled again as soon as both halves of it have been multiplied.
//
// Two blocks of threads with tiles of one sequence may be a cluster that shares the work of gathering.
// SPDX-License-Identifier: Apache-2.0
#include "mla_decode/kernels/sm90/gather.cuh"

namespace q {

struct Multiplier : Weigher {
  Memory m;
  u32 other;  // rank of the cluster's other block
  int group;  // which warpgroup
  SharedArray<Mbarrier> full;
  Operand<Major::k> queries, keys;  // keys: of the block whose weights it makes
  Operand<Major::mn> values;        // its half of block 0
  Operand<Major::k> weights_of;     // of block 0

  QUERN_DEVICE Multiplier(const MlaParams& params, Memory memory, int own)
      : Weigher{params, thread_index() - own * kGroupThreads},
        m(memory),
        other(Peers().other()),
        group(own),
        full(memory.barriers().full),
        queries(memory.queries()),
        keys(memory.queries() + (1 + own) * kBlockBytes),
        values(memory.queries() + kBlockBytes + own * kHalf * kTileBytes),
        weights_of(memory.queries() + kBlockBytes + kRopeTile * kTileBytes) {}

  QUERN_DEVICE void wait_for_keys(int block, u32 round) const {
    if constexpr (kPaired) {
      mbarrier_wait_cluster(full, block, round);
    } else {
      mbarrier_wait(full, block, round);
    }
    fence_async();  // what the copying threads' stores and cp.async wrote
  }
  QUERN_DEVICE void multiply_keys(f32 (&logits)[32], u32 round) const {
    wgmma_fence();
    wait_for_keys(group, round);
    QUERN_UNROLL for (int tile = 0; tile < kTiles; ++tile) {
      const u32 at = static_cast<u32>(tile * kTileBytes);
      wgmma_four<32, 32, Element>(logits, queries.at(at), keys.at(at), tile > 0);
    }
    wgmma_commit();
    wgmma_wait<0>(logits);
  }
  // sums += weights values of a block.
  QUERN_DEVICE void add(f32 (&sums)[128], int block, u32 round) const {
    wait_for_keys(block,
                  round);  // gathered for one warpgroup, which has seen them arrive; the other has to see it, too
    add_values(sums, weights_of, values, static_cast<u32>(block * kBlockBytes));
  }
  // To all blocks of threads that fill it: only products have read it.
  QUERN_DEVICE void release(Mbarrier& empty) const {
    if (!elect_one()) return;
    mbarrier_arrive(empty);
    if (kPaired) mbarrier_arrive_remote_relaxed(empty, other);
  }
  // Where keys are listed, which are seen has been found out already, the same for all rows.
  QUERN_DEVICE void mask_listed(u64 there, f32 (&logits)[32]) const {
    if (there == ~u64{0}) return;
    const u64 own = there >> accumulator_column(thread, 0);
    QUERN_UNROLL for (int i = 0; i < 32; ++i) {
      if ((own >> accumulator_column(0, i) & 1) == 0) logits[i] = -infinity();
    }
  }

  // A pair of blocks, the first at key `key`. Keys from `low` to `high` begin blocks of which every row sees all keys.
  QUERN_DEVICE void take_pair(const Task& t, i32 key, i32 low, i32 high, u32 round, f32 (&sums)[128],
                              Rows& rows) const {
    Barriers& barriers = m.barriers();
    f32 logits[32], to[2], first[2],
        second[2];  // what sums are multiplied with before block 0's and block 1's are added
    u32 weights[4][4];
    bool first_changed, second_changed = false;
    const i32 own_key = key + group * kKeys;
    multiply_keys(logits, round);
    arrive_named(kOwn + group, 2 * kGroupThreads);  // this warp has multiplied the rope part, over which weights go
#if CAP
    QUERN_UNROLL for (int i = 0; i < 32; ++i) logits[i] = logit(p, logits[i]);
#endif
    if (!kListed && (own_key < low || own_key > high)) mask(t, own_key, logits);
    if (kListed) mask_listed(m.told().there[group], logits);
    raise(logits, rows.base, to);
    if (group == 0) {
      publish(m.base(0), to);
      arrive_named(kBase, kConsumers);
      first_changed = follow(rows, to, first);
    } else {
      f32 base[2];
      meet_named(kBase, kConsumers);
      learn(m.base(0), base);
      // From block 0's maxima on, and only then higher.
      QUERN_UNROLL for (int h = 0; h < 2; ++h) to[h] = to[h] > base[h] + kSlack ? to[h] : base[h];
      publish(m.base(1), to);
      first_changed = follow(rows, base, first);
      second_changed = follow(rows, to, second);
    }
    weigh(logits, to);
    to_operand<Element>(logits, weights);
    meet_named(kOwn + group, 2 * kGroupThreads);
    store_weights(m.keys(group) + kRopeTile * kTileBytes, weights);
    arrive_named(kWeights0 + group, kConsumers);
    sum(logits, rows.sum);
    if (first_changed) scale_rows(sums, first);
    // Its own weights are there when its own threads have stored them, the other's when they have arrived.
    if (group == 0) {
      sync_named(kStored, kGroupThreads);
    } else {
      meet_named(kWeights0, kConsumers);
    }
    add(sums, 0, round);
    release(barriers.empty[0][group]);
    if (group == 0) {
      meet_named(kWeights1, kConsumers);
      learn(m.base(1), to);
      second_changed = follow(rows, to, second);
    } else {
      sync_named(kStored + 1, kGroupThreads);
    }
    if (second_changed) scale_rows(sums, second);
    add(sums, 1, round);
    release(barriers.empty[1][group]);
  }

  // To `out`, or to a slot.
  QUERN_DEVICE void write_results(const Task& t, f32 (&sums)[128], Rows& rows) const {
    QUERN_UNROLL for (int h = 0; h < 2; ++h) rows.sum[h] = quad_sum(rows.sum[h]);
    publish(m.sum(group), rows.sum);
    sync_named(kBoth, kConsumers);  // and nobody multiplies queries any more
    f32 total[2];
    QUERN_UNROLL for (int h = 0; h < 2; ++h) {
      const i32 row = accumulator_row(thread, h);
      total[h] = m.sum(0)[row] + m.sum(1)[row];
    }
    const Writer writer{p, group, thread};
    if (t.slot >= 0) {
      f32* slot = slot_at(p, t.slot, block_index(0) % p.side_by_side);
      writer.write_rows(slot, rows.base, total);
      writer.write_partial(slot, sums);
    } else {
      writer.write_out(t, sums, rows.base, total);
    }
  }

  QUERN_DEVICE void run() const {
    Listener listener(m.told().mailbox);
    u32 round = 0;
    f32 sums[128];
    QUERN_ROLLED for (;;) {
      const Task& t = listener.next();
      if (shuffle(t.rows, 0) < 0) break;
      sync_named(kBoth, kConsumers);  // whoever still multiplies the queries before
      load_queries(p, t, thread_index(), m.queries(), m.queries() + kRopeTile * kTileBytes);
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

QUERN_KERNEL(quern_mla_gather64, THREADS, 1, QUERN_PARAM q::MlaParams p) {
  using namespace q;
  const Memory memory = {tile_shared()};
  if (thread_index() == 0) {
    Barriers& b = memory.barriers();
    QUERN_ROLLED for (int i = 0; i < 2; ++i) mbarrier_init(b.full[i], kFullArrivals);
    QUERN_ROLLED for (int i = 0; i < 4; ++i) mbarrier_init(b.empty[0][i], kReleases);
    memory.told().mailbox.init(kListeners);
    fence_mbarrier_init();
  }
  sync_block();
  launch_next_grid();
  wait_for_previous_grid();
  note_no_cut(p, quotient(block_index(0), p.side_by_side), thread_index() == 0);
  count_together(p, THREADS / kWarp, memory.chunks());
  if (kPaired) {
    sync_cluster();  // the other block's barriers are made
  } else {
    sync_block();
  }
  const int group = shuffle(thread_index() / kGroupThreads, 0);
  if (group >= 2) {
    registers_shrink<64>();
    supply(p, memory, shuffle(warp() - kConsumers / kWarp, 0));
  } else {
    registers_grow<192>();
    Multiplier(p, memory, group).run();
  }
  if (kPaired) sync_cluster();  // nobody arrives on barriers or writes keys of a block that has ended
}
