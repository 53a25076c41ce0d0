// Keys and values of 8 bits, widened to 16 on their way to products: blocks of codes as they were copied become what
// would have been copied of a cache of 16 bits.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "attention/kernels/shared/widen.cuh"
#include "attention/kernels/sm90/shape.cuh"
#include "common/reduce.cuh"

namespace q {

// Where a thread of the warpgroup reads eight codes and writes eight elements: of 16 rows at once, in the first span.
// Both lie swizzled. Of 16 lanes that read at once half have rows four further on, so that all banks are read.
struct WidenPlaces {
  static constexpr int kRowsAtOnce = 16;
  int row;
  u32 from, to;

  QUERN_DEVICE explicit WidenPlaces(int thread) {
    const int l = thread % kWarp, w = thread / kWarp, eight = l & 7;
    row = (l >> 3 & 1) * 4 + (l >> 4) + (w & 1) * 2 + (w >> 1) * 8;
    from = static_cast<u32>(row * kSpanBytes + ((eight >> 1) ^ (row & 7)) * 16 + (eight & 1) * 8);
    to = static_cast<u32>(row * kSpanBytes + (eight ^ (row & 7)) * 16);
  }
};

// The thread's share of a block with so many spans of elements. Its row is always the same one modulo 8, so that all
// places are a constant way from the first ones.
template <int kSpans>
struct Widening {
  static constexpr int kSteps = kBlock / WidenPlaces::kRowsAtOnce, kAll = kSpans * kSteps;
  static_assert(kBlock % WidenPlaces::kRowsAtOnce == 0);
  const u8* halves[2];  // the first of a span of codes, which is two of elements, and of its second half
  u8* elements;
  i32 row;

  QUERN_DEVICE Widening(const WidenPlaces& places, const u8* from, u8* to)
      : halves{from + places.from, from + (places.from ^ (kSpanBytes / 2))},
        elements(to + places.to),
        row(places.row) {}

  QUERN_DEVICE Codes load(int span, int step) const {
    const void* const from = halves[span % 2] + (span / 2 * kBlock + step * WidenPlaces::kRowsAtOnce) * kSpanBytes;
    return *static_cast<const Codes*>(from);
  }
  QUERN_DEVICE void store(int span, int step, const Codes& v) const {
    store16(elements + (span * kBlock + step * WidenPlaces::kRowsAtOnce) * kSpanBytes, widen_codes<CacheElement>(v));
  }
  // Several loads are under way before the first is stored.
  QUERN_DEVICE void all() const {
    constexpr int kAhead = kAll < 4 ? kAll : 4;
    Codes v[kAhead];
    QUERN_UNROLL for (int i = 0; i < kAhead; ++i) v[i] = load(i / kSteps, i % kSteps);
    QUERN_UNROLL for (int i = 0; i < kAll; ++i) {
      store(i / kSteps, i % kSteps, v[i % kAhead]);
      if (i + kAhead < kAll) v[i % kAhead] = load((i + kAhead) / kSteps, (i + kAhead) % kSteps);
    }
  }
  // What lies behind `valid` rows may be anything, and becomes zeros.
  QUERN_DEVICE void some(i32 valid) const {
    QUERN_ROLLED for (int step = 0; step < kSteps; ++step) {
      QUERN_UNROLL for (int span = 0; span < kSpans; ++span) {
        Codes v = load(span, step);
        if (row + step * WidenPlaces::kRowsAtOnce >= valid) v = {};
        store(span, step, v);
      }
    }
  }
};

// Blocks of keys or of values in the order in which they are copied.
template <int kSpans, int kCodeBytes>
struct WidenedBlocks {
  SharedArray<Mbarrier> full_codes, empty_codes, full, empty;
  const u8* codes;
  u8* elements;
  PipelineState<kCopyStages> of_codes;
  PipelineState<kStages> state;

  QUERN_DEVICE WidenedBlocks(const PipelineBarriers<kCopyStages>& from, const u8* from_codes,
                             const PipelineBarriers<kStages>& to, u8* to_elements)
      : full_codes(from.full),
        empty_codes(from.empty),
        full(to.full),
        empty(to.empty),
        codes(from_codes),
        elements(to_elements) {}

  // `last` is called before others are told.
  template <class Last>
  QUERN_DEVICE void next(const WidenPlaces& places, i32 valid, const Last& last) {
    await(full_codes, of_codes);
    acquire(empty, state);
    const Widening<kSpans> widening(places, codes + of_codes.stage * kCodeBytes,
                                    elements + state.stage * (kSpans * kBlock * kSpanBytes));
    if (valid < kBlock) {
      widening.some(valid);
    } else {
      widening.all();
    }
    last(state);
    fence_async();
    sync_warp();
    if (elect_one()) {
      mbarrier_arrive(empty_codes, of_codes.stage);
      mbarrier_arrive(full, state.stage);
    }
    of_codes.next();
    state.next();
  }
};

// The scales of tokens, one thread a key: of a block ahead they are on their way while the one before is widened.
struct ScaleLoads {
  const AttentionParams& p;
  const f32* of_keys = nullptr;  // of the task's head
  const f32* of_values = nullptr;
  i32 thread;
  Place place{};  // of the thread's key in the next block
  f32 key = 0.0f, value = 0.0f;

  QUERN_DEVICE ScaleLoads(const AttentionParams& params, int own) : p(params), thread(own) {}

  QUERN_DEVICE void begin(i32 head) {
    of_keys = p.k_scale + head * p.k_scale_stride_head;
    of_values = p.v_scale + head * p.v_scale_stride_head;
  }
  QUERN_DEVICE void look_up(const Places& places, i32 first) {
    place = thread < kBlock && first + thread < places.kv_len ? places.at(first + thread) : Place{-1, 0};
  }
  QUERN_DEVICE void load() {
    key = value = 0.0f;
    if (place.page < 0) return;
    const i64 page = place.page, token = place.token;
    key = of_keys[page * p.k_scale_stride_page + token * p.k_scale_stride_token];
    value = of_values[page * p.v_scale_stride_page + token * p.v_scale_stride_token];
  }
  QUERN_DEVICE void store(f32* scales, f32 (&largest)[4]) const {
    if (thread < kBlock) scales[thread] = key, scales[kBlock + thread] = value;
    const f32 size = fabs(value), most = warp_max(size < infinity() ? size : 0.0f);
    if (lane() == 0) largest[thread / kWarp] = most;
  }
};

// By a warpgroup: a block's keys, then the values of the one before.
template <class S>
QUERN_DEVICE void widen_blocks(const AttentionParams& p, S* shared, const Tiles& tiles) {
  Told told(shared);
  const int thread = thread_index() % kGroupThreads;
  const WidenPlaces places(thread);
  WidenedBlocks<kSpansK, kCodeBytesK> keys(shared->key_codes, tiles.key_codes, shared->keys, tiles.keys);
  WidenedBlocks<kSpansV, kCodeBytesV> values(shared->value_codes, tiles.value_codes, shared->values, tiles.values);
  static_assert(kBlock <= kGroupThreads, "a thread has the scales of one key of a block");
  ScaleLoads scales(p, thread);
  const auto nothing = [](const PipelineState<kStages>&) {};
  QUERN_ROLLED for (;;) {
    const Task& task = told.next();
    if (task.piece.count == 0) break;
    const i32 begin = shuffle(task.begin, 0), end = shuffle(task.end, 0);
    const i32 first = task.sequence.first, kv_len = task.sequence.kv_len;
    const Places of(p, task.sequence.index, kv_len);
    if (kTokenScales && begin < end) {
      scales.begin(task.piece.head);
      scales.look_up(of, first + (end - 1) * kBlock);
      scales.load();
      if (end - 1 > begin) scales.look_up(of, first + (end - 2) * kBlock);
    }
    told.done();
    i32 valid = kv_len - first - end * kBlock;  // of values: of the block before
    QUERN_ROLLED for (i32 block = end - 1; block >= begin; --block) {
      keys.next(places, kBlock, [&](const PipelineState<kStages>& state) {
        if constexpr (kTokenScales) {
          acquire(SharedArray<Mbarrier>(shared->scales_read), state);
          scales.store(tiles.scales + state.stage * 2 * kBlock, shared->largest_scales[state.stage]);
          if (block == begin) return;
          scales.load();
          if (block - 1 > begin) scales.look_up(of, first + (block - 2) * kBlock);
        }
      });
      if (block < end - 1) values.next(places, valid, nothing);
      valid += kBlock;
    }
    if (begin < end) values.next(places, valid, nothing);
  }
}

}  // namespace q
