// Reads a call of the general convolution, and chooses how it is done.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string>

#include "jit/error.h"
#include "sources/conv1d/general.h"
#include "sources/strided.h"

namespace quern::ops::conv1d {
namespace {

// Below so many output channels of a group, or elements of its window, tensor cores would multiply mostly zeros.
constexpr std::int64_t kFewOuts = 8, kFewElements = 8;

std::int64_t read_number(std::int32_t given, const char* name, std::int64_t least) {
  if (given < 0) refuse_value(name, std::int64_t{given}, "0 and more");
  return std::max<std::int64_t>(given, least);
}

}  // namespace

void choose_way(General& p) {
  const std::int64_t window = p.channels * p.taps;
  p.places_first = p.out.strides[2] == 1;
  const bool in_rows = p.places_first || p.outs == 1 || p.out.strides[1] == 1;
  p.direct = !in_rows || p.group_outs < kFewOuts || window < kFewElements;
  if (p.direct) {
    p.places_first = p.out.strides[2] <= p.out.strides[1];
    return;
  }
  const std::int64_t chunk = p.chunk;
  const auto whole = [chunk](std::int64_t elements) { return elements % chunk == 0; };
  const auto rounded = [chunk](std::int64_t elements) { return (elements + chunk - 1) / chunk * chunk; };
  const bool many = p.channels >= chunk;
  p.over = p.dilation == 1 && many;
  p.per = many ? rounded(p.channels) : p.channels;
  p.k = many ? p.per * p.taps : rounded(window);
  p.rows = p.over ? p.padded() : p.places;
  const bool vectors = p.call.alignment == 16;
  const std::int64_t place = p.x.strides[2];
  const bool dense = place == p.channels || (p.taps == 1 && whole(place));
  const bool side_by_side = p.x.strides[1] == 1 && dense && (p.batch <= 1 || whole(p.x.strides[0]));
  p.lays_x =
      !(vectors && p.over && p.groups == 1 && p.pad_begin == 0 && p.pad_end == 0 && whole(p.channels) && side_by_side);
  p.plain = p.lays_x && many && p.x.strides[1] != 1;
  const std::int64_t* w = p.weight.strides;
  p.lays_weight = !(vectors && p.k == window && (p.channels == 1 || w[1] == 1) && (p.taps == 1 || w[2] == p.channels) &&
                    whole(w[0]));
}

General read_general(const quern_conv1d_args& args, const Runtime& runtime, bool may_lack_data) {
  General p{};
  p.call = read_call(runtime, args, kFlags, "enum quern_call_flags and quern_conv1d_flags", 4, may_lack_data);
  const Place& place = p.call.place;
  p.x = read(args.x, "x", 3, {Dtype::f16, Dtype::bf16, Dtype::f32}, place);
  p.dtype = p.x.dtype, p.chunk = static_cast<int>(16 / bytes_of(p.dtype));
  p.weight = read(args.weight, "weight", 3, {p.dtype}, place);
  p.out = read(args.out, "out", 3, {p.dtype}, place);
  for (const auto& [name, given] : {std::pair{"offsets", args.offsets},
                                    {"state", args.state},
                                    {"state_ids", args.state_ids},
                                    {"has_state", args.has_state}}) {
    if (given != nullptr)
      throw Error(QUERN_INVALID, std::string(name) + " is given with a weight of three dimensions; allowed: NULL");
  }
  p.stride = read_number(args.stride, "stride", 1), p.dilation = read_number(args.dilation, "dilation", 1);
  p.groups = read_number(args.groups, "groups", 1);
  p.pad_begin = read_number(args.pad_begin, "pad_begin", 0), p.pad_end = read_number(args.pad_end, "pad_end", 0);
  if (args.reserved != 0) refuse_value("reserved", std::int64_t{args.reserved}, "0");
  p.batch = p.x.shape[0], p.length = p.x.shape[2];
  p.outs = p.weight.shape[0], p.channels = p.weight.shape[1], p.taps = p.weight.shape[2];
  for (int d = 0; d < 3; ++d) {
    if (p.weight.shape[d] < 1) refuse_extent("weight", d, p.weight.shape[d], "1 and more");
  }
  if (p.outs % p.groups != 0) refuse_value("groups", p.groups, "a divisor of weight.shape[0]");
  expect_extent(p.x, "x", 1, p.channels * p.groups);
  p.group_outs = p.outs / p.groups;
  const std::int64_t room = p.length + p.pad_begin + p.pad_end - p.dilation * (p.taps - 1) - 1;
  if (room < 0) refuse_extent("x", 2, p.length, "as many elements as a window has, with the padding");
  if (p.length + p.pad_begin + p.pad_end > INT32_MAX - 65536) refuse_extent("x", 2, p.length, "fewer at once");
  p.places = room / p.stride + 1;
  expect_extent(p.out, "out", 0, p.batch);
  expect_extent(p.out, "out", 1, p.outs);
  expect_extent(p.out, "out", 2, p.places);
  expect_apart(p.out, "out");
  expect_beside(p.out, "out", p.x, "x");
  if (args.bias != nullptr) {
    p.bias = read(args.bias, "bias", 1, {p.dtype}, place);
    expect_extent(p.bias, "bias", 0, p.outs);
    expect_unit_stride(p.bias, "bias", 0);
  }
  const auto element = static_cast<int>(bytes_of(p.dtype));
  for (const auto& [name, tensor] : {std::pair{"x", &p.x}, {"weight", &p.weight}}) {
    const auto address = reinterpret_cast<std::uintptr_t>(tensor->data);
    if (address % static_cast<std::uintptr_t>(std::max(p.call.alignment, element)) != 0)
      refuse_alignment(name, "data", address & (~address + 1), p.call.alignment);
  }
  choose_way(p);
  const std::int64_t items = p.direct ? p.outs * p.places : std::max(p.rows, p.group_outs) * (p.k / p.chunk);
  if (items > INT32_MAX - 65536) refuse_extent("x", 2, p.length, "fewer at once: split the call");
  return p;
}

}  // namespace quern::ops::conv1d
