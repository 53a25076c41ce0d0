// The moe_combine op: adds up what each token's experts made of it.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include "sources/call.h"
#include "sources/common_headers.h"
#include "sources/description.h"
#include "sources/embedded.h"
#include "sources/index_data.h"
#include "sources/launch.h"
#include "sources/moe_combine/params.cuh"
#include "sources/ops.h"
#include "sources/tensor.h"

namespace quern::ops::moe_combine {
namespace {

constexpr int kWarps = 8;
constexpr int kBlocksPerSm = 3;                               // resident at once
constexpr std::int64_t kColumns = 512;                        // of a warp's slice, at a warp of 32
constexpr std::int64_t kMostColumns = std::int64_t{1} << 30;  // the kernel counts columns in 32 bits

struct Shape {
  Dtype x = Dtype::bf16;
  Dtype out = Dtype::other;  // of a manifest line that does not say: as x
  int alignment = 16;        // bytes: 16 or 4
};

constexpr Names<int, 2> kAlignments = {{{"16", 16}, {"4", 4}}};
constexpr auto kConstants =
    describe<Shape>(tag_moe_combine, "moe_combine", choice<&Shape::x>("dtype", "X_ELEMENT", kFloatDtypes),
                    choice<&Shape::out>("out", "OUT_ELEMENT", kFloatDtypes).optional(),
                    choice<&Shape::alignment>("alignment", "ALIGNMENT", kAlignments).optional());

Constants constants(const jit::Spec& spec) { return kConstants.to_constants(kConstants.to_shape(spec)); }

jit::Spec parse(const Constants& given, const jit::TargetInfo& target) {
  Shape shape = kConstants.read(given);
  if (shape.out == Dtype::other) shape.out = shape.x;
  return kConstants.to_spec(shape, target.target);
}

jit::Unit unit(const jit::Spec& spec) {
  jit::Unit unit;
  unit.op = "moe_combine";
  unit.target = jit::Target::from_tag(spec.target);
  unit.entry = "quern_moe_combine";
  kConstants.define(kConstants.to_shape(spec), &unit);
  unit.constants.push_back({"THREADS", std::to_string(kWarps * jit::limits_of(unit.target).warp_size)});
  unit.source = embedded("moe_combine/moe_combine.cuh");
  unit.headers = device_headers(unit.target);
  return unit;
}

void list(const quern_model& model, const jit::TargetInfo& target, std::vector<jit::Spec>* specs) {
  const Dtype element = model.dtype.bits == 0 ? Dtype::bf16 : dtype_of(model.dtype);
  if (model.experts == 0 || (element != Dtype::f16 && element != Dtype::bf16 && element != Dtype::f32)) return;
  specs->push_back(kConstants.to_spec({element, element, 16}, target.target));
}

struct Problem {
  Shape shape;
  q::MoeCombineParams params;
  std::int64_t most_blocks;
};

Problem read_problem(const quern_moe_combine_args& args, const Runtime& runtime, bool may_lack_data) {
  const Call call = read_call(runtime, args, 0, "enum quern_call_flags", 4, may_lack_data);
  const Tensor x = read(args.x, "x", 2, {Dtype::f16, Dtype::bf16, Dtype::f32}, call.place);
  const Tensor positions = read(args.positions, "positions", 2, {Dtype::i32}, call.place);
  const Tensor out = read(args.out, "out", 2, {Dtype::f16, Dtype::bf16, Dtype::f32}, call.place);
  const std::int64_t tokens = out.shape[0], n = out.shape[1], top_k = positions.shape[1];
  if (n > kMostColumns) refuse_extent("out", 1, n, "0 to 2^30");
  expect_extent(x, "x", 1, n);
  expect_extent(positions, "positions", 0, tokens);
  expect_unit_stride(positions, "positions", 1);
  for (const auto& [tensor, name] : {std::pair{&x, "x"}, std::pair{&out, "out"}}) {
    expect_unit_stride(*tensor, name, 1);
    expect_aligned(*tensor, name, call.alignment);
  }
  expect_apart(out, "out");

  Problem problem{{x.dtype, out.dtype, call.alignment == 16 ? 16 : 4},
                  {},
                  // A block a slice evens out best; where SMs are to be left free, as many as fill the others.
                  args.max_sms > 0 ? std::int64_t{call.sms} * kBlocksPerSm : INT32_MAX};
  q::MoeCombineParams& p = problem.params;
  if (args.weights != nullptr) {
    const Tensor weights = read(args.weights, "weights", 2, {Dtype::f32}, call.place);
    expect_extent(weights, "weights", 0, tokens);
    expect_extent(weights, "weights", 1, top_k);
    expect_unit_stride(weights, "weights", 1);
    p.weights = reinterpret_cast<const float*>(weights.data);
    p.weights_stride = weights.strides[0];
  }
  if (args.add != nullptr) {
    const Tensor add = read(args.add, "add", 2, {out.dtype}, call.place);
    expect_extent(add, "add", 0, tokens);
    expect_extent(add, "add", 1, n);
    expect_unit_stride(add, "add", 1);
    expect_aligned(add, "add", call.alignment);
    if (add.data != nullptr && add.data == out.data && tokens > 1 && add.strides[0] != out.strides[0]) {
      refuse_stride("add", 0, add.strides[0], "that of out, which add is");
    }
    p.add = add.data;
    p.add_stride = add.strides[0];
  }
  p.x = x.data, p.x_stride = x.strides[0];
  p.positions = reinterpret_cast<const std::int32_t*>(positions.data), p.positions_stride = positions.strides[0];
  p.out = out.data, p.out_stride = out.strides[0];
  p.rows = static_cast<std::int32_t>(x.shape[0]);
  p.tokens = static_cast<std::int32_t>(tokens);
  p.top_k = static_cast<std::int32_t>(top_k);
  p.n = static_cast<std::int32_t>(n);
  return problem;
}

}  // namespace

const Op op{"moe_combine", unit, parse, list, constants};

std::uint64_t workspace(const Runtime& runtime, const quern_moe_combine_args& args) {
  read_problem(args, runtime, true);
  return 0;
}

void prepare(const Runtime& runtime, const quern_moe_combine_args& args) {
  const Problem problem = read_problem(args, runtime, true);
  kernel_for(runtime, kConstants.to_spec(problem.shape, runtime.driver->device().limits.target), args.flags,
             args.stream);
}

void run(const Runtime& runtime, const quern_moe_combine_args& args) {
  const Problem problem = read_problem(args, runtime, false);
  const jit::TargetInfo& limits = runtime.driver->device().limits;
  const jit::Kernel* kernel =
      kernel_for(runtime, kConstants.to_spec(problem.shape, limits.target), args.flags, args.stream);
  q::MoeCombineParams p = problem.params;
  if (p.tokens == 0 || p.n == 0) return;
  check_indices(runtime, args, [&](IndexList& list) {
    list.rows_in_range("positions", p.positions, p.tokens, p.top_k, p.positions_stride, -1, std::int64_t{p.rows} - 1,
                       "token", "the rows of x, -1 for none");
  });
  const std::int64_t columns = kColumns * limits.warp_size / 32;
  const std::int64_t slices = p.tokens * ((p.n + columns - 1) / columns);
  jit::Launch launch;
  launch.grid[0] = static_cast<std::uint32_t>(std::min((slices + kWarps - 1) / kWarps, problem.most_blocks));
  launch.block[0] = kWarps * limits.warp_size;
  launch.programmatic = (args.flags & QUERN_CALL_PROGRAMMATIC) != 0;
  launch.stream = args.stream;
  ops::launch(runtime, *kernel, launch, "launching moe_combine", p);
}

}  // namespace quern::ops::moe_combine
