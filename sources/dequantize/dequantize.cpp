// The dequantize op: the inverse of quantize.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "jit/error.h"
#include "sources/call.h"
#include "sources/common_headers.h"
#include "sources/dequantize/params.cuh"
#include "sources/description.h"
#include "sources/element_names.h"
#include "sources/embedded.h"
#include "sources/launch.h"
#include "sources/ops.h"
#include "sources/tensor.h"

namespace quern::ops::dequantize {
namespace {

constexpr std::int64_t kShared = 128;  // rows of a block, and columns of a block or a group, that share a scale

struct Shape {
  Dtype x = Dtype::e4m3, out = Dtype::bf16;
  int access = 16;                                       // bytes that rows are aligned to
  bool tail = false;                                     // rows end within a vector
  int elements() const { return access == 16 ? 8 : 4; }  // of a vector
};

constexpr Names<Dtype, 3> kCodes = {{{"e4m3", Dtype::e4m3}, {"e5m2", Dtype::e5m2}, {"int8", Dtype::i8}}};
constexpr Names<int, 3> kAccesses = {{{"16", 16}, {"8", 8}, {"4", 4}}};
constexpr auto kConstants = describe<Shape>(tag_dequantize, "dequantize", choice<&Shape::x>("x", nullptr, kCodes),
                                            choice<&Shape::out>("out", "OUT", kFloatDtypes),
                                            choice<&Shape::access>("access", "ACCESS", kAccesses).optional(),
                                            flag<&Shape::tail>("tail", "TAIL").optional());

Constants constants(const jit::Spec& spec) { return kConstants.to_constants(kConstants.to_shape(spec)); }

jit::Spec parse(const Constants& given, const jit::TargetInfo& target) {
  return kConstants.to_spec(kConstants.read(given), target.target);
}

jit::Unit unit(const jit::Spec& spec) {
  jit::Unit unit;
  unit.op = "dequantize";
  unit.target = jit::Target::from_tag(spec.target);
  unit.entry = "quern_dequantize";
  const Shape shape = kConstants.to_shape(spec);
  kConstants.define(shape, &unit);
  unit.constants.push_back({"IN", device_type(shape.x)});
  unit.constants.push_back({"THREADS", std::to_string(q::kDequantizeThreads)});
  unit.source = embedded("dequantize/dequantize.cuh");
  unit.headers = device_headers(unit.target);
  return unit;
}

// Products widen their operands themselves: no model needs this.
void list(const quern_model&, const jit::TargetInfo&, std::vector<jit::Spec>*) {}

struct Problem {
  Shape shape;
  q::DequantizeParams params;
  int sms;
};

void read_scale(const quern_dequantize_args& args, const Call& call, std::int64_t rows, std::int64_t n,
                q::DequantizeParams& p) {
  const auto parts = [](std::int64_t of) { return (of + kShared - 1) / kShared; };
  const std::int32_t kind = args.scale_kind;
  if (kind < QUERN_SCALE_NONE || kind > QUERN_SCALE_BLOCK) {
    refuse_value("scale_kind", std::int64_t{kind}, "enum quern_scale_kind");
  }
  p.scale_rows = static_cast<std::int32_t>(std::max<std::int64_t>(rows, 1));
  p.scale_columns = static_cast<std::int32_t>(n);
  if (kind == QUERN_SCALE_NONE) {
    if (args.scale != nullptr) throw Error(QUERN_INVALID, "scale is given; it must be NULL with QUERN_SCALE_NONE");
    return;
  }
  const bool matrix = kind == QUERN_SCALE_GROUP || kind == QUERN_SCALE_BLOCK;
  const Tensor scale = read(args.scale, "scale", matrix ? 2 : 1, {Dtype::f32}, call.place);
  const bool single = kind == QUERN_SCALE_STATIC || kind == QUERN_SCALE_TENSOR;
  expect_extent(scale, "scale", 0, single ? 1 : kind == QUERN_SCALE_BLOCK ? parts(rows) : rows);
  p.scale = reinterpret_cast<const float*>(scale.data);
  p.scale_stride_row = scale.strides[0];
  if (!single) p.scale_rows = kind == QUERN_SCALE_BLOCK ? static_cast<std::int32_t>(kShared) : 1;
  if (!matrix) return;
  expect_extent(scale, "scale", 1, parts(n));
  p.scale_columns = static_cast<std::int32_t>(kShared);
  p.scale_stride_column = scale.strides[1];
}

Problem read_problem(const quern_dequantize_args& args, const Runtime& runtime, bool may_lack_data) {
  const Call call = read_call(runtime, args, 0, "enum quern_call_flags", 4, may_lack_data);
  Tensor x = read(args.x, "x", 2, {Dtype::e4m3, Dtype::e5m2, Dtype::i8, Dtype::u8}, call.place);
  if (x.dtype != Dtype::i8) {
    x = read_fp8(args.x, "x", 2, args.type, "type", call.place);
  } else if (args.type != QUERN_FP8_AS_TENSOR) {
    refuse_value("type", std::int64_t{args.type}, "0, where x is int8");
  }
  expect_unit_stride(x, "x", 1);
  expect_aligned(x, "x", call.alignment);
  const std::int64_t rows = x.shape[0], n = x.shape[1];
  if (n < 1) refuse_extent("x", 1, n, "1 and more");
  const Tensor out = read(args.out, "out", 2, {Dtype::f16, Dtype::bf16, Dtype::f32}, call.place);
  expect_extent(out, "out", 0, rows);
  expect_extent(out, "out", 1, n);
  expect_unit_stride(out, "out", 1);
  expect_aligned(out, "out", call.alignment);
  expect_apart(out, "out");

  Problem problem{{x.dtype, out.dtype, call.alignment, false}, {}, call.sms};
  problem.shape.tail = n % problem.shape.elements() != 0;
  q::DequantizeParams& p = problem.params;
  p.x = x.data, p.x_stride = x.strides[0];
  p.out = out.data, p.out_stride = out.strides[0];
  p.rows = static_cast<std::int32_t>(rows), p.n = static_cast<std::int32_t>(n);
  read_scale(args, call, rows, n, p);
  return problem;
}

const jit::Kernel* kernel_of(const Problem& problem, const Runtime& runtime, const quern_dequantize_args& args) {
  return kernel_for(runtime, kConstants.to_spec(problem.shape, runtime.driver->device().limits.target), args.flags,
                    args.stream);
}

}  // namespace

const Op op{"dequantize", unit, parse, list, constants};

std::uint64_t workspace(const Runtime& runtime, const quern_dequantize_args& args) {
  read_problem(args, runtime, true);
  return 0;
}

void prepare(const Runtime& runtime, const quern_dequantize_args& args) {
  kernel_of(read_problem(args, runtime, true), runtime, args);
}

void run(const Runtime& runtime, const quern_dequantize_args& args) {
  Problem problem = read_problem(args, runtime, false);
  const jit::Kernel* kernel = kernel_of(problem, runtime, args);
  if (problem.params.rows == 0) return;
  const std::int64_t pass = std::int64_t{q::kDequantizeThreads} * q::kDequantizeVectors * problem.shape.elements();
  const std::int64_t most = std::int64_t{problem.sms} * 8;
  const std::int64_t pieces = std::min<std::int64_t>({(problem.params.n + pass - 1) / pass, 65535, most});
  jit::Launch launch;
  launch.grid[0] = static_cast<std::uint32_t>(std::clamp<std::int64_t>(most / pieces, 1, problem.params.rows));
  launch.grid[1] = static_cast<std::uint32_t>(pieces);
  launch.block[0] = q::kDequantizeThreads;
  launch.programmatic = (args.flags & QUERN_CALL_PROGRAMMATIC) != 0;
  launch.stream = args.stream;
  ops::launch(runtime, *kernel, launch, "launching dequantize", problem.params);
}

}  // namespace quern::ops::dequantize
