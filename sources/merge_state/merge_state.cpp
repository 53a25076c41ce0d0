// The merge_state op: joins two partial results of attention.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "jit/error.h"
#include "sources/call.h"
#include "sources/common_headers.h"
#include "sources/description.h"
#include "sources/embedded.h"
#include "sources/launch.h"
#include "sources/merge_state/params.cuh"
#include "sources/ops.h"
#include "sources/tensor.h"

namespace quern::ops::merge_state {
namespace {

constexpr int kWarps = 8;

struct Shape {
  Dtype element = Dtype::bf16;
};
constexpr auto kConstants =
    describe<Shape>(tag_merge_state, "merge_state", choice<&Shape::element>("dtype", "ELEMENT", kFloatDtypes));

Constants constants(const jit::Spec& spec) { return kConstants.to_constants(kConstants.to_shape(spec)); }

jit::Spec parse(const Constants& given, const jit::TargetInfo& target) {
  return kConstants.to_spec(kConstants.read(given), target.target);
}

jit::Unit unit(const jit::Spec& spec) {
  jit::Unit unit;
  unit.op = "merge_state";
  unit.target = jit::Target::from_tag(spec.target);
  unit.entry = "quern_merge_state";
  kConstants.define(kConstants.to_shape(spec), &unit);
  unit.constants.push_back({"THREADS", std::to_string(kWarps * jit::limits_of(unit.target).warp_size)});
  unit.source = embedded("merge_state/merge_state.cuh");
  unit.headers = device_headers(unit.target);
  return unit;
}

// Partial results come in the model's dtype from attention, and in f32 from a host that keeps them so.
void list(const quern_model& model, const jit::TargetInfo& target, std::vector<jit::Spec>* specs) {
  const Dtype element = model.dtype.bits == 0 ? Dtype::bf16 : dtype_of(model.dtype);
  if (element == Dtype::f16 || element == Dtype::bf16 || element == Dtype::f32)
    specs->push_back(kConstants.to_spec({element}, target.target));
}

struct Problem {
  Dtype element;
  q::MergeStateParams params;
  int sms;
};

struct Part {
  Tensor out, lse;
};

Part read_part(const DLTensor* out, const char* out_name, const DLTensor* lse, const char* lse_name, const Tensor* like,
               const Place& place) {
  Part part{read(out, out_name, 3, {Dtype::f16, Dtype::bf16, Dtype::f32}, place), {}};
  expect_unit_stride(part.out, out_name, 2);
  expect_aligned(part.out, out_name, 16);
  const Tensor& first = like != nullptr ? *like : part.out;
  if (part.out.dtype != first.dtype) refuse_dtype(out_name, out->dtype, {first.dtype});
  for (int d = 0; d < 3; ++d) expect_extent(part.out, out_name, d, first.shape[d]);
  if (lse == nullptr && std::string_view(lse_name) == "lse") return part;
  part.lse = read(lse, lse_name, 2, {Dtype::f32}, place);
  for (int d = 0; d < 2; ++d) expect_extent(part.lse, lse_name, d, first.shape[d]);
  return part;
}

Problem read_problem(const quern_merge_state_args& args, const Runtime& runtime, bool may_lack_data) {
  const Call call = read_call(runtime, args, 0, "enum quern_call_flags", 16, may_lack_data);
  const Place& place = call.place;
  const Part a = read_part(args.out_a, "out_a", args.lse_a, "lse_a", nullptr, place);
  const Part b = read_part(args.out_b, "out_b", args.lse_b, "lse_b", &a.out, place);
  const Part to = read_part(args.out, "out", args.lse, "lse", &a.out, place);
  if (to.lse.data != nullptr && (to.lse.data == a.lse.data || to.lse.data == b.lse.data)) {
    throw Error(QUERN_INVALID, "lse is lse_a or lse_b; only out may be joined in place");
  }
  if (a.out.shape[2] < 8 || a.out.shape[2] % 8 != 0)
    refuse_extent("out_a", 2, a.out.shape[2], "positive multiples of 8");

  Problem problem{a.out.dtype, {}, call.sms};
  q::MergeStateParams& p = problem.params;
  p.out_a = a.out.data, p.out_b = b.out.data, p.out = to.out.data;
  p.lse_a = reinterpret_cast<const float*>(a.lse.data), p.lse_b = reinterpret_cast<const float*>(b.lse.data);
  p.lse = reinterpret_cast<float*>(to.lse.data);
  p.a_stride_row = a.out.strides[0], p.a_stride_head = a.out.strides[1];
  p.b_stride_row = b.out.strides[0], p.b_stride_head = b.out.strides[1];
  p.out_stride_row = to.out.strides[0], p.out_stride_head = to.out.strides[1];
  p.lse_a_stride_row = a.lse.strides[0], p.lse_a_stride_head = a.lse.strides[1];
  p.lse_b_stride_row = b.lse.strides[0], p.lse_b_stride_head = b.lse.strides[1];
  p.lse_stride_row = to.lse.strides[0], p.lse_stride_head = to.lse.strides[1];
  p.heads = static_cast<std::int32_t>(a.out.shape[1]);
  p.dim = static_cast<std::int32_t>(a.out.shape[2]);
  p.groups = a.out.shape[0] * a.out.shape[1] * (a.out.shape[2] / 8);
  return problem;
}

}  // namespace

const Op op{"merge_state", unit, parse, list, constants};

std::uint64_t workspace(const Runtime& runtime, const quern_merge_state_args& args) {
  read_problem(args, runtime, true);
  return 0;
}

void prepare(const Runtime& runtime, const quern_merge_state_args& args) {
  const Problem problem = read_problem(args, runtime, true);
  kernel_for(runtime, kConstants.to_spec({problem.element}, runtime.driver->device().limits.target), args.flags,
             args.stream);
}

void run(const Runtime& runtime, const quern_merge_state_args& args) {
  const Problem problem = read_problem(args, runtime, false);
  const jit::DeviceInfo& device = runtime.driver->device();
  const jit::Kernel* kernel =
      kernel_for(runtime, kConstants.to_spec({problem.element}, device.limits.target), args.flags, args.stream);
  if (problem.params.groups == 0) return;
  const std::int64_t threads = kWarps * static_cast<std::int64_t>(device.limits.warp_size);
  jit::Launch launch;
  launch.grid[0] = static_cast<std::uint32_t>(
      std::clamp<std::int64_t>((problem.params.groups + threads - 1) / threads, 1, std::int64_t{problem.sms} * 8));
  launch.block[0] = static_cast<std::uint32_t>(threads);
  launch.programmatic = (args.flags & QUERN_CALL_PROGRAMMATIC) != 0;
  launch.stream = args.stream;
  q::MergeStateParams p = problem.params;
  ops::launch(runtime, *kernel, launch, "launching merge_state", p);
}

}  // namespace quern::ops::merge_state
