// The merge_states op: joins any number of partial results of attention.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string>

#include "jit/error.h"
#include "sources/call.h"
#include "sources/common_headers.h"
#include "sources/description.h"
#include "sources/divisor.h"
#include "sources/embedded.h"
#include "sources/launch.h"
#include "sources/merge_states/params.cuh"
#include "sources/ops.h"
#include "sources/tensor.h"

namespace quern::ops::merge_states {
namespace {

constexpr int kThreads = 256;

struct Shape {
  Dtype element = Dtype::bf16;
};
constexpr auto kConstants =
    describe<Shape>(tag_merge_states, "merge_states", choice<&Shape::element>("dtype", "ELEMENT", kFloatDtypes));

Constants constants(const jit::Spec& spec) { return kConstants.to_constants(kConstants.to_shape(spec)); }

jit::Spec parse(const Constants& given, const jit::TargetInfo& target) {
  return kConstants.to_spec(kConstants.read(given), target.target);
}

jit::Unit unit(const jit::Spec& spec) {
  jit::Unit unit;
  unit.op = "merge_states";
  unit.target = jit::Target::from_tag(spec.target);
  unit.entry = "quern_merge_states";
  kConstants.define(kConstants.to_shape(spec), &unit);
  unit.constants.push_back({"THREADS", std::to_string(kThreads)});
  unit.source = embedded("merge_states/merge_states.cuh");
  unit.headers = device_headers(unit.target);
  return unit;
}

// As merge_state's.
void list(const quern_model& model, const jit::TargetInfo& target, std::vector<jit::Spec>* specs) {
  const Dtype element = model.dtype.bits == 0 ? Dtype::bf16 : dtype_of(model.dtype);
  if (element == Dtype::f16 || element == Dtype::bf16 || element == Dtype::f32)
    specs->push_back(kConstants.to_spec({element}, target.target));
}

struct Problem {
  Dtype element;
  q::MergeStatesParams params;
  int sms;
};

Problem read_problem(const quern_merge_states_args& args, const Runtime& runtime, bool may_lack_data) {
  const Call call = read_call(runtime, args, 0, "enum quern_call_flags", 16, may_lack_data);
  const Tensor parts = read(args.parts, "parts", 4, {Dtype::f16, Dtype::bf16, Dtype::f32}, call.place);
  expect_unit_stride(parts, "parts", 3);
  expect_aligned(parts, "parts", 16);
  const std::int64_t rows = parts.shape[1], heads = parts.shape[2], dim = parts.shape[3];
  if (dim < 8 || dim % 8 != 0) refuse_extent("parts", 3, dim, "positive multiples of 8");
  const Tensor lses = read(args.part_lses, "part_lses", 3, {Dtype::f32}, call.place);
  for (int d = 0; d < 3; ++d) expect_extent(lses, "part_lses", d, parts.shape[d]);
  const Tensor out = read(args.out, "out", 3, {parts.dtype}, call.place);
  for (int d = 0; d < 3; ++d) expect_extent(out, "out", d, parts.shape[d + 1]);
  expect_unit_stride(out, "out", 2);
  expect_aligned(out, "out", 16);
  expect_apart(out, "out");
  if (rows * heads * (dim / 8) > INT32_MAX)
    refuse_extent("parts", 1, rows, "less than 2^34 elements a part: split the call");

  Problem problem{parts.dtype, {}, call.sms};
  q::MergeStatesParams& p = problem.params;
  if (args.lse != nullptr) {
    const Tensor lse = read(args.lse, "lse", 2, {Dtype::f32}, call.place);
    expect_extent(lse, "lse", 0, rows);
    expect_extent(lse, "lse", 1, heads);
    expect_apart(lse, "lse");
    p.lse = reinterpret_cast<float*>(lse.data);
    p.lse_stride_row = lse.strides[0], p.lse_stride_head = lse.strides[1];
  }
  p.parts = parts.data, p.out = out.data;
  p.lses = reinterpret_cast<const float*>(lses.data);
  p.part_stride = parts.strides[0], p.part_stride_row = parts.strides[1], p.part_stride_head = parts.strides[2];
  p.lses_stride = lses.strides[0], p.lses_stride_row = lses.strides[1], p.lses_stride_head = lses.strides[2];
  p.out_stride_row = out.strides[0], p.out_stride_head = out.strides[1];
  p.groups = static_cast<std::int32_t>(rows * heads * (dim / 8));
  p.count = static_cast<std::int32_t>(parts.shape[0]);
  p.heads = divisor(static_cast<std::int32_t>(std::max<std::int64_t>(heads, 1)));
  p.groups_per_row = divisor(static_cast<std::int32_t>(dim / 8));
  return problem;
}

}  // namespace

const Op op{"merge_states", unit, parse, list, constants};

std::uint64_t workspace(const Runtime& runtime, const quern_merge_states_args& args) {
  read_problem(args, runtime, true);
  return 0;
}

void prepare(const Runtime& runtime, const quern_merge_states_args& args) {
  const Problem problem = read_problem(args, runtime, true);
  kernel_for(runtime, kConstants.to_spec({problem.element}, runtime.driver->device().limits.target), args.flags,
             args.stream);
}

void run(const Runtime& runtime, const quern_merge_states_args& args) {
  Problem problem = read_problem(args, runtime, false);
  const jit::Kernel* kernel = kernel_for(
      runtime, kConstants.to_spec({problem.element}, runtime.driver->device().limits.target), args.flags, args.stream);
  if (problem.params.groups == 0) return;
  jit::Launch launch;
  launch.grid[0] = static_cast<std::uint32_t>(
      std::clamp<std::int64_t>((problem.params.groups + kThreads - 1) / kThreads, 1, std::int64_t{problem.sms} * 8));
  launch.block[0] = kThreads;
  launch.programmatic = (args.flags & QUERN_CALL_PROGRAMMATIC) != 0;
  launch.stream = args.stream;
  ops::launch(runtime, *kernel, launch, "launching merge_states", problem.params);
}

}  // namespace quern::ops::merge_states
