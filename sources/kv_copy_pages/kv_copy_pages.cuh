// Copies pages of a cache, whatever their strides. A block of threads takes a strip of one page: each thread some
// chunks of it, which are all loaded before the first is stored.
// SPDX-License-Identifier: Apache-2.0
#include "kv_copy_pages/params.cuh"
#include "rope/vectors.cuh"

namespace q {

inline constexpr int kThreads = THREADS;
inline constexpr int kAtOnce = AT_ONCE;  // chunks of a thread
inline constexpr int kChunkBytes = CHUNK_BYTES;

template <int kBytes>
QUERN_DEVICE void copy_strip(const PageRows& rows, i32 strip, i64 source, i64 destination) {
  constexpr int kStrip = kThreads * kAtOnce;
  Packed<u8, kBytes> held[kAtOnce];
  i64 to[kAtOnce];
  QUERN_UNROLL for (int j = 0; j < kAtOnce; ++j) {
    const i32 at = strip * kStrip + j * kThreads + thread_index();
    to[j] = -1;
    if (at >= rows.count) continue;
    const i32 row = at / rows.chunks, chunk = at - row * rows.chunks.value;
    const i32 outer = row / rows.inner, inner = row - outer * rows.inner.value;
    to[j] = destination * rows.to_page + outer * rows.to_outer + inner * rows.to_inner + chunk * kBytes;
    held[j] = load_packed<u8, kBytes>(rows.from + source * rows.from_page + outer * rows.from_outer +
                                      inner * rows.from_inner + chunk * kBytes);
  }
  QUERN_UNROLL for (int j = 0; j < kAtOnce; ++j) {
    if (to[j] >= 0) store_packed<u8, kBytes>(rows.to + to[j], held[j]);
  }
}

QUERN_DEVICE void copy_pages(const KvCopyPagesParams& p) {
  const i64 items = static_cast<i64>(p.pairs) * p.strips.value;
  QUERN_ROLLED for (i64 item = block_index(0); item < items; item += block_count(0)) {
    const i32 pair = static_cast<i32>(item) / p.strips;  // the library keeps items below 2^31
    i32 strip = static_cast<i32>(item) - pair * p.strips.value;
    int kind = 0;
    QUERN_UNROLL for (int k = 0; k < 3; ++k) {
      if (kind == k && strip >= p.rows[k].strips) strip -= p.rows[k].strips, kind = k + 1;
    }
    const i64 source = integer_at(p.sources, pair), destination = integer_at(p.destinations, pair);
    // Outside of the pools nothing is read or written.
    const bool inside =
        source >= 0 && destination >= 0 && source < p.pages_from[kind & 1] && destination < p.pages_to[kind & 1];
    if (!inside) continue;
    if (kind < 2) {
      copy_strip<kChunkBytes>(p.rows[kind], strip, source, destination);
    } else {
      copy_strip<4>(p.rows[kind], strip, source, destination);
    }
  }
}

}  // namespace q

QUERN_KERNEL(quern_kv_copy_pages, THREADS, BLOCKS_PER_SM, QUERN_PARAM q::KvCopyPagesParams p) {
  q::launch_next_grid();
  q::wait_for_previous_grid();
  q::copy_pages(p);
}
