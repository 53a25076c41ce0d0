// The gemm op: products of f16, bf16 and f32, plain and batched, in any order of the operands.
// SPDX-License-Identifier: Apache-2.0
#include "jit/error.h"
#include "sources/gemm/problem.h"
#include "sources/ops.h"

namespace quern::ops::gemm {
namespace {

jit::Unit unit(const jit::Spec& spec) { return to_unit(to_shape(spec), tag_gemm, jit::Target::from_tag(spec.target)); }
jit::Spec parse(const Constants& given, const jit::TargetInfo& target) {
  return to_spec(from_constants(given, tag_gemm), tag_gemm, target.target);
}
Constants constants(const jit::Spec& spec) { return to_constants(to_shape(spec), tag_gemm); }
void list(const quern_model& model, const jit::TargetInfo& target, std::vector<jit::Spec>* specs) {
  list_kernels(tag_gemm, model, target, specs);
}
TuneFinding tune(const Runtime& runtime, const Constants& product, std::int64_t rows, const TuneOptions& options) {
  return tune_product(tag_gemm, runtime, product, rows, options);
}
void products(const quern_model& model, const jit::TargetInfo& target, std::vector<Constants>* found) {
  list_products(tag_gemm, model, target, found);
}

struct Operand {
  Tensor tensor;
  bool transposed;  // stored [k][line]: lines are contiguous, not k
};

Operand read_operand(const DLTensor* given, const char* name, int rank, std::initializer_list<Dtype> dtypes,
                     const Place& place, int copy_bytes) {
  Operand operand{read(given, name, rank, dtypes, place), false};
  const Tensor& t = operand.tensor;
  const int k = rank - 1, line = rank - 2;
  expect_countable(t, name, line, k);
  const bool k_steps = t.shape[k] > 1 && t.strides[k] != 1;
  operand.transposed = k_steps && (t.shape[line] <= 1 || t.strides[line] == 1);
  if (k_steps && !operand.transposed) refuse_stride(name, k, t.strides[k], "1, here or in the dimension before");
  expect_copies(t, name, operand.transposed ? line : k, copy_bytes);
  return operand;
}

}  // namespace

Problem read_problem(const quern_gemm_args& args, const Runtime& runtime, bool may_lack_data) {
  Problem problem{};
  problem.call = read_call(runtime, args, QUERN_GEMM_TF32 | QUERN_GEMM_CONSTANT_B,
                           "enum quern_call_flags and quern_gemm_flags", 4, may_lack_data);
  problem.op = tag_gemm;
  problem.flags = args.flags;
  problem.stream = args.stream;
  Shape& shape = problem.shape;
  const Place& place = problem.call.place;
  shape.copy_bytes = problem.call.alignment == 16 ? 16 : 4;
  shape.gate = wants_gate(args.epilogue);
  if (args.a == nullptr) refuse_missing("a");
  const int rank = args.a->ndim;
  if (rank != 2 && rank != 3) refuse_rank("a", rank, 2, 3);
  const Operand a = read_operand(args.a, "a", rank, {Dtype::f16, Dtype::bf16, Dtype::f32}, place, shape.copy_bytes);
  const Operand b = read_operand(args.b, "b", rank, {Dtype::f16, Dtype::bf16, Dtype::f32}, place, shape.copy_bytes);
  if (b.tensor.dtype != a.tensor.dtype) refuse_dtype("b", args.b->dtype, {a.tensor.dtype});
  const int lead = rank - 2;
  const std::int64_t m = a.tensor.shape[lead], k = a.tensor.shape[lead + 1], n = b.tensor.shape[lead];
  const std::int64_t batch = lead != 0 ? a.tensor.shape[0] : 1;
  expect_extent(b.tensor, "b", lead + 1, k);
  if (lead != 0) expect_extent(b.tensor, "b", 0, batch);
  if (shape.gate && n % 2 != 0) refuse_extent("b", lead, n, "an even number, with QUERN_EPILOGUE_GATE");
  if (shape.gate && b.transposed && n / 2 * bytes_of(b.tensor.dtype) % shape.copy_bytes != 0) {
    refuse_extent("b", lead, n, "halves of whole copies, with QUERN_EPILOGUE_GATE and rows of n");
  }
  const Tensor out =
      read(args.out, "out", rank, {Dtype::f16, Dtype::bf16, Dtype::f32, Dtype::e4m3, Dtype::e5m2}, place);
  const std::int64_t columns = shape.gate ? n / 2 : n;
  if (lead != 0) expect_extent(out, "out", 0, batch);
  expect_extent(out, "out", lead, m);
  expect_extent(out, "out", lead + 1, columns);

  shape.a = shape.b = a.tensor.dtype;
  shape.transposed_a = a.transposed, shape.transposed_b = b.transposed;
  problem.precise = shape.a == Dtype::f32 && (args.flags & QUERN_GEMM_TF32) == 0;
  q::GemmParams& p = problem.params;
  p.a = a.tensor.data, p.b = b.tensor.data;
  p.m = static_cast<std::int32_t>(m), p.n = static_cast<std::int32_t>(n), p.k = static_cast<std::int32_t>(k);
  p.groups = static_cast<std::int32_t>(batch);
  p.a_group = lead != 0 ? stride_of(a.tensor, 0) : 0;
  p.b_group = lead != 0 ? stride_of(b.tensor, 0) : 0;
  p.a_row = a.transposed ? 1 : stride_of(a.tensor, lead), p.a_k = a.transposed ? a.tensor.strides[lead + 1] : 1;
  p.b_row = b.transposed ? 1 : stride_of(b.tensor, lead), p.b_k = b.transposed ? b.tensor.strides[lead + 1] : 1;
  read_epilogue(args.epilogue, out, {batch, m, columns, lead != 0, false}, problem);
  return problem;
}

const Op op{"gemm", unit, parse, list, constants, tune, products};

std::uint64_t workspace(const Runtime& runtime, const quern_gemm_args& args) {
  return workspace_bytes(runtime, read_problem(args, runtime, true));
}

void prepare(const Runtime& runtime, const quern_gemm_args& args) {
  prepare_kernels(runtime, read_problem(args, runtime, true));
}

void run(const Runtime& runtime, const quern_gemm_args& args) {
  Problem problem = read_problem(args, runtime, false);
  launch_product(runtime, problem, args.workspace, args.workspace_size);
}

}  // namespace quern::ops::gemm
