// Lays out x or weight of a convolution as rows of a matrix product: what lies in the padding, and what a
// row has beyond its window, is 0. A thread writes 16 bytes at a time.
// SPDX-License-Identifier: Apache-2.0
#include "common/elements.cuh"
#include "conv2d/params.cuh"

namespace q {

using Element = ELEMENT;
inline constexpr int kChunk = 16 / static_cast<int>(sizeof(Element));

QUERN_DEVICE void lay_chunk(const WindowsParams& p, const u8* from, u8* to, i32 row, i32 chunk) {
  const i32 whole = chunk * kChunk, upper = whole / p.last;
  i32 first = upper / p.second, second = upper - first * p.second.value, last = whole - upper * p.last.value;
  const i32 down = row / p.columns, across = row - down * p.columns.value;
  const i32 top = down * p.places.stride_h - p.places.pad_top, left = across * p.places.stride_w - p.places.pad_left;
  const u8* window = from + down * p.down_stride + across * p.across_stride;
  const auto is_there = [&] {
    const i32 y = top + first * p.first_down + second * p.second_down;
    const i32 x = left + second * p.second_across + last * p.last_across;
    return first < p.first && y >= 0 && y < p.places.height && x >= 0 && x < p.places.width;
  };
  const auto place = [&] { return window + first * p.first_stride + second * p.second_stride + last * p.last_stride; };
  Elements<Element, kChunk> v{};
  if (p.vectors) {
    // The first and the second digit are the same in all of a chunk, and all of it is there or nothing.
    if (is_there()) v = load_elements<Element, kChunk>(place());
  } else {
    QUERN_UNROLL for (int i = 0; i < kChunk; ++i) {
      if (last < p.last_there && is_there()) {
        const Elements<Element, 1> one = load_elements<Element, 1>(place());
        constexpr int kPerWord = 4 / static_cast<int>(sizeof(Element));
        v.words[i / kPerWord] |= one.words[0] << i % kPerWord * (32 / kPerWord);
      }
      if (++last == p.last.value) {
        last = 0;
        if (++second == p.second.value) second = 0, ++first;
      }
    }
  }
  store_elements<Element, kChunk>(to + (static_cast<i64>(row) * p.chunks.value + chunk) * 16, v);
}

QUERN_DEVICE void lay_out(const WindowsParams& p) {
  // Counted without a sign: near 2^31 of them a step may go beyond.
  const u32 items = static_cast<u32>(p.rows.value) * static_cast<u32>(p.chunks.value);
  QUERN_ROLLED for (i32 outer = block_index(1); outer < p.outer; outer += block_count(1)) {
    const i32 sample = outer / p.groups, group = outer - sample * p.groups.value;
    const u8* from = p.from + sample * p.sample_stride + group * p.group_stride;
    u8* to = p.to + static_cast<i64>(outer) * items * 16;
    QUERN_ROLLED for (u32 next = static_cast<u32>(block_index(0) * kConvolutionThreads + thread_index()); next < items;
                      next += static_cast<u32>(block_count(0) * kConvolutionThreads)) {
      // Neighbouring threads read what lies side by side.
      const i32 item = static_cast<i32>(next);
      const i32 most = p.rows_first ? item / p.rows : item / p.chunks;
      const i32 least = item - most * (p.rows_first ? p.rows.value : p.chunks.value);
      lay_chunk(p, from, to, p.rows_first ? least : most, p.rows_first ? most : least);
    }
  }
}

}  // namespace q

QUERN_KERNEL(quern_convolution_windows, q::kConvolutionThreads, BLOCKS_PER_SM, QUERN_PARAM q::WindowsParams p) {
  q::launch_next_grid();
  q::wait_for_previous_grid();
  q::lay_out(p);
}
