// The rope op: turns queries and keys by their positions.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string>

#include "jit/error.h"
#include "sources/call.h"
#include "sources/common_headers.h"
#include "sources/description.h"
#include "sources/divisor.h"
#include "sources/embedded.h"
#include "sources/index_data.h"
#include "sources/launch.h"
#include "sources/ops.h"
#include "sources/rope/heads.h"
#include "sources/rope/options.h"
#include "sources/tensor.h"

namespace quern::ops::rope {
namespace {

constexpr int kThreads = 256;
constexpr int kBlocksPerSm = 3;
constexpr int kMostDim = 1024;

struct Shape : RopeShape {
  Dtype x = Dtype::bf16;
  int dim = 0;
  int width = 0;  // elements of a vector; 0 in a manifest: the widest
};

constexpr auto kConstants =
    describe<Shape>(tag_rope, "rope", choice<&Shape::x>("dtype", "X_ELEMENT", kFloatDtypes),
                    number<&Shape::dim>("dim", "DIM_K", {8, kMostDim, 8}),
                    number<&Shape::rotary>("rotary_dim", "ROTARY", {2, 2 * q::kMostPairs, 2}).optional(),
                    flag<&Shape::interleaved>("interleaved", "INTERLEAVED").optional(),
                    choice<&Shape::table>("table", nullptr, kTableDtypes).optional(),
                    number<&Shape::width>("width", "WIDTH", {1, 16}).optional());

Constants constants(const jit::Spec& spec) { return kConstants.to_constants(kConstants.to_shape(spec)); }

jit::Spec parse(const Constants& given, const jit::TargetInfo& target) {
  Shape shape = kConstants.read(given);
  const int most = std::min(shape.dim, 2 * q::kMostPairs);
  if (shape.rotary == 0) shape.rotary = most;
  if (shape.rotary > most) {
    throw Error(QUERN_INVALID, "rope: rotary_dim is " + std::to_string(shape.rotary) + "; allowed: 2 to " +
                                   std::to_string(most) + ", in steps of 2");
  }
  take_width("rope", vector_width(shape, shape.dim, shape.dim, shape.x, 16), &shape.width);
  return kConstants.to_spec(shape, target.target);
}

jit::Unit unit(const jit::Spec& spec) {
  const Shape shape = kConstants.to_shape(spec);
  jit::Unit unit;
  unit.op = "rope";
  unit.target = jit::Target::from_tag(spec.target);
  unit.entry = "quern_rope";
  kConstants.define(shape, &unit);
  define_table(shape, &unit);
  for (const auto& [name, value] : {std::pair{"DIM_V", shape.dim},
                                    {"LANES", team_lanes(shape, shape.dim, shape.dim, shape.width)},
                                    {"THREADS", kThreads},
                                    {"BLOCKS_PER_SM", kBlocksPerSm}}) {
    unit.constants.push_back({name, std::to_string(value)});
  }
  unit.source = embedded("rope/rope.cuh");
  unit.headers = device_headers(unit.target);
  return unit;
}

void list(const quern_model& model, const jit::TargetInfo& target, std::vector<jit::Spec>* specs) {
  const Dtype element = model.dtype.bits == 0 ? Dtype::bf16 : dtype_of(model.dtype);
  if (element != Dtype::f16 && element != Dtype::bf16 && element != Dtype::f32) return;
  const bool latent = (model.flags & QUERN_MODEL_MLA) != 0;
  // Latent attention turns the part of its heads that stands apart.
  const std::uint32_t dim = latent ? model.rope_head_dim : model.head_dim;
  const std::uint32_t rotary = model.rotary_dim != 0 && !latent ? model.rotary_dim : dim;
  if ((model.flags & QUERN_MODEL_NO_ROPE) != 0 || dim < 8 || dim > kMostDim || dim % 8 != 0) return;
  if (rotary < 2 || rotary > std::min<std::uint32_t>(dim, 2 * q::kMostPairs) || rotary % 2 != 0) return;
  Shape shape;
  shape.x = element;
  shape.dim = static_cast<int>(dim);
  shape.rotary = static_cast<int>(rotary);
  shape.interleaved = (model.flags & QUERN_MODEL_ROPE_INTERLEAVED) != 0;
  shape.width = vector_width(shape, shape.dim, shape.dim, element, 16);
  specs->push_back(kConstants.to_spec(shape, target.target));
}

struct Problem {
  Shape shape;
  q::RopeParams params;
  std::int64_t most_blocks;
};

Problem read_problem(const quern_rope_args& args, const Runtime& runtime, bool may_lack_data) {
  const Call call = read_call(runtime, args, 0, "enum quern_call_flags", 4, may_lack_data);
  const Tensor q = read(args.q, "q", 3, {Dtype::f16, Dtype::bf16, Dtype::f32}, call.place);
  const std::int64_t tokens = q.shape[0], dim = q.shape[2];
  if (dim < 8 || dim > kMostDim || dim % 8 != 0) refuse_extent("q", 2, dim, "multiples of 8 from 8 to 1024");
  Problem problem{};
  problem.shape.x = q.dtype;
  problem.shape.dim = static_cast<int>(dim);
  q::RopeParams& p = problem.params;
  p.heads[0] = read_heads(args.q, "q", args.q_out, "q_out", q.dtype, call, tokens, dim);
  if (args.k != nullptr) {
    p.heads[1] = read_heads(args.k, "k", args.k_out, "k_out", q.dtype, call, tokens, dim);
  } else if (args.k_out != nullptr) {
    throw Error(QUERN_INVALID, "k_out is given; it must be NULL without k");
  }
  const Tensor positions = read_indices(args.positions, "positions", call.place);
  expect_extent(positions, "positions", 0, tokens);
  p.positions = {positions.data, positions.strides[0], positions.dtype == Dtype::i64};
  static_cast<RopeShape&>(problem.shape) = read_options(args.rope, problem.shape.dim, call.place, &p.rope);
  problem.shape.width = vector_width(problem.shape, problem.shape.dim, problem.shape.dim, q.dtype, call.alignment);
  const int lanes = team_lanes(problem.shape, problem.shape.dim, problem.shape.dim, problem.shape.width);
  const std::int64_t heads = p.heads[0].heads + p.heads[1].heads;
  if (tokens * heads > INT32_MAX)
    refuse_extent("q", 0, tokens, "less than 2^31 heads of tokens in all: split the call");
  for (q::RopeHeads& one : p.heads)
    one.strips = strips_of(one.heads, heads, tokens, std::int64_t{call.sms} * kBlocksPerSm * kThreads / lanes);
  p.strips = divisor(std::max(p.heads[0].strips + p.heads[1].strips, 1));
  p.tokens = heads == 0 ? 0 : static_cast<std::int32_t>(tokens);
  problem.most_blocks = args.max_sms > 0 ? std::int64_t{call.sms} * kBlocksPerSm : INT32_MAX;
  return problem;
}

// Of a table, whose rows positions choose; what is computed has no end.
}  // namespace

const Op op{"rope", unit, parse, list, constants};

std::uint64_t workspace(const Runtime& runtime, const quern_rope_args& args) {
  read_problem(args, runtime, true);
  return 0;
}

void prepare(const Runtime& runtime, const quern_rope_args& args) {
  const Problem problem = read_problem(args, runtime, true);
  kernel_for(runtime, kConstants.to_spec(problem.shape, runtime.driver->device().limits.target), args.flags,
             args.stream);
}

void run(const Runtime& runtime, const quern_rope_args& args) {
  Problem problem = read_problem(args, runtime, false);
  const jit::Kernel* kernel = kernel_for(
      runtime, kConstants.to_spec(problem.shape, runtime.driver->device().limits.target), args.flags, args.stream);
  if (problem.params.tokens == 0) return;
  check_indices(runtime, args, [&](IndexList& list) {
    const q::RopeParams& p = problem.params;
    if (p.rope.table != nullptr) list_positions(p.positions, p.tokens, p.rope, &list);
  });
  const Shape& shape = problem.shape;
  const std::int64_t teams = kThreads / team_lanes(shape, shape.dim, shape.dim, shape.width);
  const std::int64_t items = std::int64_t{problem.params.tokens} * problem.params.strips.value;
  jit::Launch launch;
  launch.grid[0] =
      static_cast<std::uint32_t>(std::clamp<std::int64_t>((items + teams - 1) / teams, 1, problem.most_blocks));
  launch.block[0] = kThreads;
  launch.programmatic = (args.flags & QUERN_CALL_PROGRAMMATIC) != 0;
  launch.stream = args.stream;
  ops::launch(runtime, *kernel, launch, "launching rope", problem.params);
}

}  // namespace quern::ops::rope
