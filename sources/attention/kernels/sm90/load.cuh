// The warps that bring queries, keys and values into shared memory, and the one that tells everybody what to work on.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "attention/kernels/sm90/shape.cuh"

namespace q {

// The schedule, by one warp: each step towards a piece, while the block works on earlier ones.
QUERN_DEVICE void tell_tasks(const AttentionParams& p, Shared* shared) {
  const SharedArray<Mbarrier> full(shared->task.full), empty(shared->task.empty);
  PipelineState<kTasks> state;
  PipelineState<1> drawn;
  Schedule<true, true, OneWarp> schedule(p, &shared->schedule);
  const Piece& piece = shared->schedule.piece;
  QUERN_ROLLED for (;;) {
    acquire(empty, state);  // before a step, so that an item is drawn no sooner than there is room for it
    bool found = false;
    QUERN_ROLLED do {
      schedule.next();
      found = piece.begin < piece.end;
    }
    while (!found && schedule.more());
    if (lane() == 0) {
      Task& task = shared->tasks[state.stage];
      const Sequence& s = shared->schedule.sequence;
      task.piece = piece;
      if (found) {
        const TileRange seen = tile_range(p, s, piece.tile * kRows, kRows);
        const i32 begin = (seen.any.first - s.first) / kBlock, end = div_up(seen.any.last - s.first, kBlock);
        task.sequence = s;
        task.begin = begin > piece.begin ? begin : piece.begin;
        task.end = end < piece.end ? end : piece.end;
      } else {
        task.piece.count = 0;
      }
      mbarrier_arrive(full, state.stage);
    }
    sync_warp();
    if (!found) break;
    state.next();
    mbarrier_wait(shared->nearly_copied, drawn.phase);
    drawn.next();
    if (schedule.more()) continue;
    // The last task has been told: one more says so.
    acquire(empty, state);
    if (lane() == 0) {
      shared->tasks[state.stage].piece.count = 0;
      mbarrier_arrive(full, state.stage);
    }
    break;
  }
  schedule.finish();
}

// Queries, by the threads of kQueryWarps warps: a row of the tile is a query and one of its heads, wherever that lies.
QUERN_DEVICE void copy_queries(const AttentionParams& p, Shared* shared, const Tiles& tiles, int thread) {
  constexpr int kThreads = kQueryWarps * kWarp, kChunks = 2 * kProductsK;  // of 16 bytes, those beyond kDimK zeros
  Told told(shared);
  const SharedArray<Mbarrier> full(shared->queries.full), empty(shared->queries.empty);
  PipelineState<kQueryStages> state;
  QUERN_ROLLED for (;;) {
    const Task& task = told.next();
    if (task.piece.count == 0) break;
    const bool any = task.begin < task.end;
    const i32 first = task.piece.tile * kRows, rows = task.sequence.q_len * kGroup - first;
    const QueryElement* queries = static_cast<const QueryElement*>(p.queries) +
                                  task.sequence.q_begin * p.q_stride_token + task.piece.head * kGroup * p.q_stride_head;
    told.done();
    if (!any) continue;
    acquire(empty, state);
    QUERN_FOUR_AT_ONCE for (int i = thread; i < kRows * kChunks; i += kThreads) {
      const int row = i / kChunks, chunk = i % kChunks;
      const bool take = row < rows && chunk * kChunkElements < kDimK;
      const i32 r = first + row;
      const QueryElement* source =
          queries + r / kGroup * p.q_stride_token + r % kGroup * p.q_stride_head + chunk * kChunkElements;
      u8* to =
          tiles.queries + state.stage * kQueryBytes + (chunk / 8 * kRows + row) * kSpanBytes + ((chunk ^ row) % 8) * 16;
      copy_async_16(to, take ? source : queries, take);
    }
    copy_async_arrive(full, state.stage);
    state.next();
  }
}

// Keys and values, by one warp: each lane copies a span of the keys that share a page.
struct KeyCopies {
  const AttentionParams& p;
  const TensorMap& map_k;
  const TensorMap& map_v;
  i32 box, span;  // the lane's

  QUERN_DEVICE KeyCopies(const AttentionParams& params, const TensorMap& k, const TensorMap& v)
      : p(params), map_k(k), map_v(v), box(lane() % kBoxes), span(lane() / kBoxes) {}

  // Where the lane's keys of a block lie: a page and a token in it. Behind the sequence's last key there is no page,
  // and what is copied from there is zeros.
  struct Place {
    i32 page, token;
  };
  QUERN_DEVICE Place place(const Task& task, const i32* pages, i32 base, i32 block) const {
    const i32 key = task.sequence.first + block * kBlock + box * kBoxKeys;
#if PAGED
    (void)base;
    if (key >= task.sequence.kv_len) return {-1, 0};
    return {pages[page_of(key)], static_cast<i32>(static_cast<u32>(key) % static_cast<u32>(PAGE_SIZE))};
#else
    (void)pages;
    return {0, base + key};
#endif
  }
  QUERN_DEVICE static u32 page_of(i32 key) { return static_cast<u32>(key) / static_cast<u32>(PAGED ? PAGE_SIZE : 1); }

  template <int kSpans>
  QUERN_DEVICE void copy(const TensorMap& map, u8* stages, const SharedArray<Mbarrier>& full,
                         const SharedArray<Mbarrier>& empty, PipelineState<kStages>& state, const Place& at,
                         i32 head) const {
    constexpr int kBytes = kSpans * kBlock * kSpanBytes;
    acquire(empty, state);
    if (lane() == 0) mbarrier_arrive_expect(full, state.stage, kBytes);
    sync_warp();
    if (span < kSpans) {
      const i32 to = state.stage * kBytes + (span * kBlock + box * kBoxKeys) * kSpanBytes;
      tma_load(SharedArray<u8>(stages), to, map, full, state.stage, CacheHint::normal, span * kSpanElements, at.token,
               head, at.page);
    }
    state.next();
  }

  QUERN_DEVICE void run(Shared* shared, const Tiles& tiles) const {
    Told told(shared);
    const SharedArray<Mbarrier> full_k(shared->keys.full), empty_k(shared->keys.empty);
    const SharedArray<Mbarrier> full_v(shared->values.full), empty_v(shared->values.empty);
    PipelineState<kStages> of_k, of_v;
    QUERN_ROLLED for (;;) {
      const Task& task = told.next();
      if (task.piece.count == 0) break;
      const i32 begin = task.begin, end = task.end, head = task.piece.head, index = task.sequence.index;
      const i32* pages = nullptr;
      i32 base = 0;
#if PAGED
      pages = p.pages + (p.page_indptr ? static_cast<i64>(p.page_indptr[index]) : index * p.pages_stride);
#else
      base = p.cu_kv[index];
#endif
      Place at{}, before{};
      const i32 draw_at = end - 1 < begin + kDrawAhead ? end - 1 : begin + kDrawAhead;
      if (begin >= end && elect_one()) mbarrier_arrive(shared->nearly_copied);
      if (begin < end) at = place(task, pages, base, end - 1);
      // A block's keys, then the values of the one before, in the order in which they are multiplied.
      QUERN_ROLLED for (i32 block = end - 1; block >= begin; --block) {
        Place next{};
        if (block == draw_at && elect_one()) mbarrier_arrive(shared->nearly_copied);
        if (block > begin) next = place(task, pages, base, block - 1);
        copy<kSpansK>(map_k, tiles.keys, full_k, empty_k, of_k, at, head);
        if (block < end - 1) copy<kSpansV>(map_v, tiles.values, full_v, empty_v, of_v, before, head);
        before = at;
        at = next;
      }
      if (begin < end) copy<kSpansV>(map_v, tiles.values, full_v, empty_v, of_v, before, head);
      told.done();
    }
  }
};

}  // namespace q
