// The warps that bring keys and values of wide heads into shared memory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "attention/kernels/sm90/wide_shape.cuh"

namespace q {

static_assert(kBoxes * kSources <= kWarp, "a lane copies one box of one source's block");

// Keys and values of a ring, in the order in which they are multiplied, by one warp: of each kSources blocks of keys
// first the keys of the reader's own, then its columns of the values of all.
struct SpanCopies {
  const AttentionParams& p;
  const TensorMap& map_k;
  const TensorMap& map_v;
  i32 ring;
  i32 me;           // the source that reads the ring
  i32 source, box;  // the lane's
  SharedArray<u8> stages;
  SharedArray<Mbarrier> full, empty;
  PipelineState<kStages> state;

  QUERN_DEVICE SpanCopies(const AttentionParams& params, const TensorMap& k, const TensorMap& v, Shared* shared,
                          const Tiles& tiles, i32 number)
      : p(params),
        map_k(k),
        map_v(v),
        ring(number),
        me(static_cast<i32>(cluster_rank()) * kRings + number),
        source(lane() / kBoxes),
        box(lane() % kBoxes),
        stages(tiles.stages + number * kStages * kStageBytes),
        full(shared->stages.full + number * kStages),
        empty(shared->stages.empty + number * kStages) {}

  // `spans` spans of a source's block, from a column on.
  QUERN_DEVICE void copy(const TensorMap& map, i32 of, i32 spans, i32 column, const Place& at, i32 head) {
    QUERN_ROLLED for (i32 span = 0; span < spans; span += kStageSpans) {
      const i32 left = spans - span, count = left < kStageSpans ? left : kStageSpans;
      acquire(empty, state);
      if (lane() == 0) mbarrier_arrive_expect(full, state.stage, static_cast<u32>(count * kSpanTile));
      sync_warp();
      if (source == of) {
        QUERN_UNROLL for (i32 i = 0; i < kStageSpans; ++i) {
          if (i >= count) continue;
          tma_load(stages, state.stage * kStageBytes + i * kSpanTile + box * kBoxKeys * kSpanBytes, map, full,
                   state.stage, CacheHint::normal, column + (span + i) * kSpanElements, at.token, head, at.page);
        }
      }
      state.next();
    }
  }

  QUERN_DEVICE void run(Shared* shared) {
    Told told(shared);
    QUERN_ROLLED for (;;) {
      const Task& task = told.next();
      if (task.piece.count == 0) break;
      const i32 begin = task.begin, end = task.end, head = task.piece.head, first = task.sequence.first;
      const Places places(p, task.sequence.index, task.sequence.kv_len);
      const bool draws = ring == 0 && cluster_rank() == 0;
      const i32 draw_at = end - 1 < begin + kDrawAhead ? end - 1 : begin + kDrawAhead;
      bool drawn = false;
      if (begin >= end && draws && elect_one()) mbarrier_arrive(shared->nearly_copied);
      const auto place = [&](i32 top) {
        const i32 block = block_of(top, source);
        return source < kSources && block >= begin ? places.at(first + block * kBlock + box * kBoxKeys) : Place{};
      };
      Place at = place(end - 1);
      QUERN_ROLLED for (i32 top = end - 1; top >= begin; top -= kSources) {
        if (!drawn && top - kSources < draw_at) {
          drawn = true;
          if (draws && elect_one()) mbarrier_arrive(shared->nearly_copied);
        }
        const Place next = place(top - kSources);
        if (block_of(top, me) >= begin) copy(map_k, me, kSpansK, 0, at, head);
        QUERN_ROLLED for (int i = 0; i < kSources; ++i) {
          if (block_of(top, me ^ i) >= begin) copy(map_v, me ^ i, kColumnSpans, me * kColumns, at, head);
        }
        at = next;
      }
      told.done();
    }
  }
};

}  // namespace q
