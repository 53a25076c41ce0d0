// The general convolution with few channels a group, depthwise ones above all, and of what lies in no order that a
// matrix product takes: a thread has an output channel at a few places, and adds up its window in f32.
// SPDX-License-Identifier: Apache-2.0
#include "common/pointwise.cuh"
#include "conv1d/params.cuh"

namespace q {

using Element = ELEMENT;
inline constexpr int kPlaces = 4;  // of a thread, `some` apart

QUERN_DEVICE f32 at(const void* data, i64 offset) { return to_f32(static_cast<const Element*>(data)[offset]); }

QUERN_DEVICE void convolve(const DirectParams& p, i32 sample, i32 out_channel, i32 first) {
  const i32 group = out_channel / p.group_outs;
  const i64 x = sample * p.x_sample + static_cast<i64>(group) * p.channels * p.x_channel;
  const i64 weight = out_channel * p.weight_out;
  const i32 step = p.some.value;
  f32 sums[kPlaces];
  QUERN_UNROLL for (int i = 0; i < kPlaces; ++i) sums[i] = 0.0f;
  QUERN_ROLLED for (i32 c = 0; c < p.channels; ++c) {
    i32 begin = first * p.stride - p.pad;
    QUERN_ROLLED for (i32 j = 0; j < p.taps; ++j) {
      const f32 factor = at(p.weight, weight + c * p.weight_channel + j * p.weight_tap);
      QUERN_UNROLL for (int i = 0; i < kPlaces; ++i) {
        const i32 place = begin + i * step * p.stride;
        if (place >= 0 && place < p.length)
          sums[i] = fma(factor, at(p.x, x + c * p.x_channel + place * p.x_place), sums[i]);
      }
      begin += p.dilation;
    }
  }
  const f32 bias = p.bias ? at(p.bias, out_channel) : 0.0f;
  QUERN_UNROLL for (int i = 0; i < kPlaces; ++i) {
    const i32 place = first + i * step;
    if (place >= p.places) continue;
    const f32 y = sums[i] + bias;
    static_cast<Element*>(p.out)[sample * p.out_sample + out_channel * p.out_channel + place * p.out_place] =
        from_f32<Element>(p.silu ? silu(y) : y);
  }
}

QUERN_DEVICE void convolve(const DirectParams& p) {
  const i32 items = p.outs.value * p.some.value;
  QUERN_ROLLED for (i32 sample = block_index(1); sample < p.batch; sample += block_count(1)) {
    QUERN_ROLLED for (i32 item = block_index(0) * kConvThreads + thread_index(); item < items;
                      item += block_count(0) * kConvThreads) {
      // Neighbouring threads write what lies side by side.
      const i32 most = p.places_first ? item / p.some : item / p.outs;
      const i32 least = item - most * (p.places_first ? p.some.value : p.outs.value);
      convolve(p, sample, p.places_first ? most : least, p.places_first ? least : most);
    }
  }
}

}  // namespace q

QUERN_KERNEL(quern_conv1d_direct, q::kConvThreads, BLOCKS_PER_SM, QUERN_PARAM q::DirectParams p) {
  q::launch_next_grid();
  q::wait_for_previous_grid();
  q::convolve(p);
}
