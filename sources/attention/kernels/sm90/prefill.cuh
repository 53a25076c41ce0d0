// Attention with many rows a KV head on Hopper: warpgroups that multiply, warps that copy, a ring of stages between.
//
// A consumer's softmax of one block of keys runs while its product of weights and values of the block before is under
// way, and while other consumers multiply. Blocks of keys are taken from the last to the first, since the last ones of
// a causal tile are those that need a mask.
// SPDX-License-Identifier: Apache-2.0
#include "attention/kernels/sm90/load.cuh"
#include "attention/kernels/sm90/results.cuh"
#include "attention/kernels/sm90/turn.cuh"
#include "attention/kernels/sm90/widen_blocks.cuh"

namespace q {

using Sums = WarpgroupSums<0, kDimV / 2>;

struct Consumer {
  const AttentionParams& p;
  Shared* shared;
  const Tiles& tiles;
  i32 group, thread;  // which of the consumers, which of its threads
  Operand queries, keys, values;

  QUERN_DEVICE Consumer(const AttentionParams& params, Shared* s, const Tiles& t)
      : p(params),
        shared(s),
        tiles(t),
        group(shuffle(thread_index() / kGroupThreads, 0)),
        thread(thread_index() % kGroupThreads),
        queries(Operand::of<Major::k, kRows>(t.queries + group * 64 * kSpanBytes)),
        keys(Operand::of<Major::k, kBlock>(t.keys)),
        values(kEights ? Operand::of<Major::k, kDimV>(t.turned) : Operand::of<Major::mn, kBlock>(t.values)) {}

  // A step of 32 bytes of the dims, of which a span has four.
  QUERN_DEVICE u64 query_step(i32 tile, int k) const {
    return queries.at<Major::k, kRows>(tile * kQueryBytes + k / 4 * kRows * kSpanBytes + k % 4 * 32);
  }
  QUERN_DEVICE u64 key_step(i32 stage, int k) const {
    return keys.at<Major::k, kBlock>(stage * kKeyBytes + k / 4 * kBlock * kSpanBytes + k % 4 * 32);
  }
  QUERN_DEVICE void multiply_keys(Scores& x, i32 tile, i32 stage) const {
    constexpr int kWhole = kProductsK / 4 * 4;
    QUERN_UNROLL for (int k = 0; k < kWhole; k += 4) {
      wgmma_four<32, 32, QueryElement, Multiplied>(x, query_step(tile, k), key_step(stage, k), k > 0);
    }
    QUERN_UNROLL for (int k = kWhole; k < kProductsK; ++k) {
      wgmma<QueryElement, Multiplied>(x, query_step(tile, k), key_step(stage, k), k > 0);
    }
    wgmma_commit();
  }
  QUERN_DEVICE void multiply_values(Sums& o, const u32 (&weights)[kProductsV][4], i32 stage) const {
    if constexpr (kEights) {
      const u64 turned = values.at<Major::k, kDimV>(stage * kTurnedBytes);
      o.template multiply_steps<Weight, Multiplied, Major::k, 32>(weights, turned);
    } else if constexpr (kHelpers != 0 && kDimV > 192) {
      // A product may not name more registers than a thread has before any are handed over.
      constexpr int kHalf = kSpansV / 2 * 32;
      const u64 first = values.at<Major::mn, kBlock>(stage * kValueBytes),
                second = values.at<Major::mn, kBlock>(stage * kValueBytes + kSpansV / 2 * kBlock * kSpanBytes);
      o.template multiply_steps<Weight, Multiplied, Major::mn, 16 * kSpanBytes, 0, kHalf>(weights, first);
      o.template multiply_steps<Weight, Multiplied, Major::mn, 16 * kSpanBytes, kHalf, kDimV / 2 - kHalf>(weights,
                                                                                                          second);
    } else {
      const u64 rows = values.at<Major::mn, kBlock>(stage * kValueBytes);
      o.template multiply_steps<Weight, Multiplied, Major::mn, 16 * kSpanBytes>(weights, rows);
    }
    wgmma_commit();
  }

  // What lies behind the sequence's last key may be anything, and no weight of zero makes nothing of it.
  QUERN_DEVICE void clear_behind(i32 stage, i32 valid) const {
    const int rows = kBlock - valid;
    QUERN_ROLLED for (int i = thread; i < rows * kSpansV * 8; i += kGroupThreads) {
      const int row = valid + i / (kSpansV * 8), span = i / 8 % kSpansV, chunk = i % 8;
      store16(tiles.values + stage * kValueBytes + (span * kBlock + row) * kSpanBytes + chunk * 16, {{0, 0, 0, 0}});
    }
    fence_async();
    sync_named(kGroupBarrier + group, kGroupThreads);
  }

  // With kTokenScales: those of the block whose logits are in hand.
  template <class S>
  QUERN_DEVICE TokenScales token_scales(const S* of, i32 stage) const {
    const f32(&by_warp)[4] = of->largest_scales[stage];
    return {SharedArray<f32>(tiles.scales), stage * 2 * kBlock + accumulator_column(thread, 0),
            fmax(fmax(by_warp[0], by_warp[1]), fmax(by_warp[2], by_warp[3]))};
  }
  template <class S>
  QUERN_DEVICE void release_scales(S* of, PipelineState<kStages>& state) const {
    sync_warp();
    release(SharedArray<Mbarrier>(of->scales_read), state);
  }
  template <int stages>
  QUERN_DEVICE void release(const SharedArray<Mbarrier>& empty, PipelineState<stages>& state) const {
    if (elect_one()) mbarrier_arrive(empty, state.stage);
    state.next();
  }

  // Item after item. With two tiles of queries the next item's first scores are under way beside the last product of
  // weights and values, so that nothing waits for results to be written.
  QUERN_DEVICE void run(Sums& o) const {
    Told told(shared);
    const SharedArray<Mbarrier> full_q(shared->queries.full), empty_q(shared->queries.empty);
    const SharedArray<Mbarrier> full_k(shared->keys.full), empty_k(shared->keys.empty);
    constexpr int kStagesV = kEights ? kTurnedStages : kStages;
    const SharedArray<Mbarrier> full_v(kEights ? shared->turned.full : shared->values.full),
        empty_v(kEights ? shared->turned.empty : shared->values.empty);
    PipelineState<kQueryStages> of_q;
    PipelineState<kStages> of_k;
    PipelineState<kStagesV> of_v;
    PipelineState<kStages> of_scales;
    Scores x;
    bool under_way = false;  // the scores of the item's first block are in x
    QUERN_ROLLED for (;;) {
      const Task& task = told.next();
      if (task.piece.count == 0) break;
      const Sequence& s = task.sequence;
      const i32 begin = shuffle(task.begin, 0), end = shuffle(task.end, 0);
      const i32 first_row = task.piece.tile * kRows + group * 64;
      const TileRange seen = tile_range(p, s, first_row, 64);
      const Rows rows(p, s, task.piece.head, first_row + accumulator_row(thread, 0));
      RowSoftmax softmax;
      o.clear();
      const bool any = begin < end;
      if (any && !under_way) {
        await(full_q, of_q);
        fence_async();  // queries came by ordinary copies
        await(full_k, of_k);
        wgmma_fence();
        multiply_keys(x, of_q.stage, of_k.stage);
        wgmma_wait<0>(x);
        release(empty_k, of_k);
      }
      under_way = false;
      if (any) {
        u32 weights[kProductsV][4];
        i32 key = s.first + (end - 1) * kBlock;
        if (kHelpers == 0 && key + kBlock > s.kv_len) {
          await(full_v, of_v);
          clear_behind(of_v.stage, s.kv_len - key);
        }
        // One block of keys: its weights, the scores of the next one, then the product of weights and values. True at
        // the item's last one.
        i32 block = end - 1;
        const auto step = [&](u32(&own)[kProductsV][4]) {
          f32 rescale[2];
          const bool masked =
              key < seen.all.first || key + kBlock > seen.all.last || (kCustomMask && key + kBlock > rows.mask.first);
          bool changed;
          if constexpr (kTokenScales) {
            const TokenScales scales = token_scales(shared, of_scales.stage);
            scale_scores(scales, x);
            mask_scores(p, s, rows, thread, key, masked, x);
            if constexpr (kTwoWeights) {
              changed = weigh_into(p, rows, x, softmax, rescale, own, &scales);
            } else {
              changed = weigh_scores(p, rows, x, softmax, rescale, &scales);
            }
            release_scales(shared, of_scales);
          } else {
            mask_scores(p, s, rows, thread, key, masked, x);
            if constexpr (kTwoWeights) {
              changed = weigh_into(p, rows, x, softmax, rescale, own);
            } else {
              changed = weigh_scores(p, rows, x, softmax, rescale);
            }
          }
          // Of two blocks of weights the branch on their sums holds the wait back already.
          if constexpr (!kTwoWeights) {
            settle((softmax.sum[0][0] + softmax.sum[0][1]) + (softmax.sum[1][0] + softmax.sum[1][1]));
          }
          wgmma_wait<0>();
          if (block < end - 1) release(empty_v, of_v);
          if constexpr (!kTwoWeights) {
            if (any_lane(changed)) o.scale_rows(rescale);
            to_operand<Weight>(x, own);
          }
          const bool last = block == begin;
          if (last) {
            release(empty_q, of_q);
            if constexpr (kQueryStages == 1) return true;
            const Task& next = told.peek();
            under_way = next.piece.count != 0 && next.begin < next.end;
            if (under_way) {
              await(full_q, of_q);
              fence_async();
            }
          }
          if (!last || under_way) await(full_k, of_k);
          wgmma_fence();
          // Where no item follows these are scores of whatever lies there, which nobody looks at.
          multiply_keys(x, of_q.stage, of_k.stage);
          if constexpr (kTwoWeights) {
            if (any_lane(changed)) o.scale_rows(rescale);
          }
          await(full_v, of_v);
          wgmma_fence();
          multiply_values(o, own, of_v.stage);
          wgmma_wait<1>(x);
          if (!last) release(empty_k, of_k);
          --block, key -= kBlock;
          return last;
        };
        if constexpr (kTwoWeights) {
          u32 other[kProductsV][4];
          QUERN_ROLLED while (!step(weights) && !step(other)) {}
        } else {
          QUERN_ROLLED while (!step(weights)) {}
        }
        if constexpr (kQueryStages == 1) {
          await(full_v, of_v);
          wgmma_fence();
          multiply_values(o, weights, of_v.stage);
        }
        wgmma_wait<0>();
        if (under_way) release(empty_k, of_k);
        release(empty_v, of_v);
      }
      write_results(p, s, task.piece, rows, thread, softmax, o, &shared->flag);
      told.done();
    }
  }
};

}  // namespace q

QUERN_KERNEL(quern_attention_sm90, THREADS, 1, QUERN_PARAM q::AttentionParams p, QUERN_PARAM q::TensorMap map_k,
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
  sync_block();
  wait_for_previous_grid();
  if (shuffle(thread_index() / kGroupThreads, 0) == kConsumers) {
    registers_shrink<kProducerRegisters>();
    const int w = shuffle(warp() % 4, 0);
    if (w == 0) {
      KeyCopies(p, map_k, map_v).run<true, kCopyWarps == 1>(shared, tiles);
    } else if (kCopyWarps == 2 && w == 1) {
      KeyCopies(p, map_k, map_v).run<false, true>(shared, tiles);
    } else if (w == kScheduleWarp) {
      tell_tasks(p, shared);
    } else {
      copy_queries<kQueryWarps * kWarp>(p, shared, tiles.queries, thread_index() % kGroupThreads - kQueryWarp * kWarp);
    }
    sync_warp();
  } else if (kHelpers != 0 && shuffle(thread_index() / kGroupThreads, 0) > kConsumers) {
    registers_shrink<kHelperRegisters>();
    if constexpr (kWidened) {
      widen_blocks(p, shared, tiles);
    } else {
      turn_values(shared, tiles);
    }
  } else {
    registers_grow<kConsumerRegisters>();
    Consumer(p, shared, tiles).run(sums);
  }
}
