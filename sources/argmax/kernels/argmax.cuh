// Where rows are largest: each thread keeps the first of its largest, and of those the row's blocks find the lowest.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "argmax/params.cuh"
#include "softmax/kernels/numbers.cuh"

namespace q {

QUERN_DEVICE u64 largest_of_slice(const Slice& s) {
  f32 best = -infinity();
  i32 at = -1;
  QUERN_ROLLED for (i32 tile = s.first; tile < s.last; tile += kTiles) {
    f32 x[kEach];
    load_elements<Fill::nan>(s, tile, x);
    f32 max = x[0];
    QUERN_UNROLL for (int i = 1; i < kEach; ++i) max = fmax(max, x[i]);
    // Seldom: once a thread has seen some of them, what is larger still becomes rare.
    if (max > best || at < 0) {
      QUERN_UNROLL for (int i = kEach - 1; i >= 0; --i) {
        if (x[i] == max) at = s.place(tile + i / kVector) + i % kVector;
      }
      best = fmax(max, best);
    }
  }
  return at < 0 ? u64{0} : place_of_number(best, at - s.shift);
}

QUERN_DEVICE void argmax(const ArgmaxParams& p) {
  QUERN_SHARED(u64, slots, kMostRowBlocks);
  QUERN_SHARED(u64, scratch, kWarps);
  const i32 step = block_count(0) / row_blocks();
  QUERN_ROLLED for (i64 row = block_index(0) / row_blocks(); row < p.rows; row += step) {
    const i64 matrix = row / p.group, of_group = row - matrix * p.group;
    if (p.lengths && of_group > p.lengths[matrix]) continue;
    const Slice s =
        slice_of(static_cast<const Element*>(p.logits) + matrix * p.group_stride + of_group * p.logits_stride, p.n);
    const u64 best = RowSlots<u64>{slots, scratch}.reduce(largest_of_slice(s), Larger{});
    if (row_block() == 0 && thread_index() == 0) {
      const i32 id = best != 0 ? index_of_place(best) : -1;
      if (p.wide_ids) {
        static_cast<i64*>(p.ids)[row] = id;
      } else {
        static_cast<i32*>(p.ids)[row] = id;
      }
      if (p.values) p.values[row] = best != 0 ? number_of_key(static_cast<u32>(best >> 32)) : nan();
    }
    // The slots have been read before they are written again.
    if (row + step < p.rows) sync_row();
  }
}

}  // namespace q

QUERN_KERNEL(quern_argmax, THREADS, BLOCKS_PER_SM, QUERN_PARAM q::ArgmaxParams p) {
  q::launch_next_grid();
  q::begin_rows();
  q::wait_for_previous_grid();
  q::argmax(p);
}
