// Lays out x or weight of a general convolution as rows of a matrix product: element k of a row is channel k % per of
// tap k / per; what there is not is 0. A thread writes 16 bytes at a time.
// SPDX-License-Identifier: Apache-2.0
#include "common/elements.cuh"
#include "conv1d/params.cuh"

namespace q {

using Element = ELEMENT;
inline constexpr int kChunk = 16 / static_cast<int>(sizeof(Element));

QUERN_DEVICE void lay_chunk(const WindowsParams& p, const u8* from, u8* to, i32 row, i32 chunk) {
  const i32 first = chunk * kChunk, tap = first / p.per, place = row * p.stride + tap * p.dilation - p.pad;
  i32 channel = first - tap * p.per.value;
  const u8* line = from + row * p.row_stride;
  Elements<Element, kChunk> v{};
  if (p.vectors) {
    // A chunk is of one tap, and all of its channels are there.
    if (place >= 0 && place < p.length)
      v = load_elements<Element, kChunk>(line + tap * p.tap_stride + channel * p.channel_stride);
  } else {
    i32 here = tap;
    QUERN_UNROLL for (int i = 0; i < kChunk; ++i) {
      const i32 at = row * p.stride + here * p.dilation - p.pad;
      if (here < p.taps && channel < p.channels && at >= 0 && at < p.length) {
        const Elements<Element, 1> one =
            load_elements<Element, 1>(line + here * p.tap_stride + channel * p.channel_stride);
        constexpr int kPerWord = 4 / static_cast<int>(sizeof(Element));
        v.words[i / kPerWord] |= one.words[0] << i % kPerWord * (32 / kPerWord);
      }
      if (++channel == p.per.value) channel = 0, ++here;
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
    QUERN_ROLLED for (u32 next = static_cast<u32>(block_index(0) * kConvThreads + thread_index()); next < items;
                      next += static_cast<u32>(block_count(0) * kConvThreads)) {
      // Neighbouring threads read what lies side by side.
      const i32 item = static_cast<i32>(next);
      const i32 most = p.rows_first ? item / p.rows : item / p.chunks;
      const i32 least = item - most * (p.rows_first ? p.rows.value : p.chunks.value);
      lay_chunk(p, from, to, p.rows_first ? least : most, p.rows_first ? most : least);
    }
  }
}

}  // namespace q

QUERN_KERNEL(quern_conv1d_windows, q::kConvThreads, BLOCKS_PER_SM, QUERN_PARAM q::WindowsParams p) {
  q::launch_next_grid();
  q::wait_for_previous_grid();
  q::lay_out(p);
}
