// MLA decode on Hopper: d_latent 512 and d_rope 64, tiles of 64 rows, keys by pairs of blocks of 64.
//
// Two warpgroups multiply, two warps copy, one schedules. Keys come in pairs of blocks: each warpgroup makes the
// weights of one of the two, and holds the sums of one half of the columns, to which it adds both blocks':
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
// logits need.
//
// A block of keys is nine tiles of 64 columns, copied two at a time with a barrier for each two, and filled again two
// at a time as soon as their columns have been multiplied: how long a tile takes to come is the limit, so that none may
// wait to be sent for. Each of the two blocks has a warp that copies it.
//
// Where keys come by cp.async, which takes longer, the warpgroups work half a pair apart: each multiplies the first
// half of its queries' columns, adds the other's block (the left one that of the pair before), and only then goes on
// with its own. So one block is under way while the other is at work.
//
// Where keys are gathered, two blocks of threads with tiles of one sequence may be a cluster that shares the work.
// SPDX-License-Identifier: Apache-2.0
#include "common/sm90/accumulator.cuh"
#include "common/sm90/wgmma.cuh"
#if GATHERED
#include "mla_decode/kernels/sm90/gather.cuh"
#else
#include "mla_decode/kernels/sm90/copies.cuh"
#endif
#include "mla_decode/kernels/sm90/results.cuh"

namespace q {

struct Multiplier {
  const MlaParams& p;
  Memory m;
  u32 other;          // rank of the cluster's other block
  int group, thread;  // which warpgroup, which of its threads
  SharedArray<Mbarrier> full;
  Operand<Major::k> queries, keys;  // keys: of the block whose weights it makes
  Operand<Major::mn> values;        // its half of block 0
  Operand<Major::k> weights_of;     // of block 0

  QUERN_DEVICE Multiplier(const MlaParams& params, Memory memory, int own)
      : p(params),
        m(memory),
        other(Peers().other()),
        group(own),
        thread(thread_index() - own * kGroupThreads),
        full(memory.barriers().full[0]),
        queries(memory.queries()),
        keys(memory.queries() + (1 + own) * kBlockBytes),
        values(memory.queries() + kBlockBytes + own * kHalf * kTileBytes),
        weights_of(memory.queries() + kBlockBytes + kRopeTile * kTileBytes) {}

  // Queries that no other warp copies: four threads have a row.
  QUERN_DEVICE void load_queries(const Task& t) const {
    const i32 row = thread_index() >> 2;
    const QueryRow from(p, t, row);
    QUERN_UNROLL for (int i = 0; i < kTiles * 2; ++i) {
      const i32 tile = i >> 1, piece = (thread_index() & 3) + (i & 1) * 4;
      copy_async_16(m.queries() + tile * kTileBytes + place_in_tile(row, piece),
                    (tile == kRopeTile ? from.rope : from.latent + tile * 64) + piece * 8, from.there);
    }
    copy_async_commit();
    copy_async_wait<0>();
    fence_async();
  }

  QUERN_DEVICE void wait_for_keys(int block, int part, u32 round) const {
    mbarrier_wait(full, block * kParts + barrier_of(block, part), round);
    if (kGathered) fence_async();  // what the copying threads' stores and cp.async wrote
  }
  // Parts `first` and on of the own block, in the order in which they are copied. Asynchronous.
  template <int first, int last>
  QUERN_DEVICE void multiply_parts(f32 (&logits)[32], u32 round) const {
    wgmma_fence();
    QUERN_UNROLL for (int i = first; i < last; ++i) {
      const int part = part_at(group, i);
      if (begins_barrier(i)) wait_for_keys(group, part, round);
      QUERN_UNROLL for (int k = 0; k < (i == kRopePart ? 1 : 2); ++k) {
        const u32 at = static_cast<u32>((2 * part + k) * kTileBytes);
        wgmma_four<32, 32, Element>(logits, queries.at(at), keys.at(at), i > 0 || k > 0);
      }
    }
    wgmma_commit();
  }
  // sums += weights values of a block, the values its half of the columns, which it releases.
  // `others` are of products that have not been waited for.
  template <class... Others>
  QUERN_DEVICE void add(f32 (&sums)[128], int block, u32 round, Others&... others) const {
    // Copied for one warpgroup, which has seen them arrive; the other has to see it for itself.
    QUERN_UNROLL for (int i = 0; i < (kGathered ? 1 : 2); ++i) wait_for_keys(block, group * 2 + i, round);
    wgmma_fence();
    // By parts where they are released one by one; and where one product of all columns would need more registers than
    // the threads of three other warpgroups leave at the start.
    constexpr int kColumns = kPartsTogether == 1 || THREADS == kGather64Threads ? 128 : 256;
    QUERN_UNROLL for (int column = 0; column < 256; column += kColumns) {
      wgmma_four<32, 16 * 128, Element, Element, Major::k, Major::mn>(
          *reinterpret_cast<f32(*)[kColumns / 2]>(sums + column / 2),
          weights_of.at(static_cast<u32>(block * kBlockBytes)),
          values.at(static_cast<u32>(block * kBlockBytes + column / 64 * kTileBytes)), true);
      if (kPartsTogether == 1 || column + kColumns == 256) wgmma_commit();
    }
    Mbarrier* empty = m.barriers().empty[block] + group * (2 / kPartsTogether);
    if constexpr (kPartsTogether == 1) {
      wgmma_wait<1>();
      release(*empty++);
    }
    wgmma_wait<0>(sums, others...);
    release(*empty);
  }
  // To all blocks of threads that fill it: only products have read it.
  QUERN_DEVICE void release(Mbarrier& empty) const {
    if (!elect_one()) return;
    mbarrier_arrive(empty);
    if (kPaired) mbarrier_arrive_remote_relaxed(empty, other);
  }

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

  // Logits of the products with the own block, as its rows see it.
  QUERN_DEVICE void see(const Task& t, i32 own_key, bool edge, f32 (&logits)[32]) const {
#if CAP
    QUERN_UNROLL for (int i = 0; i < 32; ++i) logits[i] = logit(p, logits[i]);
#endif
    if (edge) mask(t, own_key, logits);
    if (kListed) mask_listed(m.told().there[group], logits);
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
  // The same where keys are listed: which are seen has been found out already, the same for all rows.
  QUERN_DEVICE void mask_listed(u64 there, f32 (&logits)[32]) const {
    if (there == ~u64{0}) return;
    const u64 own = there >> accumulator_column(thread, 0);
    QUERN_UNROLL for (int i = 0; i < 32; ++i) {
      if ((own >> accumulator_column(0, i) & 1) == 0) logits[i] = -infinity();
    }
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

  // Keys that no row of the tile sees may be anything, NaN too: as values they must be zeros, since their weight is.
  // Of keys that only some of the rows see, only NaN becomes zero: infinities stay.
  QUERN_DEVICE void clear_unseen(const Task& t, i32 key) const {
    u8* block = m.keys(group);
    QUERN_ROLLED for (i32 i = thread; i < kKeys * kRopeTile * 8; i += kGroupThreads) {
      const i32 row = i >> 6, at = key + row;
      if (at >= t.all.first && at < t.all.last) continue;
      u8* piece = block + (i >> 3 & 7) * kTileBytes + row * 128 + (i & 7) * 16;
      const bool seen = at >= t.any.first && at < t.any.last;
      store16(piece, seen ? without_nan(load16(piece)) : vec16{});
    }
    fence_async();
  }
  // Weights to where the block's rope part was.
  QUERN_DEVICE void hand_over(const u32 (&weights)[4][4]) const {
    u8* to = m.keys(group) + kRopeTile * kTileBytes;
    const int l = lane(), row = (thread >> 5) * 16 + (l & 15);
    QUERN_UNROLL for (int k = 0; k < 4; ++k) store_matrix<false>(to + place_in_tile(row, k * 2 + (l >> 4)), weights[k]);
    fence_async();
    arrive_named(kWeights0 + group, kConsumers);
  }
  // Logits become weights relative to `to`, and go to where the other reads them.
  QUERN_DEVICE void give_weights(const Task& t, i32 own_key, bool edge, const f32 (&to)[2], f32 (&logits)[32],
                                 Rows& rows) const {
    u32 weights[4][4];
    weigh(logits, to);
    to_operand<Element>(logits, weights);
    meet_named(kOwn + group, 2 * kGroupThreads);
    if (kClearsValues && edge) clear_unseen(t, own_key);
    hand_over(weights);
    sum(logits, rows.sum);
  }
  QUERN_DEVICE void publish(f32* to, const f32 (&rows)[2]) const { publish_rows(to, rows, thread); }
  QUERN_DEVICE void learn(const f32* from, f32 (&rows)[2]) const {
    QUERN_UNROLL for (int h = 0; h < 2; ++h) rows[h] = from[accumulator_row(thread, h)];
  }

  // A pair of blocks, the first at key `key`. Keys from `low` to `high` begin blocks of which every row sees all keys.
  QUERN_DEVICE void take_pair(const Task& t, i32 key, i32 low, i32 high, u32 round, f32 (&sums)[128], Rows& rows,
                              bool last) const {
    f32 logits[32], to[2], first[2],
        second[2];  // what sums are multiplied with before block 0's and block 1's are added
    bool first_changed, second_changed = false;
    const i32 own_key = key + group * kKeys;
    const bool edge = !kListed && (own_key < low || own_key > high);
    multiply_parts<0, kParts>(logits, round);
    wgmma_wait<0>(logits);
    if (kQueriesAhead && last && elect_one()) mbarrier_arrive(m.barriers().queries_empty);
    arrive_named(kOwn + group, 2 * kGroupThreads);  // this warp has multiplied the rope part, over which weights go
    see(t, own_key, edge, logits);
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
    give_weights(t, own_key, edge, to, logits, rows);
    if (first_changed) scale_rows(sums, first);
    // Its own weights are there when its own threads have stored them, the other's when they have arrived.
    if (group == 0) {
      sync_named(kStored, kGroupThreads);
    } else {
      meet_named(kWeights0, kConsumers);
    }
    add(sums, 0, round);
    if (group == 0) {
      meet_named(kWeights1, kConsumers);
      learn(m.base(1), to);
      second_changed = follow(rows, to, second);
    } else {
      sync_named(kStored + 1, kGroupThreads);
    }
    if (second_changed) scale_rows(sums, second);
    add(sums, 1, round);
  }

  // Half a pair apart: adds the other's block, block 1 of the pair before or block 0 of this one, while `logits` are
  // still being multiplied.
  QUERN_DEVICE void take_other(u32 round, f32 (&logits)[32], f32 (&sums)[128], Rows& rows) const {
    f32 to[2], factor[2];
    const int block = group ^ 1;
    meet_named(kWeights0 + block, kConsumers);
    learn(m.base(block), to);
    if (follow(rows, to, factor)) scale_rows(sums, factor);
    add(sums, block, round, logits);
  }
  // Weighs the own block and adds it.
  QUERN_DEVICE void take_own(const Task& t, i32 own_key, i32 low, i32 high, u32 round, f32 (&logits)[32],
                             f32 (&sums)[128], Rows& rows) const {
    f32 to[2], factor[2];
    const bool edge = !kListed && (own_key < low || own_key > high);
    arrive_named(kOwn + group, 2 * kGroupThreads);
    see(t, own_key, edge, logits);
    raise(logits, rows.base, to);
    publish(m.base(group), to);
    const bool changed = follow(rows, to, factor);
    give_weights(t, own_key, edge, to, logits, rows);
    if (changed) scale_rows(sums, factor);
    sync_named(kStored + group, kGroupThreads);
    add(sums, group, round);
  }

  // All keys of a task.
  QUERN_DEVICE void take_keys(const Task& t, u32& round, f32 (&sums)[128], Rows& rows) const {
    const i32 begin = shuffle(t.key, 0), end = shuffle(t.end_key, 0);
    const i32 low = shuffle(t.all.first, 0), high = shuffle(t.all.last, 0) - kKeys;
    if constexpr (!kStaggered) {
      QUERN_ROLLED for (i32 key = begin; key < end; key += kBlock) {
        take_pair(t, key, low, high, round, sums, rows, key + kBlock >= end);
        round ^= 1;
      }
    } else {
      f32 logits[32];
      QUERN_ROLLED for (i32 key = begin;; key += kBlock) {
        const bool more = key < end;
        if (more) multiply_parts<0, 2>(logits, round);
        if (group == 0 ? key > begin : more) take_other(round ^ (group ^ 1), logits, sums, rows);
        if (!more) break;
        multiply_parts<2, kParts>(logits, round);
        wgmma_wait<0>(logits);
        take_own(t, key + group * kKeys, low, high, round, logits, sums, rows);
        round ^= 1;
      }
    }
  }

  QUERN_DEVICE void run() const {
    Listener listener(m.told().mailbox);
    u32 round = 0, turn = 0;
    bool later = false, begun = false;
    f32 sums[128];
    QUERN_ROLLED for (;;) {
      // While the first task is still being found, the code that loads its queries runs once for none, so that it has
      // been fetched.
      const Task& t = begun ? listener.next() : m.told().mailbox.none;
      if (begun && shuffle(t.rows, 0) < 0) break;
      if (kQueriesAhead && later) {
        mbarrier_wait(m.barriers().queries_full, turn);
        turn ^= 1;
        fence_async();  // what another warp's cp.async wrote
      } else {
        sync_named(kBoth, kConsumers);  // whoever still multiplies the queries before
        load_queries(t);
        sync_named(kBoth, kConsumers);
        later = begun;
      }
      if (!begun) {
        begun = true;
        all_ready();
        continue;
      }
      Rows rows = {{-infinity(), -infinity()}, {0.0f, 0.0f}};
      QUERN_UNROLL for (int i = 0; i < 128; ++i) sums[i] = 0.0f;
      take_keys(t, round, sums, rows);
      write_results(p, m, t, group, thread, sums, rows);
      listener.done();
    }
  }
};

}  // namespace q

#if GATHERED
QUERN_KERNEL(quern_mla_rows64, THREADS, 1, QUERN_PARAM q::MlaParams p) {
#else
QUERN_KERNEL(quern_mla_rows64, THREADS, 1, QUERN_PARAM q::MlaParams p, QUERN_PARAM q::TensorMap latent,
             QUERN_PARAM q::TensorMap rope) {
#endif
  using namespace q;
  const Memory memory = {tile_shared()};
  if (thread_index() == 0) {
    Barriers& b = memory.barriers();
    QUERN_ROLLED for (int i = 0; i < 2 * kParts; ++i) mbarrier_init(b.full[0][i], kFullArrivals);
    QUERN_ROLLED for (int i = 0; i < 2 * kRopePart / kPartsTogether; ++i) mbarrier_init(b.empty[0][i], kReleases);
    mbarrier_init(b.queries_full, kWarp);
    mbarrier_init(b.queries_empty, kConsumers / kWarp);
    memory.told().mailbox.init(kListeners);
    memory.told().mailbox.none = {};
    fence_mbarrier_init();
#if !GATHERED
    if (p.pool_pages > 0) {
      prefetch_tensor_map(latent);
      prefetch_tensor_map(rope);
    }
#endif
  }
  launch_next_grid();
  wait_for_previous_grid();
  // By the thread that notes what is cut.
  note_no_cut(p, block_index(0) / p.by_side, thread_index() == kConsumers + kTeller * kWarp);
  if (is_counted(p)) {
    count_together(p, THREADS / kWarp, memory.chunks());
    sync_block();
  }
  const int group = shuffle(thread_index() / kGroupThreads, 0);
  if (group >= 2) {
    registers_shrink<THREADS == kGather64Threads ? 64 : kGathered ? 120 : 88>();
    const int w = shuffle(warp() - 2 * kGroupThreads / kWarp, 0);
#if GATHERED
    supply(p, memory, w);
#else
    supply(p, {latent, rope}, memory, w);
#endif
  } else {
    registers_grow<kGathered ? 192 : 208>();
    Multiplier(p, memory, group).run();
  }
  if (kPaired) sync_cluster();  // nobody arrives on barriers or writes keys of a block that has ended
}
