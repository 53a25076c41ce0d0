// The grouped_fp8_gemm op: products of a mixture of experts, whose rows are known on the device only.
// SPDX-License-Identifier: Apache-2.0
#include "jit/error.h"
#include "sources/gemm/problem.h"
#include "sources/index_data.h"
#include "sources/ops.h"

namespace quern::ops::grouped_fp8_gemm {
namespace {

using gemm::Problem;

jit::Unit unit(const jit::Spec& spec) {
  return gemm::to_unit(gemm::to_shape(spec), tag_grouped_fp8_gemm, jit::Target::from_tag(spec.target));
}
jit::Spec parse(const Constants& given, const jit::TargetInfo& target) {
  return gemm::to_spec(gemm::from_constants(given, tag_grouped_fp8_gemm), tag_grouped_fp8_gemm, target.target);
}
Constants constants(const jit::Spec& spec) { return gemm::to_constants(gemm::to_shape(spec), tag_grouped_fp8_gemm); }
void list(const quern_model& model, const jit::TargetInfo& target, std::vector<jit::Spec>* specs) {
  gemm::list_kernels(tag_grouped_fp8_gemm, model, target, specs);
}

void list_groups(const Problem& problem, IndexList* list) {
  const q::GemmParams& p = problem.params;
  if (p.counts != nullptr) {
    list->in_range("counts", p.counts, p.groups, 0, p.out_rows, "expert", "the capacity");
    return;
  }
  list->offsets("offsets", p.offsets, p.groups, p.out_rows, "expert", "the rows of out");
  if (p.indices == nullptr) return;
  q::IndexCheck& rows = list->add(q::CheckKind::members, "indices[#] (row # of out)", integers(p.indices), p.groups,
                                  nullptr, "the rows of a");
  rows.indptr = p.offsets, rows.most = std::int64_t{p.a_rows} - 1;
}

}  // namespace
}  // namespace quern::ops::grouped_fp8_gemm

namespace quern::ops::gemm {
namespace {

Tensor read_ints(const DLTensor* given, const char* name, std::int64_t length, const Place& place) {
  const Tensor t = read(given, name, 1, {Dtype::i32}, place);
  expect_extent(t, name, 0, length);
  expect_unit_stride(t, name, 0);
  return t;
}
const std::int32_t* ints(const Tensor& t) { return reinterpret_cast<const std::int32_t*>(t.data); }

}  // namespace

Problem read_problem(const quern_grouped_fp8_gemm_args& args, const Runtime& runtime, bool may_lack_data) {
  Problem problem{};
  problem.call = read_call(runtime, args, QUERN_GEMM_CONSTANT_B, "enum quern_call_flags and QUERN_GEMM_CONSTANT_B", 4,
                           may_lack_data);
  problem.op = tag_grouped_fp8_gemm;
  problem.flags = args.flags;
  problem.stream = args.stream;
  Shape& shape = problem.shape;
  q::GemmParams& p = problem.params;
  const Place& place = problem.call.place;
  if ((args.offsets != nullptr) == (args.counts != nullptr))
    throw Error(QUERN_INVALID, "exactly one of offsets and counts must be given");
  const bool masked = args.counts != nullptr;
  if (masked && args.indices != nullptr)
    throw Error(QUERN_INVALID, "indices is given together with counts; allowed with offsets only");
  shape.grouping = masked ? Grouping::masked : Grouping::contiguous;
  shape.copy_bytes = problem.call.alignment == 16 ? 16 : 4;
  shape.gate = wants_gate(args.epilogue);

  const int lead = masked ? 1 : 0;
  const Tensor a = read_fp8(args.a, "a", 2 + lead, args.a_type, "a_type", place);
  const Tensor b = read_fp8(args.b, "b", 3, args.b_type, "b_type", place);
  const std::int64_t experts = b.shape[0], n = b.shape[1], k = b.shape[2], rows_of_a = a.shape[lead];
  if (experts > q::kMaxExperts) refuse_extent("b", 0, experts, "0 to 1024 experts");
  expect_countable(a, "a", lead, lead + 1);
  expect_countable(b, "b", 1, 2);
  if (masked) expect_extent(a, "a", 0, experts);
  expect_extent(a, "a", lead + 1, k);
  expect_unit_stride(a, "a", lead + 1);
  expect_unit_stride(b, "b", 2);
  expect_copies(a, "a", lead + 1, shape.copy_bytes);
  expect_copies(b, "b", 2, shape.copy_bytes);
  if (shape.gate && n % 2 != 0) refuse_extent("b", 1, n, "an even number, with QUERN_EPILOGUE_GATE");
  const std::int64_t columns = shape.gate ? n / 2 : n;
  const Tensor out =
      read(args.out, "out", 2 + lead, {Dtype::bf16, Dtype::f16, Dtype::f32, Dtype::e4m3, Dtype::e5m2}, place);
  const std::int64_t rows = out.shape[lead];
  if (masked) expect_extent(out, "out", 0, experts);
  if (args.indices == nullptr) expect_extent(out, "out", lead, rows_of_a);
  expect_extent(out, "out", lead + 1, columns);
  if (masked) {
    p.counts = ints(read_ints(args.counts, "counts", experts, place));
  } else {
    p.offsets = ints(read_ints(args.offsets, "offsets", experts + 1, place));
    if (args.indices != nullptr) p.indices = ints(read_ints(args.indices, "indices", rows, place));
  }
  if (args.status != nullptr)
    p.status = reinterpret_cast<std::int32_t*>(read_ints(args.status, "status", 1, place).data);

  if (args.reserved != 0) refuse_value("reserved", std::int64_t{args.reserved}, "0");
  if (args.expected_rows < 0) refuse_value("expected_rows", std::int64_t{args.expected_rows}, "0 and more");
  problem.expected_rows = args.expected_rows;

  shape.a = a.dtype, shape.b = b.dtype;
  p.a = a.data, p.b = b.data;
  p.m = static_cast<std::int32_t>(rows), p.n = static_cast<std::int32_t>(n), p.k = static_cast<std::int32_t>(k);
  p.groups = static_cast<std::int32_t>(experts);
  p.a_rows = static_cast<std::int32_t>(rows_of_a);
  p.out_rows = static_cast<std::int32_t>(rows);
  p.a_group = masked ? stride_of(a, 0) : 0;
  p.b_group = stride_of(b, 0);
  p.a_row = stride_of(a, lead), p.b_row = stride_of(b, 1);
  p.a_k = p.b_k = 1;
  read_scales(args.scale_a, args.scale_b, {experts, masked, true, rows_of_a}, problem);
  read_epilogue(args.epilogue, out, {experts, rows, columns, masked, !masked}, problem);
  return problem;
}

}  // namespace quern::ops::gemm

namespace quern::ops::grouped_fp8_gemm {

const Op op{"grouped_fp8_gemm", unit, parse, list, constants};

std::uint64_t workspace(const Runtime& runtime, const quern_grouped_fp8_gemm_args& args) {
  return gemm::workspace_bytes(runtime, gemm::read_problem(args, runtime, true));
}

void prepare(const Runtime& runtime, const quern_grouped_fp8_gemm_args& args) {
  gemm::prepare_kernels(runtime, gemm::read_problem(args, runtime, true));
}

void run(const Runtime& runtime, const quern_grouped_fp8_gemm_args& args) {
  Problem problem = gemm::read_problem(args, runtime, false);
  // Bad offsets, counts and indices are reported in the caller's status, on `host` too; without one they are checked
  // here.
  if (args.status == nullptr) check_indices(runtime, args, [&](IndexList& list) { list_groups(problem, &list); });
  gemm::launch_product(runtime, problem, args.workspace, args.workspace_size);
}

}  // namespace quern::ops::grouped_fp8_gemm
