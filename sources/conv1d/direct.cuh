// The general convolution with few channels a group, depthwise ones above all, and of what lies in no order that a
// matrix product takes: a thread has an output channel at a few places, and adds up its window in f32.
// SPDX-License-Identifier: Apache-2.0
#include "common/pointwise.cuh"
#include "conv1d/params.cuh"

namespace q {

using Element = ELEMENT;
inline constexpr int kPlaces = kConvPlaces;

QUERN_DEVICE f32 at(const void* data, i64 offset) { return to_f32(static_cast<const Element*>(data)[offset]); }
QUERN_DEVICE f32 x_at(const DirectParams& p, i64 channel, i32 place) {
  return place >= 0 && place < p.length ? at(p.x, channel + place * p.x_place) : 0.0f;
}

// Places `some` apart.
QUERN_DEVICE void sum_apart(const DirectParams& p, i64 x, i64 weight, i32 first, f32 (&sums)[kPlaces]) {
  const i32 step = p.some.value * p.stride;
  i32 begin = first * p.stride - p.pad;
  QUERN_ROLLED for (i32 j = 0; j < p.taps; ++j) {
    const f32 factor = at(p.weight, weight + j * p.weight_tap);
    QUERN_UNROLL for (int i = 0; i < kPlaces; ++i) sums[i] = fma(factor, x_at(p, x, begin + i * step), sums[i]);
    begin += p.dilation;
  }
}
// Neighbouring places, whose windows lie over each other: each element of x is read once for all of them.
QUERN_DEVICE void sum_adjacent(const DirectParams& p, i64 x, i64 weight, i32 first, f32 (&sums)[kPlaces]) {
  const i32 begin = first - p.pad;
  f32 window[kPlaces];
  QUERN_UNROLL for (int i = 0; i < kPlaces; ++i) window[i] = x_at(p, x, begin + i);
  QUERN_ROLLED for (i32 tap = 0; tap < p.taps; tap += kPlaces) {
    f32 next[kPlaces];
    QUERN_UNROLL for (int i = 0; i < kPlaces; ++i) {
      next[i] = tap + i + 1 < p.taps ? x_at(p, x, begin + tap + kPlaces + i) : 0.0f;
    }
    QUERN_UNROLL for (int j = 0; j < kPlaces; ++j) {
      if (tap + j >= p.taps) continue;
      const f32 factor = at(p.weight, weight + (tap + j) * p.weight_tap);
      QUERN_UNROLL for (int i = 0; i < kPlaces; ++i) {
        sums[i] = fma(factor, i + j < kPlaces ? window[i + j] : next[i + j - kPlaces], sums[i]);
      }
    }
    QUERN_UNROLL for (int i = 0; i < kPlaces; ++i) window[i] = next[i];
  }
}

QUERN_DEVICE void convolve(const DirectParams& p, i32 sample, i32 out_channel, i32 share) {
  const i32 group = out_channel / p.group_outs, first = p.adjacent ? share * kPlaces : share;
  const i64 x = sample * p.x_sample + static_cast<i64>(group) * p.channels * p.x_channel;
  const i64 weight = out_channel * p.weight_out;
  f32 sums[kPlaces];
  QUERN_UNROLL for (int i = 0; i < kPlaces; ++i) sums[i] = 0.0f;
  QUERN_ROLLED for (i32 c = 0; c < p.channels; ++c) {
    if (p.adjacent) {
      sum_adjacent(p, x + c * p.x_channel, weight + c * p.weight_channel, first, sums);
    } else {
      sum_apart(p, x + c * p.x_channel, weight + c * p.weight_channel, first, sums);
    }
  }
  const f32 bias = p.bias ? at(p.bias, out_channel) : 0.0f;
  QUERN_UNROLL for (int i = 0; i < kPlaces; ++i) {
    const i32 place = p.adjacent ? first + i : first + i * p.some.value;
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
