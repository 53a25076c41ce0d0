// A call of the general convolution as it has been read, and the way in which it is done.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "sources/call.h"
#include "sources/conv1d/shape.h"
#include "sources/tensor.h"

namespace quern::ops::conv1d {

inline constexpr std::uint64_t kPiece = 256;  // bytes that pieces of the workspace are aligned to

struct General {
  Call call;
  Tensor x, weight, bias, out;
  std::int64_t batch, length, places, outs, taps;  // places and outs: of out
  std::int64_t groups, channels, group_outs;       // of a group
  std::int64_t stride, dilation, pad_begin, pad_end;
  Dtype dtype;
  int chunk;  // elements of 16 bytes

  bool direct;
  bool places_first;  // out's places lie side by side
  // Of a matrix product: elements of a tap and of a row, whether windows lie over each other, what is laid out.
  std::int64_t per, k;
  bool over, lays_x, lays_weight;
  std::int64_t rows;  // of x for a sample and group as it is laid out
  // x is laid out as it is, with its padding, channels side by side: for the product, or for windows made of it.
  bool plain;

  std::int64_t padded() const { return length + pad_begin + pad_end; }
  std::uint64_t plain_bytes() const { return plain ? bytes(batch * groups * padded(), per) : 0; }
  std::uint64_t x_bytes() const { return lays_x ? bytes(batch * groups * rows, over ? per : k) : 0; }
  std::uint64_t weight_bytes() const { return lays_weight ? bytes(outs, k) : 0; }
  // All of them: windows where they are not what was laid out plain, x laid out plain, weights.
  bool makes_windows() const { return lays_x && !(plain && over); }
  std::uint64_t window_bytes() const { return makes_windows() ? x_bytes() : 0; }
  std::uint64_t laid_bytes() const { return window_bytes() + plain_bytes() + weight_bytes(); }

 private:
  std::uint64_t bytes(std::int64_t lines, std::int64_t of_line) const {
    const auto all = static_cast<std::uint64_t>(lines * of_line * bytes_of(dtype));
    return (all + kPiece - 1) / kPiece * kPiece;
  }
};

// How the sum is done, from shapes, strides and what is promised alone, so that prepare finds what calls find.
void choose_way(General& p);
// Throws Error(QUERN_INVALID) naming the argument.
General read_general(const quern_conv1d_args& args, const Runtime& runtime, bool may_lack_data);

}  // namespace quern::ops::conv1d
