// The rope op: turns queries and keys by their positions.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string>

#include "jit/error.h"
#include "sources/call.h"
#include "sources/common_headers.h"
#include "sources/constants.h"
#include "sources/divisor.h"
#include "sources/embedded.h"
#include "sources/launch.h"
#include "sources/ops.h"
#include "sources/rope/launch_params.cuh"
#include "sources/rope/options.h"
#include "sources/tensor.h"

namespace quern::ops::rope {
namespace {

constexpr int kThreads = 256;
constexpr int kBlocksPerSm = 3;
constexpr int kMostDim = 1024;

struct Shape {
  Dtype x;
  RopeShape rope;
  int dim;
  int width;
};

jit::Spec to_spec(const Shape& shape, jit::Target target) {
  jit::Spec spec;
  spec.op = tag_rope;
  spec.target = target.tag();
  spec.words[0] = static_cast<std::uint32_t>(shape.x) | static_cast<std::uint32_t>(shape.rope.table) << 8 |
                  static_cast<std::uint32_t>(shape.rope.interleaved) << 16;
  spec.words[1] = static_cast<std::uint32_t>(shape.dim) | static_cast<std::uint32_t>(shape.rope.rotary) << 16;
  spec.words[2] = static_cast<std::uint32_t>(shape.width);
  return spec;
}
Shape to_shape(const jit::Spec& spec) {
  return {static_cast<Dtype>(spec.words[0] & 0xff),
          {static_cast<int>(spec.words[1] >> 16), (spec.words[0] >> 16 & 1) != 0,
           static_cast<Dtype>(spec.words[0] >> 8 & 0xff)},
          static_cast<int>(spec.words[1] & 0xffff),
          static_cast<int>(spec.words[2])};
}

const char* table_name(Dtype table) { return table == Dtype::other ? "none" : name_of(table); }

Constants constants(const jit::Spec& spec) {
  const Shape shape = to_shape(spec);
  return {{"dtype", name_of(shape.x)},
          {"dim", std::to_string(shape.dim)},
          {"rotary_dim", std::to_string(shape.rope.rotary)},
          {"interleaved", std::to_string(shape.rope.interleaved)},
          {"table", table_name(shape.rope.table)},
          {"width", std::to_string(shape.width)}};
}

jit::Spec parse(const Constants& given, const jit::TargetInfo& target) {
  constexpr Dtype kDtypes[] = {Dtype::f16, Dtype::bf16, Dtype::f32, Dtype::other};
  ConstantReader reader("rope", given);
  Shape shape{};
  shape.x = kDtypes[reader.one_of("dtype", {"f16", "bf16", "f32"})];
  shape.dim = static_cast<int>(reader.integer("dim", 8, kMostDim, 8));
  shape.rope.rotary = static_cast<int>(reader.integer("rotary_dim", 2, std::min(shape.dim, 2 * q::kMostPairs), 2,
                                                      std::min(shape.dim, 2 * q::kMostPairs)));
  shape.rope.interleaved = reader.integer("interleaved", 0, 1, 1, 0) != 0;
  shape.rope.table = kDtypes[reader.one_of("table", {"f16", "bf16", "f32", "none"}, 3)];
  const int widest = vector_width(shape.rope, shape.dim, shape.dim, shape.x, 16);
  shape.width = static_cast<int>(reader.integer("width", 1, widest, 1, widest));
  if (widest % shape.width != 0) {
    throw Error(QUERN_INVALID, "rope: width is " + std::to_string(shape.width) + "; allowed: powers of two up to " +
                                   std::to_string(widest));
  }
  reader.finish();
  return to_spec(shape, target.target);
}

jit::Unit unit(const jit::Spec& spec) {
  const Shape shape = to_shape(spec);
  jit::Unit unit;
  unit.op = "rope";
  unit.target = jit::Target::from_tag(spec.target);
  unit.entry = "quern_rope";
  const bool table = shape.rope.table != Dtype::other;
  unit.constants = {{"X_ELEMENT", name_of(shape.x)},
                    {"DIM_K", std::to_string(shape.dim)},
                    {"DIM_V", std::to_string(shape.dim)},
                    {"ROTARY", std::to_string(shape.rope.rotary)},
                    {"INTERLEAVED", std::to_string(shape.rope.interleaved)},
                    {"HAS_TABLE", std::to_string(table)},
                    {"TABLE_ELEMENT", table ? name_of(shape.rope.table) : "f32"},
                    {"WIDTH", std::to_string(shape.width)},
                    {"LANES", std::to_string(team_lanes(shape.rope, shape.dim, shape.dim, shape.width))},
                    {"THREADS", std::to_string(kThreads)},
                    {"BLOCKS_PER_SM", std::to_string(kBlocksPerSm)}};
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
  Shape shape{element,
              {static_cast<int>(rotary), (model.flags & QUERN_MODEL_ROPE_INTERLEAVED) != 0, Dtype::other},
              static_cast<int>(dim),
              0};
  shape.width = vector_width(shape.rope, shape.dim, shape.dim, element, 16);
  specs->push_back(to_spec(shape, target.target));
}

struct Problem {
  Shape shape;
  q::RopeParams params;
  std::int64_t most_blocks;
};

q::RopeHeads read_heads(const DLTensor* from, const char* from_name, const DLTensor* to, const char* to_name,
                        Dtype dtype, const Call& call, std::int64_t tokens, std::int64_t dim) {
  const Tensor x = read(from, from_name, 3, {dtype}, call.place);
  const Tensor out = to != nullptr ? read(to, to_name, 3, {dtype}, call.place) : x;
  const char* out_name = to != nullptr ? to_name : from_name;
  expect_extent(x, from_name, 0, tokens);
  expect_extent(x, from_name, 2, dim);
  for (int d = 0; d < 3; ++d) expect_extent(out, out_name, d, x.shape[d]);
  for (const auto& [tensor, name] : {std::pair{&x, from_name}, std::pair{&out, out_name}}) {
    expect_unit_stride(*tensor, name, 2);
    expect_aligned(*tensor, name, call.alignment);
  }
  expect_apart(out, out_name);
  if (x.data != nullptr && x.data == out.data && (x.strides[0] != out.strides[0] || x.strides[1] != out.strides[1])) {
    refuse_stride(out_name, 0, out.strides[0], (std::string("those of ") + from_name + ", which it is").c_str());
  }
  return {x.data,
          out.data,
          x.strides[0],
          x.strides[1],
          out.strides[0],
          out.strides[1],
          static_cast<std::int32_t>(x.shape[1]),
          0};
}

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
  problem.shape.rope = read_options(args.rope, problem.shape.dim, call.place, &p.rope);
  problem.shape.width = vector_width(problem.shape.rope, problem.shape.dim, problem.shape.dim, q.dtype, call.alignment);
  const int lanes = team_lanes(problem.shape.rope, problem.shape.dim, problem.shape.dim, problem.shape.width);
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

}  // namespace

const Op op{"rope", unit, parse, list, constants};

std::uint64_t workspace(const Runtime& runtime, const quern_rope_args& args) {
  read_problem(args, runtime, true);
  return 0;
}

void prepare(const Runtime& runtime, const quern_rope_args& args) {
  const Problem problem = read_problem(args, runtime, true);
  kernel_for(runtime, to_spec(problem.shape, runtime.driver->device().limits.target), args.flags, args.stream);
}

void run(const Runtime& runtime, const quern_rope_args& args) {
  Problem problem = read_problem(args, runtime, false);
  const jit::Kernel* kernel =
      kernel_for(runtime, to_spec(problem.shape, runtime.driver->device().limits.target), args.flags, args.stream);
  if (problem.params.tokens == 0) return;
  const Shape& shape = problem.shape;
  const std::int64_t teams = kThreads / team_lanes(shape.rope, shape.dim, shape.dim, shape.width);
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
