// The warps that bring keys and values into shared memory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "attention/kernels/sm90/shape.cuh"

namespace q {

// Keys, values, or both, by one warp: each lane copies a span of the keys that share a page. They are issued one after
// the other, each in some 40 clocks.
struct KeyCopies {
  const AttentionParams& p;
  const TensorMap& map_k;
  const TensorMap& map_v;
  i32 box, span;  // the lane's

  QUERN_DEVICE KeyCopies(const AttentionParams& params, const TensorMap& k, const TensorMap& v)
      : p(params), map_k(k), map_v(v), box(lane() % kBoxes), span(lane() / kBoxes) {}

  // Where the lane's keys of a block lie.
  QUERN_DEVICE Place place(const Task& task, const Places& places, i32 block) const {
    return places.at(task.sequence.first + block * kBlock + box * kBoxKeys);
  }

  template <int kSpans>
  QUERN_DEVICE void copy(const TensorMap& map, u8* stages, const SharedArray<Mbarrier>& full,
                         const SharedArray<Mbarrier>& empty, PipelineState<kCopyStages>& state, const Place& at,
                         i32 head) const {
    constexpr int kBytes = kSpans * kBlock * kSpanBytes;
    acquire(empty, state);
    if (lane() == 0) mbarrier_arrive_expect(full, state.stage, kBytes);
    sync_warp();
    if (span < kSpans) {
      const i32 to = state.stage * kBytes + (span * kBlock + box * kBoxKeys) * kSpanBytes;
      tma_load(SharedArray<u8>(stages), to, map, full, state.stage, CacheHint::normal, span * kCopySpanElements,
               at.token, head, at.page);
    }
    state.next();
  }

  template <bool kKeys, bool kValues>
  QUERN_DEVICE void run(Shared* shared, const Tiles& tiles) const {
    Told told(shared);
    const SharedArray<Mbarrier> full_k(copied_keys(shared).full), empty_k(copied_keys(shared).empty);
    const SharedArray<Mbarrier> full_v(copied_values(shared).full), empty_v(copied_values(shared).empty);
    PipelineState<kCopyStages> of_k, of_v;
    QUERN_ROLLED for (;;) {
      const Task& task = told.next();
      if (task.piece.count == 0) break;
      const i32 begin = task.begin, end = task.end, head = task.piece.head;
      const Places places(p, task.sequence.index, task.sequence.kv_len);
      Place at{}, before{};
      const i32 draw_at = end - 1 < begin + kDrawAhead ? end - 1 : begin + kDrawAhead;
      if (kKeys && begin >= end && elect_one()) mbarrier_arrive(shared->nearly_copied);
      if (begin < end) at = place(task, places, end - 1);
      // A block's keys, then the values of the one before, in the order in which they are multiplied.
      QUERN_ROLLED for (i32 block = end - 1; block >= begin; --block) {
        Place next{};
        if (kKeys && block == draw_at && elect_one()) mbarrier_arrive(shared->nearly_copied);
        if (block > begin) next = place(task, places, block - 1);
        if (kKeys) copy<kCopySpansK>(map_k, tiles.copied_keys(), full_k, empty_k, of_k, at, head);
        if (kValues && block < end - 1)
          copy<kCopySpansV>(map_v, tiles.copied_values(), full_v, empty_v, of_v, before, head);
        before = at;
        at = next;
      }
      if (kValues && begin < end) copy<kCopySpansV>(map_v, tiles.copied_values(), full_v, empty_v, of_v, before, head);
      told.done();
    }
  }
};

}  // namespace q
