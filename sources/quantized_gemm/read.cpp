// Reading the arguments of quantized_gemm.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string>

#include "jit/error.h"
#include "sources/quantized_gemm/plan/shape.h"

namespace quern::ops::quantized_gemm {
namespace {

[[noreturn]] void refuse(const std::string& text) { throw Error(QUERN_INVALID, text); }

struct Operand {
  Tensor tensor;
  Code code;
  std::int64_t lines, k;
  std::int64_t row_bytes;  // from row to row
};

// What a format makes of a tensor's dtype. `is_a`: activations also are f16 and bf16, weights also unsigned.
Code code_of(const Tensor& t, const char* name, std::int32_t format, const char* format_name, bool is_a) {
  if (format < QUERN_QUANTIZED_AS_TENSOR || format > QUERN_QUANTIZED_E2M1)
    refuse_value(format_name, std::int64_t{format}, "enum quern_quantized_format, 0 to 4");
  if (t.dtype != Dtype::u8) {
    if (format != QUERN_QUANTIZED_AS_TENSOR && !(format == QUERN_QUANTIZED_E4M3 && t.dtype == Dtype::e4m3)) {
      refuse(std::string(format_name) + " is " + std::to_string(format) + ", and " + name + " is " + name_of(t.dtype) +
             "; allowed: QUERN_QUANTIZED_AS_TENSOR, or uint8 in " + name);
    }
    switch (t.dtype) {
      case Dtype::f16:
        return Code::f16;
      case Dtype::bf16:
        return Code::bf16;
      case Dtype::i8:
        return Code::int8;
      default:
        return Code::e4m3;
    }
  }
  switch (format) {
    case QUERN_QUANTIZED_E4M3:
      return Code::e4m3;
    case QUERN_QUANTIZED_INT4:
      return Code::int4;
    case QUERN_QUANTIZED_E2M1:
      return Code::e2m1;
    default:
      break;
  }
  if (is_a) {
    refuse_value(format_name, std::int64_t{format},
                 "QUERN_QUANTIZED_E4M3, QUERN_QUANTIZED_INT4 or QUERN_QUANTIZED_E2M1, where a is uint8");
  }
  return format == QUERN_QUANTIZED_UINT4 ? Code::uint4 : Code::uint8;
}

Operand read_operand(const DLTensor* given, const char* name, std::int32_t format, const char* format_name, bool is_a,
                     const Call& call, int copy_bytes) {
  Operand o{};
  o.tensor = is_a ? read(given, name, 2, {Dtype::f16, Dtype::bf16, Dtype::i8, Dtype::e4m3, Dtype::u8}, call.place)
                  : read(given, name, 2, {Dtype::i8, Dtype::u8, Dtype::e4m3}, call.place);
  const Tensor& t = o.tensor;
  o.code = code_of(t, name, format, format_name, is_a);
  gemm::expect_countable(t, name, 0, 1);
  expect_unit_stride(t, name, 1);
  gemm::expect_copies(t, name, 1, copy_bytes);
  const bool packed = bits_of(o.code) == 4;
  constexpr std::int64_t kMost = INT32_MAX - 4095;
  if (packed && t.shape[1] > kMost / 2) refuse_extent(name, 1, t.shape[1], "at most 2^30 - 2048 bytes");
  o.lines = t.shape[0], o.k = packed ? 2 * t.shape[1] : t.shape[1];
  o.row_bytes = gemm::stride_of(t, 0) * bytes_of(t.dtype);
  return o;
}

struct Scales {
  Scale kind = Scale::none;
  std::int64_t group = 0;  // 0: of all k
  q::QuantizedScales params{};
};

// Strides and group size of scales or zero points, which are [1], [lines] or [lines, groups].
void read_layout(const Tensor& t, const char* name, std::int64_t lines, std::int64_t k, Scales* scales) {
  scales->params.data = t.data;
  if (t.rank == 1) {
    if (t.shape[0] == 1) return;
    expect_extent(t, name, 0, lines);
    scales->params.line = gemm::stride_of(t, 0);
    return;
  }
  expect_extent(t, name, 0, lines);
  scales->params.line = gemm::stride_of(t, 0);
  const std::int64_t groups = t.shape[1], group = groups > 0 && k % groups == 0 ? k / groups : 0;
  if (groups == 1) return;
  if (group != 16 && group != 32 && group != 64 && group != 128) {
    const std::string allowed = "1, or K divided by 16, 32, 64 or 128, with K " + std::to_string(k);
    refuse_extent(name, 1, groups, allowed.c_str());
  }
  scales->group = group;
  scales->params.group = t.strides[1];
}

int rank_of(const DLTensor* given, const char* name) {
  if (given->ndim != 1 && given->ndim != 2) refuse_rank(name, given->ndim, 1, 2);
  return given->ndim;
}

Scales read_scales(const DLTensor* given, const char* name, std::int32_t type, const char* type_name,
                   std::int64_t lines, std::int64_t k, const Place& place) {
  if (type < QUERN_QUANTIZED_SCALE_AS_TENSOR || type > QUERN_QUANTIZED_SCALE_UE8M0)
    refuse_value(type_name, std::int64_t{type}, "enum quern_quantized_scale, 0 to 2");
  if (given == nullptr) return {};
  DLTensor bytes = *given;
  if (bytes.dtype.code == kDLFloat8_e8m0fnu && bytes.dtype.bits == 8 && bytes.dtype.lanes == 1) {
    bytes.dtype.code = kDLUInt;
    type = QUERN_QUANTIZED_SCALE_UE8M0;
  }
  const Tensor t =
      read(&bytes, name, rank_of(given, name), {Dtype::f32, Dtype::f16, Dtype::bf16, Dtype::e4m3, Dtype::u8}, place);
  Scales scales;
  switch (t.dtype) {
    case Dtype::f32:
      scales.kind = Scale::f32;
      break;
    case Dtype::f16:
      scales.kind = Scale::f16;
      break;
    case Dtype::bf16:
      scales.kind = Scale::bf16;
      break;
    case Dtype::e4m3:
      scales.kind = Scale::e4m3;
      break;
    default:
      if (type == QUERN_QUANTIZED_SCALE_AS_TENSOR) {
        const std::string allowed =
            std::string("QUERN_QUANTIZED_SCALE_E4M3 or QUERN_QUANTIZED_SCALE_UE8M0, where ") + name + " is uint8";
        refuse_value(type_name, std::int64_t{type}, allowed.c_str());
      }
      scales.kind = type == QUERN_QUANTIZED_SCALE_E4M3 ? Scale::e4m3 : Scale::ue8m0;
  }
  read_layout(t, name, lines, k, &scales);
  return scales;
}

const float* read_tensor_scale(const DLTensor* given, const char* name, const Place& place) {
  if (given == nullptr) return nullptr;
  const Tensor t = read(given, name, 1, {Dtype::f32}, place);
  expect_extent(t, name, 0, 1);
  return reinterpret_cast<const float*>(t.data);
}

}  // namespace

Problem read_problem(const Runtime& runtime, const quern_quantized_gemm_args& args, bool may_lack_data) {
  Problem problem{};
  gemm::Problem& product = problem.product;
  Shape& shape = problem.shape;
  product.call = read_call(runtime, args, QUERN_GEMM_CONSTANT_B, "enum quern_call_flags and QUERN_GEMM_CONSTANT_B", 4,
                           may_lack_data);
  product.flags = args.flags, product.stream = args.stream;
  const Place& place = product.call.place;
  const int copy_bytes = product.call.alignment == 16 ? 16 : 4;
  product.shape.copy_bytes = copy_bytes;
  product.shape.gate = gemm::wants_gate(args.epilogue);
  const Operand a = read_operand(args.a, "a", args.a_format, "a_format", true, product.call, copy_bytes);
  const Operand b = read_operand(args.b, "b", args.b_format, "b_format", false, product.call, copy_bytes);
  if (b.k != a.k)
    refuse("b has rows of " + std::to_string(b.k) + " numbers; allowed: " + std::to_string(a.k) + ", as a has");
  const std::int64_t m = a.lines, n = b.lines, k = a.k;
  if (product.shape.gate && n % 2 != 0) refuse_extent("b", 0, n, "an even number, with QUERN_EPILOGUE_GATE");
  const std::int64_t columns = product.shape.gate ? n / 2 : n;
  const Tensor out = read(args.out, "out", 2, {Dtype::bf16, Dtype::f16, Dtype::f32, Dtype::e4m3, Dtype::e5m2}, place);
  expect_extent(out, "out", 0, m);
  expect_extent(out, "out", 1, columns);

  if (bits_of(a.code) == 16) {
    for (const auto& [name, given] : {std::pair{"scale_a", args.scale_a}, {"tensor_scale_a", args.tensor_scale_a}}) {
      if (given != nullptr)
        refuse(std::string(name) + " is given, and a is " + name_of(a.tensor.dtype) + "; allowed: NULL");
    }
  }
  const Scales scale_a = read_scales(args.scale_a, "scale_a", args.scale_a_type, "scale_a_type", m, k, place);
  const Scales scale_b = read_scales(args.scale_b, "scale_b", args.scale_b_type, "scale_b_type", n, k, place);
  if (scale_a.group != 0 && scale_b.group != 0 && scale_a.group != scale_b.group) {
    refuse("scale_a has groups of " + std::to_string(scale_a.group) + " and scale_b of " +
           std::to_string(scale_b.group) + "; allowed: groups of one size, or one scale for all of K");
  }
  q::QuantizedParams& p = problem.params;
  if (args.zero_b != nullptr) {
    if (!is_unsigned(b.code)) refuse("zero_b is given, and b is signed; allowed: NULL, or with uint8 or UINT4 in b");
    const Tensor t = read(args.zero_b, "zero_b", rank_of(args.zero_b, "zero_b"), {Dtype::u8}, place);
    Scales zeros;
    read_layout(t, "zero_b", n, k, &zeros);
    if (zeros.group != 0 && zeros.group != scale_b.group)
      refuse_extent("zero_b", 1, t.shape[1], "as many groups as scale_b has, or 1");
    p.zero_b = zeros.params;
    shape.zeros = true;
  }
  shape.code_a = a.code, shape.code_b = b.code;
  shape.scale_a = scale_a.kind, shape.scale_b = scale_b.kind;
  shape.groups_a = scale_a.group != 0, shape.groups_b = scale_b.group != 0;
  shape.group = static_cast<int>(std::max(scale_a.group, scale_b.group));
  p.scale_a = scale_a.params, p.scale_b = scale_b.params;
  p.tensor_scale_a = read_tensor_scale(args.tensor_scale_a, "tensor_scale_a", place);
  p.tensor_scale_b = read_tensor_scale(args.tensor_scale_b, "tensor_scale_b", place);

  q::GemmParams& g = product.params;
  g.a = a.tensor.data, g.b = b.tensor.data;
  g.m = static_cast<std::int32_t>(m), g.n = static_cast<std::int32_t>(n), g.k = static_cast<std::int32_t>(k);
  g.groups = 1;
  g.a_row = a.row_bytes, g.b_row = b.row_bytes;
  g.a_k = g.b_k = 1;
  gemm::read_epilogue(args.epilogue, out, {1, m, columns, false, false}, product);
  static_cast<gemm::Shape&>(shape) = product.shape;
  shape = choose(shape, problem.extents(), product.call.device->limits);
  return problem;
}

}  // namespace quern::ops::quantized_gemm
