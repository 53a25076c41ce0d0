// Rows of a table by their ids, bound by memory: threads share all rows' chunks, and each has several on their way.
// SPDX-License-Identifier: Apache-2.0
#include "gather/params.cuh"
#include "rope/vectors.cuh"

namespace q {

using From = FROM;  // u8 where bytes are copied
using To = TO;
inline constexpr int kThreads = THREADS;
inline constexpr int kWidth = WIDTH;  // elements of a chunk
inline constexpr bool kCopies = COPIES != 0;

using Loaded = Packed<From, kWidth>;
using Stored = Packed<To, kWidth>;

// Zeros for what no row of the table is; so nothing is read outside of it.
QUERN_DEVICE Loaded load_chunk(const GatherParams& p, i64 id, i32 chunk) {
  const i64 row = id - p.first;
  if (row < 0 || row >= p.rows || (p.pads && id == p.padding)) return Loaded{};
  return load_packed<From, kWidth>(reinterpret_cast<const From*>(p.table + row * p.table_stride) + chunk * kWidth);
}

// A template, so that bytes, which have no numbers to scale, are not compiled as such.
template <class T>
QUERN_DEVICE Stored stored_of(const Packed<T, kWidth>& loaded, f32 scale) {
  if constexpr (kCopies) {
    return loaded;
  } else {
    f32 x[kWidth];
    widen_packed<T, kWidth>(loaded, x);
    QUERN_UNROLL for (int i = 0; i < kWidth; ++i) x[i] *= scale;
    return narrow_packed<To, kWidth>(x);
  }
}

QUERN_DEVICE void store_chunk(const GatherParams& p, i32 row, i32 chunk, const Loaded& loaded) {
  To* to = reinterpret_cast<To*>(p.out + row * p.out_stride) + chunk * kWidth;
  store_packed<To, kWidth>(to, stored_of<From>(loaded, p.scale));
}

// Few chunks take little longer than their code is fetched: theirs is short, laid in front, and without a branch before
// its loads. Who has no chunk loads the first one.
QUERN_DEVICE void gather_one(const GatherParams& p) {
  const i32 own = block_index(0) * p.tile + thread_index();
  const bool there = own < p.chunks_all;
  const i32 at = there ? own : 0, row = at / p.chunks, chunk = at - row * p.chunks.value;
  const Loaded loaded = load_chunk(p, integer_at(p.ids, row), chunk);
  if (there) store_chunk(p, row, chunk, loaded);
}

QUERN_DEVICE void gather(const GatherParams& p) {
  if (laid_first(p.single != 0)) return gather_one(p);
  const i64 step = static_cast<i64>(block_count(0)) * p.tile;
  QUERN_ROLLED for (i64 begin = static_cast<i64>(block_index(0)) * p.tile; begin < p.chunks_all; begin += step) {
    const i64 end = begin + p.tile < p.chunks_all ? begin + p.tile : p.chunks_all;
    Loaded held[kGatherAtOnce];
    QUERN_UNROLL for (int j = 0; j < kGatherAtOnce; ++j) {
      const i64 at = begin + j * kThreads + thread_index();
      if (at >= end) continue;
      const i32 row = static_cast<i32>(at) / p.chunks;
      held[j] = load_chunk(p, integer_at(p.ids, row), static_cast<i32>(at) - row * p.chunks.value);
    }
    QUERN_UNROLL for (int j = 0; j < kGatherAtOnce; ++j) {
      const i64 at = begin + j * kThreads + thread_index();
      if (at >= end) continue;
      const i32 row = static_cast<i32>(at) / p.chunks;
      store_chunk(p, row, static_cast<i32>(at) - row * p.chunks.value, held[j]);
    }
  }
}

}  // namespace q

QUERN_KERNEL(quern_gather, THREADS, BLOCKS_PER_SM, QUERN_PARAM q::GatherParams p) {
  q::launch_next_grid();
  q::wait_for_previous_grid();
  q::gather(p);
}
