// The fp8_gemm op: products of 8-bit floating point with scales.
// SPDX-License-Identifier: Apache-2.0
#include "sources/gemm/problem.h"
#include "sources/ops.h"

namespace quern::ops::fp8_gemm {
namespace {

jit::Unit unit(const jit::Spec& spec) {
  return gemm::to_unit(gemm::to_shape(spec), tag_fp8_gemm, jit::Target::from_tag(spec.target));
}
jit::Spec parse(const Constants& given, const jit::TargetInfo& target) {
  return gemm::to_spec(gemm::from_constants(given, tag_fp8_gemm), tag_fp8_gemm, target.target);
}
Constants constants(const jit::Spec& spec) { return gemm::to_constants(gemm::to_shape(spec), tag_fp8_gemm); }
void list(const quern_model& model, const jit::TargetInfo& target, std::vector<jit::Spec>* specs) {
  gemm::list_kernels(tag_fp8_gemm, model, target, specs);
}
TuneFinding tune(const Runtime& runtime, const Constants& product, std::int64_t rows, const TuneOptions& options) {
  return gemm::tune_product(tag_fp8_gemm, runtime, product, rows, options);
}
void products(const quern_model& model, const jit::TargetInfo& target, std::vector<Constants>* found) {
  gemm::list_products(tag_fp8_gemm, model, target, found);
}

}  // namespace
}  // namespace quern::ops::fp8_gemm

namespace quern::ops::gemm {

Problem read_problem(const quern_fp8_gemm_args& args, const Runtime& runtime, bool may_lack_data) {
  Problem problem{};
  problem.call = read_call(runtime, args, QUERN_GEMM_CONSTANT_B, "enum quern_call_flags and QUERN_GEMM_CONSTANT_B", 4,
                           may_lack_data);
  problem.op = tag_fp8_gemm;
  problem.flags = args.flags;
  problem.stream = args.stream;
  Shape& shape = problem.shape;
  const Place& place = problem.call.place;
  shape.copy_bytes = problem.call.alignment == 16 ? 16 : 4;
  shape.gate = wants_gate(args.epilogue);
  const Tensor a = read_fp8(args.a, "a", 2, args.a_type, "a_type", place);
  const Tensor b = read_fp8(args.b, "b", 2, args.b_type, "b_type", place);
  const std::int64_t m = a.shape[0], k = a.shape[1], n = b.shape[0];
  expect_extent(b, "b", 1, k);
  expect_countable(a, "a", 0, 1);
  expect_countable(b, "b", 0, 1);
  expect_unit_stride(a, "a", 1);
  expect_unit_stride(b, "b", 1);
  expect_copies(a, "a", 1, shape.copy_bytes);
  expect_copies(b, "b", 1, shape.copy_bytes);
  if (shape.gate && n % 2 != 0) refuse_extent("b", 0, n, "an even number, with QUERN_EPILOGUE_GATE");
  const std::int64_t columns = shape.gate ? n / 2 : n;
  const Tensor out = read(args.out, "out", 2, {Dtype::bf16, Dtype::f16, Dtype::f32, Dtype::e4m3, Dtype::e5m2}, place);
  expect_extent(out, "out", 0, m);
  expect_extent(out, "out", 1, columns);

  shape.a = a.dtype, shape.b = b.dtype;
  q::GemmParams& p = problem.params;
  p.a = a.data, p.b = b.data;
  p.m = static_cast<std::int32_t>(m), p.n = static_cast<std::int32_t>(n), p.k = static_cast<std::int32_t>(k);
  p.groups = 1;
  p.a_row = stride_of(a, 0), p.b_row = stride_of(b, 0);
  p.a_k = p.b_k = 1;
  read_scales(args.scale_a, args.scale_b, {1, false, false, m}, problem);
  read_epilogue(args.epilogue, out, {1, m, columns, false, false}, problem);
  return problem;
}

}  // namespace quern::ops::gemm

namespace quern::ops::fp8_gemm {

const Op op{"fp8_gemm", unit, parse, list, constants, tune, products};

std::uint64_t workspace(const Runtime& runtime, const quern_fp8_gemm_args& args) {
  return gemm::workspace_bytes(runtime, gemm::read_problem(args, runtime, true));
}

void prepare(const Runtime& runtime, const quern_fp8_gemm_args& args) {
  gemm::prepare_kernels(runtime, gemm::read_problem(args, runtime, true));
}

void run(const Runtime& runtime, const quern_fp8_gemm_args& args) {
  gemm::Problem problem = gemm::read_problem(args, runtime, false);
  gemm::launch_product(runtime, problem, args.workspace, args.workspace_size);
}

}  // namespace quern::ops::fp8_gemm
