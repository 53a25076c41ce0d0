// A norm's results in 8 bits, which are quantize's: with the norm as its front where it has that one, else from rows in
// f32 that lie in the workspace between two launches.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "jit/error.h"
#include "sources/call.h"
#include "sources/quantize/params.cuh"
#include "sources/tensor.h"

namespace quern::ops::norm {

inline bool wants_codes(const quern_norm_args& args) {
  const Dtype given = args.out == nullptr ? Dtype::other : dtype_of(args.out->dtype);
  return given == Dtype::e4m3 || given == Dtype::e5m2 || given == Dtype::u8;
}

// Whether quantize has this norm in front.
inline bool is_front(const quern_norm_args& args) {
  if (args.scale != nullptr || args.shift != nullptr) return false;
  return args.kind == QUERN_NORM_LAYER || (args.kind == QUERN_NORM_RMS && args.bias == nullptr);
}

// Checks out, out_scale and what goes with them by the names that they have here.
inline void expect_codes(const quern_norm_args& args, const Call& call, std::int64_t rows, std::int64_t n) {
  const auto refuse = [](const std::string& text) { throw Error(QUERN_INVALID, text); };
  if (args.kind == QUERN_NORM_GROUP)
    refuse_value("kind", std::int64_t{args.kind}, "all but QUERN_NORM_GROUP with 8-bit out");
  if (args.scale_kind < QUERN_SCALE_STATIC || args.scale_kind > QUERN_SCALE_GROUP)
    refuse_value("scale_kind", std::int64_t{args.scale_kind},
                 "QUERN_SCALE_STATIC, _TENSOR, _TOKEN and _GROUP with 8-bit out");
  if (args.scale_kind == QUERN_SCALE_STATIC && (args.flags & QUERN_NORM_POWER_OF_TWO))
    refuse("flags has QUERN_NORM_POWER_OF_TWO; QUERN_SCALE_STATIC finds no scale that could be rounded");
  if (args.scale_kind == QUERN_SCALE_TENSOR && (args.flags & QUERN_CALL_BATCH_INVARIANT))
    refuse("flags has QUERN_CALL_BATCH_INVARIANT; rows that share a scale depend on each other");
  if (args.dense != nullptr && !is_front(args))
    refuse(
        "dense is given; with 8-bit out it must be NULL but for layer norms without scale and shift, and RMS norms "
        "without bias, scale and shift");
  const Tensor out = read_fp8(args.out, "out", 2, args.type, "type", call.place);
  expect_extent(out, "out", 0, rows), expect_extent(out, "out", 1, n);
  expect_unit_stride(out, "out", 1);
  expect_aligned(out, "out", call.alignment);
  expect_apart(out, "out");
  const bool each = args.scale_kind == QUERN_SCALE_TOKEN || args.scale_kind == QUERN_SCALE_GROUP;
  const bool groups = args.scale_kind == QUERN_SCALE_GROUP;
  const Tensor scale = read(args.out_scale, "out_scale", groups ? 2 : 1, {Dtype::f32}, call.place);
  expect_extent(scale, "out_scale", 0, each ? rows : 1);
  if (groups) expect_extent(scale, "out_scale", 1, (n + q::kGroupColumns - 1) / q::kGroupColumns);
  if (args.scale_kind != QUERN_SCALE_STATIC) expect_apart(scale, "out_scale");
}

// What of the call is quantize's, all but what stands in front.
inline quern_quantize_args codes_of(const quern_norm_args& args) {
  quern_quantize_args codes{};
  codes.size = sizeof codes;
  codes.flags = args.flags & kCallFlags;
  if (args.flags & QUERN_NORM_POWER_OF_TWO) codes.flags |= QUERN_QUANTIZE_POWER_OF_TWO;
  codes.stream = args.stream;
  codes.workspace = args.workspace, codes.workspace_size = args.workspace_size;
  codes.alignment = args.alignment, codes.max_sms = args.max_sms;
  codes.out = args.out, codes.scale = args.out_scale;
  codes.scale_kind = args.scale_kind, codes.type = args.type;
  return codes;
}

// With the norm in front.
inline quern_quantize_args front_of(const quern_norm_args& args) {
  quern_quantize_args codes = codes_of(args);
  if (args.flags & QUERN_NORM_WEIGHT_PLUS_ONE) codes.flags |= QUERN_QUANTIZE_WEIGHT_PLUS_ONE;
  codes.x = args.x, codes.residual = args.residual, codes.residual_out = args.residual_out;
  codes.weight = args.weight, codes.bias = args.bias, codes.dense = args.dense;
  codes.front = args.kind == QUERN_NORM_RMS ? QUERN_FRONT_RMSNORM : QUERN_FRONT_LAYERNORM;
  codes.eps = args.eps;
  return codes;
}

// Elements from row to row of what lies between.
inline std::int64_t pitch_between(std::int64_t n) { return (n + 7) / 8 * 8; }

// From rows in f32 at `data`. Stays where it is.
class CodesOfRows {
 public:
  CodesOfRows(const quern_norm_args& given, std::int64_t rows, std::int64_t n, void* data)
      : args(codes_of(given)), shape_{rows, n}, strides_{pitch_between(n), 1} {
    x_.data = data;
    x_.device = given.x->device;
    x_.ndim = 2;
    x_.dtype = {kDLFloat, 32, 1};
    x_.shape = shape_, x_.strides = strides_;
    args.x = &x_;
  }
  CodesOfRows(const CodesOfRows&) = delete;
  CodesOfRows& operator=(const CodesOfRows&) = delete;

  quern_quantize_args args;

 private:
  std::int64_t shape_[2], strides_[2];
  DLTensor x_{};
};

}  // namespace quern::ops::norm
