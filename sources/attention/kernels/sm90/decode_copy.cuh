// The warps that copy keys and values, and find out what the block works on.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "attention/kernels/sm90/decode_shape.cuh"

namespace q {

// One warp's copies of one piece.
struct PipeCopies {
  // Sixteen keys from a multiple of 16 on lie in one page. Each lane then looks up the page of another block, one round
  // ahead; else lane l, and lane l + 16, that of key l of the next block.
  static constexpr bool kOnePage = PAGE_SIZE != 0 && PAGE_SIZE % kPipeKeys == 0;

  const AttentionParams& p;
  Cache cache;
  Range keys;  // that the tile sees
  i32 origin;  // the key of block 0
  i32 begin, end, sequence, head;
  i32 past;  // keys in front of this one may be copied at any time
  u32 page, next;

  QUERN_DEVICE explicit PipeCopies(const AttentionParams& params) : p(params), begin(0), end(0) {}

  // The first of the piece's pages are looked up.
  QUERN_DEVICE void take(const Sequence& s, const Piece& piece, int pipe) {
    sequence = s.index, head = piece.head, begin = piece.begin, end = piece.end;
    past = p.constant_past != 0 ? s.kv_len - s.q_len : 0x7fffffff;
    if (begin >= end) return;
    cache = cache_of(p, sequence, head);
    keys = tile_range(p, s, piece.tile * kRows, kRows).any;
    origin = s.first + pipe * kPipeKeys;
    look_up(begin);
  }

  QUERN_DEVICE void look_up(i32 block) {
#if PAGED
    const i32 key = origin + (kOnePage ? block + lane() : block) * kBlock + (kOnePage ? 0 : lane() & 15);
    const bool needed = kOnePage ? block + lane() < end && key < keys.last && key + kPipeKeys > keys.first
                                 : block < end && key >= keys.first && key < keys.last;
    next = needed ? static_cast<u32>(cache.pages[page_of(p, key)]) : 0;
#else
    (void)block;
#endif
  }

  template <int kDim>
  QUERN_DEVICE void copy_rows(u8* to, const u8* base, u32 page_bytes, u32 token_bytes, i32 key, u32 block_page) const {
    constexpr int kChunks = kDim * kCacheBytes / 16;
    const TileCopy<u8, kPipeKeys, kDim * kCacheBytes, kWarp, 16> tile(lane());
#if PAGED
    if (kOnePage) base += static_cast<u64>(block_page) * page_bytes + static_cast<u64>(slot_of(p, key)) * token_bytes;
#else
    (void)page_bytes, (void)block_page;
    base += static_cast<u64>(static_cast<u32>(key)) * token_bytes;
#endif
    static_assert(kPipeKeys * kChunks % kWarp == 0, "every lane has a chunk in every step");
    QUERN_UNROLL for (int step = 0; step < tile.kSteps; ++step) {
      const int row = tile.row_at(step), chunk = tile.column_at(step);
      const u8* source = base + chunk * 16;
      if (PAGED && !kOnePage) {
        source += static_cast<u64>(shuffle(block_page, row)) * page_bytes +
                  static_cast<u64>(slot_of(p, key + row)) * token_bytes;
      } else {
        source += static_cast<u64>(static_cast<u32>(row)) * token_bytes;
      }
      // Keys and values are read once by all of the grid.
      copy_async_16(to + swizzled<kDim * kCacheBytes>(row, chunk), source, takes(keys, key, row),
                    CacheHint::evict_first);
    }
  }

  // The scale of a lane's own key or value: lanes 0 to 15 take the keys', 16 to 31 the values'.
  QUERN_DEVICE void copy_scales(u8* to, i32 key, u32 block_page) const {
    const int row = lane() & 15;
    const bool values = lane() >= 16;
    const i64 slot = PAGED ? static_cast<i64>(slot_of(p, key + row)) : static_cast<i64>(p.cu_kv[sequence] + key + row);
    const f32* from = values ? p.v_scale + head * p.v_scale_stride_head + slot * p.v_scale_stride_token
                             : p.k_scale + head * p.k_scale_stride_head + slot * p.k_scale_stride_token;
    if (PAGED) from += static_cast<i64>(block_page) * (values ? p.v_scale_stride_page : p.k_scale_stride_page);
    copy_async_4(to + lane() * 4, from, takes(keys, key, row));
  }

  // `look_ahead` is called once, when the stages are full.
  template <class LookAhead>
  QUERN_DEVICE void run(u8* stages, const SharedArray<Mbarrier>& full, const SharedArray<Mbarrier>& empty,
                        PipelineState<kStages>& state, const LookAhead& look_ahead) {
    const i32 ahead_at = end - begin < kStages ? end - 1 : begin + kStages - 1;
    QUERN_ROLLED for (i32 block = begin; block < end; ++block) {
      u32 block_page = 0;
      const i32 at = (block - begin) & (kOnePage ? kWarp - 1 : 0);
      if (at == 0) {
        page = next;
        look_up(block + (kOnePage ? kWarp : 1));
      }
      block_page = kOnePage ? shuffle(page, at) : page;
      const i32 key = origin + block * kBlock;
      u8* const to = stages + state.stage * kStageBytes;
      acquire(empty, state);
      if (key + kPipeKeys > past) wait_for_previous_grid();
      copy_rows<kDimK>(to, cache.k, p.k_page_bytes, p.k_token_bytes, key, block_page);
      copy_rows<kDimV>(to + kPipeKeys * kRowBytesK, cache.v, p.v_page_bytes, p.v_token_bytes, key, block_page);
      if constexpr (kTokenScales) copy_scales(to + kPipeKeys * (kRowBytesK + kRowBytesV), key, block_page);
      copy_async_arrive(full, state.stage);
      state.next();
      if (block == ahead_at) look_ahead();
    }
  }
};

QUERN_DEVICE void copy_pieces(const AttentionParams& p, Shared* shared, u8* memory) {
  const int pipe = shuffle(Copiers::warp(), 0);
  const SharedArray<Mbarrier> full(shared->pipes[pipe].full), empty(shared->pipes[pipe].empty);
  u8* const stages = stages_of(memory, pipe);
  PipelineState<kStages> state;
  PipelineState<kTasks> told;
  Schedule<true, false, Copiers> schedule(p, &shared->schedule);
  const Piece& piece = shared->schedule.piece;
  const Sequence& s = shared->schedule.sequence;
  // A lane a word: one lane would wait for each word before it writes the next.
  const auto tell = [&](bool found) {
    constexpr int kWords = sizeof(Task) / 4;
    static_assert(kWords <= kWarp);
    if (pipe != 0) return;
    acquire(SharedArray<Mbarrier>(shared->task.empty), told);
    if (lane() < kWords) {
      const Task* const from = &shared->schedule;
      reinterpret_cast<u32*>(&shared->tasks[told.stage])[lane()] =
          found ? reinterpret_cast<const u32*>(from)[lane()] : 0;
    }
    sync_warp();
    if (lane() == 0) mbarrier_arrive(SharedArray<Mbarrier>(shared->task.full), told.stage);
    told.next();
  };
  // The first piece is found while others make the barriers, each further one while the one before is copied.
  PipeCopies upcoming(p);
  const auto find = [&](bool begins) {
    if (begins) schedule.begin();
    QUERN_ROLLED for (bool made = begins; !made || (piece.begin >= piece.end && schedule.more()); made = true) {
      schedule.next();
    }
    upcoming.take(s, piece, pipe);
  };
  find(true);
  meet_named(kStartBarrier, THREADS);
  QUERN_ROLLED while (upcoming.begin < upcoming.end) {
    tell(true);
    PipeCopies copies = upcoming;
    upcoming.end = upcoming.begin;
    copies.run(stages, full, empty, state, [&] {
      if (schedule.more()) find(false);
    });
  }
  tell(false);
}

}  // namespace q
