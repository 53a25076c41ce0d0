// Attention with wide heads and many rows a KV head on Hopper: warpgroups of two blocks of threads that share out keys
// for the weights and columns for the results. wide_shape.cuh says who has what.
//
//   each source                                       each owner of columns
//   scores of its block of keys, all columns
//   weights, relative to a maximum of its own  ---->  for each source: sums += weights * its columns of the values
//
// Nobody waits for a maximum that all agree on: an owner follows the largest that it has been told of, and multiplies
// with a power of two what is relative to another. A source then goes on from there, so that this soon becomes seldom.
// While one warpgroup does softmax and hands weights over, another one multiplies.
// SPDX-License-Identifier: Apache-2.0
#include "attention/kernels/sm90/results.cuh"
#include "attention/kernels/sm90/wide_load.cuh"
#include "attention/kernels/sm90/wide_weights.cuh"

namespace q {

using Sums = WarpgroupSums<0, kColumns / 2>;

// The stages as a consumer reads them. Products of one stage are under way while those of the next, or of so many, are
// issued.
struct Reader {
  static constexpr int kUnderWay = kTall && kStages > 3 ? 2 : 1;
  static_assert(kUnderWay < kStages, "the next products' stage is another one");
  SharedArray<Mbarrier> full, empty;
  PipelineState<kStages> state;

  QUERN_DEVICE Reader(Shared* shared, i32 ring)
      : full(shared->stages.full + ring * kStages), empty(shared->stages.empty + ring * kStages) {}

  // Where the next stage lies.
  QUERN_DEVICE i32 next() const {
    await(full, state);
    return state.stage * kStageBytes;
  }
  // Its products have been issued, behind those of `before` stages.
  QUERN_DEVICE void issued(int before) {
    wgmma_commit();
    if (before >= kUnderWay) {
      wgmma_wait<kUnderWay>();
      release(kUnderWay);
    }
    state.next();
  }
  // All products of so many stages are done.
  QUERN_DEVICE void done(int count) const {
    QUERN_UNROLL for (int i = kUnderWay; i > 0; --i) {
      if (i <= count) release(i);
    }
  }

 private:
  // The stage so many before the one at hand.
  QUERN_DEVICE void release(int before) const {
    const i32 at = state.stage - before;
    if (elect_one()) mbarrier_arrive(empty, at < 0 ? at + kStages : at);
  }
};

struct Consumer {
  const AttentionParams& p;
  Shared* shared;
  i32 group, thread, me;
  u8* stages;
  Operand queries, keys, values;
  Reader reader;
  Handover handover;

  QUERN_DEVICE Consumer(const AttentionParams& params, Shared* s, const Tiles& t)
      : p(params),
        shared(s),
        group(shuffle(thread_index() / kGroupThreads, 0)),
        thread(thread_index() % kGroupThreads),
        me(static_cast<i32>(cluster_rank()) * (kTall ? 1 : kConsumers) + (kTall ? 0 : group)),
        stages(t.stages + (kTall ? 0 : group) * kStages * kStageBytes),
        queries(Operand::of<Major::k, kRows>(t.queries + (kTall ? group * 64 * kSpanBytes : 0))),
        keys(Operand::of<Major::k, kBlock>(stages)),
        values(Operand::of<Major::mn, kBlock>(stages)),
        reader(s, kTall ? 0 : group),
        handover(s, t.weights, group, thread, me) {}

  // Products with a stage's columns of the keys, of which some spans are whole, and the next has some steps.
  template <int kSpans, int kSteps>
  QUERN_DEVICE void multiply_stage(Scores& x, int number) {
    const i32 stage = reader.next(), first = number * kStageSpans * kRows * kSpanBytes;
    wgmma_fence();
    QUERN_UNROLL for (int span = 0; span < kSpans; ++span) {
      const u64 a = queries.at<Major::k, kRows>(first + span * kRows * kSpanBytes);
      wgmma_four<32, 32, Element>(x, a, keys.at<Major::k, kBlock>(stage + span * kSpanTile), number + span > 0);
    }
    QUERN_UNROLL for (int k = 0; k < kSteps; ++k) {
      const u64 a = queries.at<Major::k, kRows>(first + kSpans * kRows * kSpanBytes + k * 32);
      const u64 b = keys.at<Major::k, kBlock>(stage + kSpans * kSpanTile + k * 32);
      wgmma<Element, Element>(x, a, b, number + kSpans + k > 0);
    }
    reader.issued(number);
  }
  QUERN_DEVICE void multiply_keys(Scores& x) {
    constexpr int kWhole = kProductsK / (4 * kStageSpans), kLeft = kProductsK % (4 * kStageSpans);
    QUERN_ROLLED for (int i = 0; i < kWhole; ++i) multiply_stage<kStageSpans, 0>(x, i);
    if constexpr (kLeft > 0) multiply_stage<kLeft / 4, kLeft % 4>(x, kWhole);
    wgmma_wait<0>(x);
    reader.done(kWhole + (kLeft > 0));
  }

  // What lies behind the sequence's last key may be anything, and no weight of zero makes nothing of it.
  template <int kSpans>
  QUERN_DEVICE void clear_behind(i32 stage, i32 valid) const {
    QUERN_ROLLED for (int i = thread; i < (kBlock - valid) * 8; i += kGroupThreads) {
      QUERN_UNROLL for (int span = 0; span < kSpans; ++span) {
        store16(stages + stage + span * kSpanTile + (valid + i / 8) * kSpanBytes + i % 8 * 16, {{0, 0, 0, 0}});
      }
    }
    fence_async();
    sync_named(kGroupBarrier + group, kGroupThreads);
  }
  // Products with the columns of the values, of which `valid` keys are there, a stage at a time.
  template <int number = 0>
  QUERN_DEVICE void multiply_values(Sums& o, const Weights& weights, i32 valid) {
    constexpr int kMost = kStageSpans * 64, kLeft = kColumns - number * kMost,
                  kCount = (kLeft < kMost ? kLeft : kMost) / 2;
    const i32 stage = reader.next();
    if (valid < kBlock) clear_behind<div_up(kCount, 32)>(stage, valid);
    wgmma_fence();
    const u64 rows = values.at<Major::mn, kBlock>(stage);
    o.template multiply_steps<Element, Element, Major::mn, 16 * kSpanBytes, number * kMost / 2, kCount>(weights, rows);
    reader.issued(number);
    if constexpr (kLeft > kMost) {
      multiply_values<number + 1>(o, weights, valid);
    } else {
      wgmma_wait<0>();
      reader.done(number + 1);
    }
  }

  // Sums and weights become relative to the larger of what they are relative to, `all` and `own`.
  QUERN_DEVICE static void meet(f32 (&all)[2], const f32 (&own)[2], Sums& o, Weights& weights) {
    bool sums_change = false, weights_change = false;
    f32 of_sums[2], of_weights[2];
    QUERN_UNROLL for (int h = 0; h < 2; ++h) {
      const f32 larger = fmax(all[h], own[h]), base = finite_max(larger);
      sums_change |= all[h] != larger, weights_change |= own[h] != larger;
      of_sums[h] = exp2(all[h] - base), of_weights[h] = exp2(own[h] - base);
      all[h] = larger;
    }
    if (ballot(sums_change)) o.scale_rows(of_sums);
    if (ballot(weights_change)) scale_weights(weights, of_weights);
  }
  // What was summed of weights becomes relative to what all were told of last.
  QUERN_DEVICE static void follow(RowSoftmax& softmax, const f32 (&all)[2]) {
    QUERN_UNROLL for (int h = 0; h < 2; ++h) {
      const f32 factor = exp2(softmax.max[h] - finite_max(all[h]));
      QUERN_UNROLL for (int part = 0; part < 2; ++part) softmax.sum[h][part] *= factor;
      softmax.max[h] = all[h];
    }
  }

  // The sums of weights of all sources, NaN where values have spoilt some owner's columns of a row.
  QUERN_DEVICE void sum_up(RowSoftmax& softmax, const f32 (&all)[2], const Sums& o, f32 (&sum)[2]) {
    f32 own[2], values[Sums::kElements];
    o.read_all(values);
    follow(softmax, all);
    QUERN_UNROLL for (int h = 0; h < 2; ++h) {
      own[h] = quad_sum(softmax.sum[h][0] + softmax.sum[h][1] + (is_spoilt(values, h) ? nan() : 0.0f));
    }
    handover.give(own);
    f32 of[kSources][2];
    QUERN_UNROLL for (int i = 1; i < kSources; ++i) {
      handover.await(me ^ i, kRowBytes);
      handover.take_rows(me ^ i, of[i]);
      handover.done_reading(me ^ i);
    }
    // In the same order everywhere, so that all owners come to the same bits.
    QUERN_UNROLL for (int h = 0; h < 2; ++h) {
      of[0][h] = own[h], sum[h] = 0.0f;
      QUERN_UNROLL for (int s = 0; s < kSources; ++s) {
        QUERN_UNROLL for (int i = 0; i < kSources; ++i) sum[h] += (me ^ i) == s ? of[i][h] : 0.0f;
      }
    }
  }

  QUERN_DEVICE void write(const Task& task, const Rows& rows, const RowSoftmax& softmax, const f32 (&sum)[2],
                          const Sums& o) const {
    const Piece& piece = task.piece;
    f32* const slot = piece.count == 1 ? nullptr : slot_at(p, piece, piece.index);
    const i32 column = me * kColumns;
    constexpr bool kCut = kColumns * kSources != kDimV;
    if (column < kDimV) {
      f32 values[Sums::kElements];
      o.read_all(values);
      if (!slot) {
        write_out<kCut>(p, task.sequence, piece.head, rows, thread, softmax, sum, values, column);
      } else {
        write_slot<kCut>(p, task.sequence, rows, piece.tile * kRows, thread, softmax, sum, values, slot, column);
      }
      const bool spoilt[2] = {sum[0] != sum[0], sum[1] != sum[1]};
      mend_spoilt<kColumns>(p, task.sequence, piece, rows, spoilt, slot, column);
    }
    if (slot) join_last<4>(p, task.sequence, piece, 2, &shared->flag);
  }

  QUERN_DEVICE void run(Sums& o) {
    Told told(shared);
    const SharedArray<Mbarrier> full_q(shared->queries.full), empty_q(shared->queries.empty);
    PipelineState<1> of_q;
    QUERN_ROLLED for (;;) {
      const Task& task = told.next();
      if (task.piece.count == 0) break;
      const Sequence& s = task.sequence;
      const i32 begin = shuffle(task.begin, 0), end = shuffle(task.end, 0);
      const i32 first_row = task.piece.tile * kRows + (kTall ? group * 64 : 0);
      const TileRange seen = tile_range(p, s, first_row, 64);
      const Rows rows(p, s, task.piece.head, first_row + accumulator_row(thread, 0));
      RowSoftmax softmax;
      f32 all[2] = {-infinity(), -infinity()}, sum[2] = {0.0f, 0.0f};
      o.clear();
      if (begin < end) {
        await(full_q, of_q);
        fence_async();  // queries came by ordinary copies
      }
      QUERN_ROLLED for (i32 top = end - 1; top >= begin; top -= kSources) {
        Weights weights;
        f32 relative_to[2];
        if (block_of(top, me) >= begin) {
          Scores x;
          multiply_keys(x);
          const i32 key = s.first + block_of(top, me) * kBlock;
          const bool masked =
              key < seen.all.first || key + kBlock > seen.all.last || (kCustomMask && key + kBlock > rows.mask.first);
          mask_scores(p, s, rows, thread, key, masked, x);
          f32 ignored[2];
          follow(softmax, all);
          weigh_scores(p, rows, x, softmax, ignored);
          to_operand<Element>(x, weights);
          QUERN_UNROLL for (int h = 0; h < 2; ++h) relative_to[h] = softmax.max[h];
          handover.give(weights, relative_to);
        }
        if (top - kSources < begin && elect_one()) mbarrier_arrive(empty_q, of_q.stage);
        QUERN_ROLLED for (int i = 0; i < kSources; ++i) {
          const i32 source = me ^ i, block = block_of(top, source);
          if (block < begin) continue;
          if (i > 0) handover.take(source, weights, relative_to);
          meet(all, relative_to, o, weights);
          multiply_values(o, weights, s.kv_len - s.first - block * kBlock);
          if (i > 0) handover.done(source);
        }
      }
      if (begin < end) {
        of_q.next();
        sum_up(softmax, all, o, sum);
        QUERN_UNROLL for (int h = 0; h < 2; ++h) softmax.max[h] = all[h];
      }
      write(task, rows, softmax, sum, o);
      told.done();
    }
  }
};

}  // namespace q

QUERN_KERNEL(quern_attention_wide_sm90, THREADS, 1, QUERN_PARAM q::AttentionParams p, QUERN_PARAM q::TensorMap map_k,
             QUERN_PARAM q::TensorMap map_v) {
  using namespace q;
  QUERN_SHARED(Shared, shared, 1);
  const Tiles tiles = tiles_at(tile_shared());
  Sums sums;  // of consumers
  launch_next_grid();
  if (warp() == 0 && elect_one()) {
    prefetch_tensor_map(map_k);
    prefetch_tensor_map(map_v);
    shared->init();
  }
  sync_cluster();
  wait_for_previous_grid();
  if (shuffle(thread_index() / kGroupThreads, 0) == kConsumers) {
    registers_shrink<kProducerRegisters>();
    const int w = shuffle(warp() % 4, 0);
    if (w < kCopyWarps) {
      SpanCopies(p, map_k, map_v, shared, tiles, w).run(shared);
    } else if (w < kScheduleWarp) {
      copy_queries<kQueryWarps * kWarp>(p, shared, tiles.queries, thread_index() % kGroupThreads - kQueryWarp * kWarp);
    } else if (cluster_rank() == 0) {
      tell_tasks(p, shared);
    }
    sync_warp();
  } else {
    registers_grow<kConsumerRegisters>();
    Consumer(p, shared, tiles).run(sums);
  }
  sync_cluster();  // nobody writes to a block, or arrives on its barriers, that has ended
}
