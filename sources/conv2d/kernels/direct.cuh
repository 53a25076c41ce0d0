// A convolution with few channels a group, depthwise ones above all, and of what lies in no order that a matrix product
// takes: a thread has an output channel at a few places of a row, and adds up its window in f32.
// SPDX-License-Identifier: Apache-2.0
#include "common/pointwise.cuh"
#include "conv2d/params.cuh"

namespace q {

using Element = ELEMENT;
inline constexpr int kPlaces = kConvolutionPlaces;

QUERN_DEVICE f32 at(const void* data, i64 offset) { return to_f32(static_cast<const Element*>(data)[offset]); }
// Of a row of x that is there.
QUERN_DEVICE f32 x_at(const DirectParams& p, i64 row, i32 column) {
  return column >= 0 && column < p.places.width ? at(p.x, row + column * p.x_column) : 0.0f;
}

// A row of the window, of places `some` apart.
QUERN_DEVICE void sum_apart(const DirectParams& p, i64 x, i64 weight, i32 first, f32 (&sums)[kPlaces]) {
  const i32 step = p.some.value * p.places.stride_w;
  i32 begin = first * p.places.stride_w - p.places.pad_left;
  QUERN_ROLLED for (i32 j = 0; j < p.tap_columns; ++j) {
    const f32 factor = at(p.weight, weight + j * p.weight_column);
    QUERN_UNROLL for (int i = 0; i < kPlaces; ++i) sums[i] = fma(factor, x_at(p, x, begin + i * step), sums[i]);
    begin += p.places.dilation_w;
  }
}
// Of neighbouring places, whose windows lie over each other: each element of x is read once for all of them.
QUERN_DEVICE void sum_adjacent(const DirectParams& p, i64 x, i64 weight, i32 first, f32 (&sums)[kPlaces]) {
  const i32 begin = first - p.places.pad_left;
  f32 window[kPlaces];
  QUERN_UNROLL for (int i = 0; i < kPlaces; ++i) window[i] = x_at(p, x, begin + i);
  QUERN_ROLLED for (i32 tap = 0; tap < p.tap_columns; tap += kPlaces) {
    f32 next[kPlaces];
    QUERN_UNROLL for (int i = 0; i < kPlaces; ++i) {
      next[i] = tap + i + 1 < p.tap_columns ? x_at(p, x, begin + tap + kPlaces + i) : 0.0f;
    }
    QUERN_UNROLL for (int j = 0; j < kPlaces; ++j) {
      if (tap + j >= p.tap_columns) continue;
      const f32 factor = at(p.weight, weight + (tap + j) * p.weight_column);
      QUERN_UNROLL for (int i = 0; i < kPlaces; ++i) {
        sums[i] = fma(factor, i + j < kPlaces ? window[i + j] : next[i + j - kPlaces], sums[i]);
      }
    }
    QUERN_UNROLL for (int i = 0; i < kPlaces; ++i) window[i] = next[i];
  }
}

QUERN_DEVICE f32 activated(Activation activation, f32 y) {
  switch (activation) {
    case Activation::relu:
      return relu(y);
    case Activation::gelu:
      return gelu(y);
    case Activation::gelu_tanh:
      return gelu_tanh(y);
    case Activation::silu:
      return silu(y);
    default:
      return y;
  }
}

QUERN_DEVICE void convolve(const DirectParams& p, i32 sample, i32 out_channel, i32 line) {
  const i32 group = out_channel / p.group_outs, row = line / p.some, share = line - row * p.some.value;
  const i32 first = p.adjacent ? share * kPlaces : share, top = row * p.places.stride_h - p.places.pad_top;
  const i64 x = sample * p.x_sample + static_cast<i64>(group) * p.channels * p.x_channel;
  const i64 weight = out_channel * p.weight_out;
  f32 sums[kPlaces];
  QUERN_UNROLL for (int i = 0; i < kPlaces; ++i) sums[i] = 0.0f;
  QUERN_ROLLED for (i32 c = 0; c < p.channels; ++c) {
    QUERN_ROLLED for (i32 i = 0; i < p.tap_rows; ++i) {
      const i32 y = top + i * p.places.dilation_h;
      if (y < 0 || y >= p.places.height) continue;
      const i64 x_row = x + c * p.x_channel + y * p.x_row,
                weight_row = weight + c * p.weight_channel + i * p.weight_row;
      if (p.adjacent) {
        sum_adjacent(p, x_row, weight_row, first, sums);
      } else {
        sum_apart(p, x_row, weight_row, first, sums);
      }
    }
  }
  const f32 bias = p.bias ? at(p.bias, out_channel) : 0.0f;
  const i64 out = sample * p.out_sample + out_channel * p.out_channel + row * p.out_row;
  QUERN_UNROLL for (int i = 0; i < kPlaces; ++i) {
    const i32 column = p.adjacent ? first + i : first + i * p.some.value;
    if (column >= p.out_columns) continue;
    static_cast<Element*>(p.out)[out + column * p.out_column] =
        from_f32<Element>(activated(p.activation, sums[i] + bias));
  }
}

QUERN_DEVICE void convolve(const DirectParams& p) {
  const i32 items = p.outs.value * p.lines.value;
  QUERN_ROLLED for (i32 sample = block_index(1); sample < p.batch; sample += block_count(1)) {
    QUERN_ROLLED for (i32 item = block_index(0) * kConvolutionThreads + thread_index(); item < items;
                      item += block_count(0) * kConvolutionThreads) {
      // Neighbouring threads write what lies side by side.
      const i32 most = p.places_first ? item / p.lines : item / p.outs;
      const i32 least = item - most * (p.places_first ? p.lines.value : p.outs.value);
      convolve(p, sample, p.places_first ? most : least, p.places_first ? least : most);
    }
  }
}

}  // namespace q

QUERN_KERNEL(quern_convolution_direct, q::kConvolutionThreads, BLOCKS_PER_SM, QUERN_PARAM q::DirectParams p) {
  q::launch_next_grid();
  q::wait_for_previous_grid();
  q::convolve(p);
}
