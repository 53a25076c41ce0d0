// What a block of threads works on, found out by one warp, which tells the others; and the copies of queries, which
// need no more than that.
//
// `Shared` is the kernel's shared memory: task, tasks, queries, nearly_copied, schedule and told_warps(). Where
// Shared::kPaired, two blocks of a cluster work on the same tasks: the first one's warp tells both, and all who are
// told answer to that block.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "attention/kernels/sm90/operands.cuh"

namespace q {

// A piece of an item, and those of its blocks of keys that any of the tile's rows sees.
struct Task {
  Sequence sequence;
  Piece piece;  // count 0: there is no further task
  i32 begin, end;
};
inline constexpr int kTasks = 2;
// A block draws its next task when it has so many blocks of keys of the present one yet to copy: late, so that those
// that are done first take more, but soon enough for the next queries to be there in time.
inline constexpr i32 kDrawAhead = 4;

// The tasks as one warp is told of them.
template <class Shared>
struct ToldOf {
  Shared* shared;
  SharedArray<Mbarrier> full, empty;
  PipelineState<kTasks> state;

  QUERN_DEVICE explicit ToldOf(Shared* s) : shared(s), full(s->task.full), empty(s->task.empty) {}

  QUERN_DEVICE const Task& wait(const PipelineState<kTasks>& of) const {
    if constexpr (Shared::kPaired) {
      mbarrier_wait_cluster(full, of.stage, of.phase);
    } else {
      await(full, of);
    }
    return shared->tasks[of.stage];
  }
  // Waits for the next task, and leaves it in place until done() is called.
  QUERN_DEVICE const Task& next() { return wait(state); }
  // The one after it.
  QUERN_DEVICE const Task& peek() {
    PipelineState<kTasks> after = state;
    after.next();
    return wait(after);
  }
  QUERN_DEVICE void done() {
    sync_warp();
    if (elect_one()) {
      if constexpr (Shared::kPaired) {
        mbarrier_arrive_remote(shared->task.empty[state.stage], 0);
      } else {
        mbarrier_arrive(empty, state.stage);
      }
    }
    state.next();
  }
};

// One warp that schedules; where blocks work in pairs, for both.
template <bool kPaired>
struct SchedulingWarp : OneWarp {
  QUERN_DEVICE static i32 block() { return kPaired ? block_index(0) >> 1 : block_index(0); }
  QUERN_DEVICE static i32 blocks() { return kPaired ? block_count(0) >> 1 : block_count(0); }
};

// The task that lies in a stage becomes known, also to the other block of a pair.
template <class Shared>
QUERN_DEVICE void tell(Shared* shared, const SharedArray<Mbarrier>& full, i32 stage) {
  if constexpr (Shared::kPaired) {
    sync_warp();
    static_assert(sizeof(Task) % 4 == 0 && sizeof(Task) / 4 <= kWarp, "each lane tells the other block a word");
    const u32* const words = reinterpret_cast<const u32*>(&shared->tasks[stage]);
    if (lane() < static_cast<int>(sizeof(Task) / 4)) store_cluster(cluster_address(words + lane(), 1), words[lane()]);
    sync_warp();
    if (lane() == 0) mbarrier_arrive_remote(shared->task.full[stage], 1);
  }
  if (lane() == 0) mbarrier_arrive(full, stage);
}

// The schedule, by one warp: each step towards a piece, while the block works on earlier ones.
template <class Shared>
QUERN_DEVICE void tell_tasks(const AttentionParams& p, Shared* shared) {
  const SharedArray<Mbarrier> full(shared->task.full), empty(shared->task.empty);
  PipelineState<kTasks> state;
  PipelineState<1> drawn;
  Schedule<true, true, SchedulingWarp<Shared::kPaired>> schedule(p, &shared->schedule);
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
    }
    tell(shared, full, state.stage);
    sync_warp();
    if (!found) break;
    state.next();
    mbarrier_wait(shared->nearly_copied, drawn.phase);
    drawn.next();
    if (schedule.more()) continue;
    // The last task has been told: one more says so.
    acquire(empty, state);
    if (lane() == 0) shared->tasks[state.stage].piece.count = 0;
    tell(shared, full, state.stage);
    break;
  }
  schedule.finish();
}

// Queries, by kThreads threads: a row of the tile is a query and one of its heads, wherever that lies. A thread has the
// same 16 bytes of every span of a row.
template <int kThreads, class Shared>
QUERN_DEVICE void copy_queries(const AttentionParams& p, Shared* shared, u8* tiles, int thread) {
  constexpr int kChunks = 2 * kProductsK;  // of 16 bytes, those beyond kDimK zeros
  const int own = thread % 8;
  ToldOf<Shared> told(shared);
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
    QUERN_ROLLED for (int row = thread / 8; row < kRows; row += kThreads / 8) {
      const i32 r = first + row;
      const QueryElement* source =
          row < rows ? queries + r / kGroup * p.q_stride_token + r % kGroup * p.q_stride_head + own * kChunkElements
                     : queries;
      u8* to = tiles + state.stage * kQueryBytes + row * kSpanBytes + ((own ^ row) % 8) * 16;
      QUERN_UNROLL for (int span = 0; span < kSpansK; ++span) {
        const int chunk = span * 8 + own;
        if (chunk >= kChunks) continue;
        const bool take = row < rows && chunk * kChunkElements < kDimK;
        copy_async_16(to + span * kRows * kSpanBytes, take ? source + span * kSpanElements : queries, take);
      }
    }
    copy_async_arrive(full, state.stage);
    state.next();
  }
}

}  // namespace q
