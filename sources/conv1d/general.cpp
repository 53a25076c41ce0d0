// The general convolution, which a weight of three dimensions asks for: that of an image of one row, as conv2d does it.
// SPDX-License-Identifier: Apache-2.0
#include <string>

#include "jit/error.h"
#include "sources/conv1d/shape.h"
#include "sources/conv2d/convolution.h"
#include "sources/strided.h"

namespace quern::ops::conv1d {
namespace {

// A tensor with a dimension of one row in front of its last.
Tensor with_row(const Tensor& t) {
  Tensor image = t;
  image.strides[3] = t.strides[2], image.strides[2] = t.shape[2] * t.strides[2];
  return image;
}

conv2d::Convolution read_general(const quern_conv1d_args& args, const Runtime& runtime, bool may_lack_data) {
  conv2d::Convolution c{};
  c.call = read_call(runtime, args, kFlags, "enum quern_call_flags and quern_conv1d_flags", 4, may_lack_data);
  conv2d::read_common(args, c);
  const Place& place = c.call.place;
  const Tensor x = read(args.x, "x", 3, {Dtype::f16, Dtype::bf16, Dtype::f32}, place);
  const Tensor weight = read(args.weight, "weight", 3, {x.dtype}, place);
  const Tensor out = read(args.out, "out", 3, {x.dtype}, place);
  for (const auto& [name, given] : {std::pair{"offsets", args.offsets},
                                    {"state", args.state},
                                    {"state_ids", args.state_ids},
                                    {"has_state", args.has_state}}) {
    if (given != nullptr)
      throw Error(QUERN_INVALID, std::string(name) + " is given with a weight of three dimensions; allowed: NULL");
  }
  c.dtype = x.dtype;
  c.stride = {1, conv2d::read_number(args.stride, "stride", 1)};
  c.dilation = {1, conv2d::read_number(args.dilation, "dilation", 1)};
  c.groups = conv2d::read_number(args.groups, "groups", 1);
  c.pad_begin = {0, conv2d::read_number(args.pad_begin, "pad_begin", 0)};
  c.pad_end = {0, conv2d::read_number(args.pad_end, "pad_end", 0)};
  if (args.reserved != 0) refuse_value("reserved", std::int64_t{args.reserved}, "0");
  for (int d = 0; d < 3; ++d) {
    if (weight.shape[d] < 1) refuse_extent("weight", d, weight.shape[d], "1 and more");
  }
  const std::int64_t length = x.shape[2];
  c.batch = x.shape[0], c.image = {1, length};
  c.outs = weight.shape[0], c.channels = weight.shape[1], c.kernel = {1, weight.shape[2]};
  if (c.outs % c.groups != 0) refuse_value("groups", c.groups, "a divisor of weight.shape[0]");
  expect_extent(x, "x", 1, c.channels * c.groups);
  const std::int64_t places = conv2d::places_of(length, c.pad_begin.columns, c.pad_end.columns, c.kernel.columns,
                                                c.stride.columns, c.dilation.columns);
  if (places < 0) refuse_extent("x", 2, length, "as many elements as a window has, with the padding");
  if (length + c.pad_begin.columns + c.pad_end.columns > INT32_MAX - 65536)
    refuse_extent("x", 2, length, "fewer at once");
  c.places = {1, places};
  expect_extent(out, "out", 0, c.batch);
  expect_extent(out, "out", 1, c.outs);
  expect_extent(out, "out", 2, places);
  expect_apart(out, "out");
  expect_beside(out, "out", x, "x");
  c.has_bias = args.bias != nullptr;
  if (c.has_bias) {
    const Tensor bias = read(args.bias, "bias", 1, {c.dtype}, place);
    expect_extent(bias, "bias", 0, c.outs);
    expect_unit_stride(bias, "bias", 0);
    c.bias = bias.data;
  }
  c.activation = (args.flags & QUERN_CONV1D_SILU) != 0 ? QUERN_ACTIVATION_SILU : QUERN_ACTIVATION_DEFAULT;
  c.x = with_row(x), c.weight = with_row(weight), c.out = with_row(out);
  conv2d::finish_reading(c, length);
  return c;
}

}  // namespace

std::uint64_t general_workspace(const Runtime& runtime, const quern_conv1d_args& args) {
  return conv2d::convolution_workspace(runtime, read_general(args, runtime, true));
}

void general_prepare(const Runtime& runtime, const quern_conv1d_args& args) {
  conv2d::convolution_prepare(runtime, read_general(args, runtime, true));
}

void general_run(const Runtime& runtime, const quern_conv1d_args& args) {
  conv2d::convolution_run(runtime, read_general(args, runtime, false));
}

}  // namespace quern::ops::conv1d
