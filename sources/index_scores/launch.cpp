// The index_scores op: how keys are shared out among blocks of threads, its launch, and what a model needs.
// SPDX-License-Identifier: Apache-2.0
#include "sources/launch.h"

#include <algorithm>

#include "jit/error.h"
#include "sources/divisor.h"
#include "sources/index_data.h"
#include "sources/index_scores/read.h"
#include "sources/ops.h"

namespace quern::ops::index_scores {
namespace {

constexpr std::int64_t kMostChunk = 8192;

// Items of so many keys that each block of threads gets a few of them, and no more.
void share_out(Problem& problem, const Tiling& t, std::int64_t blocks) {
  q::IndexParams& p = problem.params;
  const std::int64_t slots =
      p.cu_q != nullptr ? p.total_q / problem.shape.tokens + std::int64_t{p.batch} : std::int64_t{p.batch};
  const std::int64_t wanted = p.columns * slots / (4 * blocks);
  p.chunk =
      static_cast<std::int32_t>(std::clamp<std::int64_t>((wanted + t.keys - 1) / t.keys * t.keys, t.keys, kMostChunk));
  p.chunks = (p.columns + p.chunk - 1) / p.chunk;
  if (slots * p.chunks > INT32_MAX)
    refuse_extent("out", 0, p.total_q, "so many that tiles of queries times chunks of keys are less than 2^31");
  p.slots = divisor(static_cast<std::int32_t>(std::max<std::int64_t>(slots, 1)));
}

jit::Unit unit(const jit::Spec& spec) { return to_unit(to_shape(spec), jit::Target::from_tag(spec.target)); }
jit::Spec parse(const Constants& constants, const jit::TargetInfo& target) {
  const Shape shape = from_constants(constants);
  tile(shape, target);
  return to_spec(shape, target.target);
}
Constants constants(const jit::Spec& spec) { return to_constants(to_shape(spec)); }

// Decode with one query a sequence and with several, from pages; prefill from rows side by side.
void list(const quern_model& model, const jit::TargetInfo& target, std::vector<jit::Spec>* specs) {
  const std::uint32_t heads = model.index_heads, dim = model.index_head_dim;
  if (heads == 0 || heads > kMostHeads || dim < 16 || dim > kMostDim || dim % 16 != 0 ||
      (heads + 15) / 16 * 16 * dim > kMostNumbers) {
    return;
  }
  for (const bool ragged : {false, true}) {
    for (const std::int64_t queries : {1, 4, 4096}) {
      Shape shape;
      shape.dim = static_cast<int>(dim);
      shape.ragged = ragged;
      choose(shape, heads, queries, target);
      const jit::Spec spec = to_spec(shape, target.target);
      if (std::find(specs->begin(), specs->end(), spec) == specs->end()) specs->push_back(spec);
    }
  }
}

}  // namespace

const Op op{"index_scores", unit, parse, list, constants};

std::uint64_t workspace(const Runtime& runtime, const quern_index_scores_args& args) {
  read_problem(runtime, args, true);
  return 0;
}

void prepare(const Runtime& runtime, const quern_index_scores_args& args) {
  const Problem problem = read_problem(runtime, args, true);
  // A call of fewer queries a sequence may take smaller tiles of them.
  for (const std::int64_t queries : {std::int64_t{1}, std::int64_t{problem.params.max_q_len}}) {
    Shape shape = problem.shape;
    choose(shape, problem.params.heads, queries, problem.call.device->limits);
    kernel_for(runtime, to_spec(shape, problem.call.device->limits.target), args.flags, args.stream);
  }
}

void run(const Runtime& runtime, const quern_index_scores_args& args) {
  Problem problem = read_problem(runtime, args, false);
  q::IndexParams& p = problem.params;
  const jit::DeviceInfo& device = *problem.call.device;
  const Tiling t = tile(problem.shape, device.limits);
  const jit::Kernel* kernel =
      kernel_for(runtime, to_spec(problem.shape, device.limits.target), args.flags, args.stream);
  if (p.total_q == 0 || p.batch == 0 || p.columns == 0) return;
  if (reads_index_data(device)) check_index_data(problem);
  const std::int64_t blocks = std::int64_t{problem.call.sms} * t.blocks_per_sm;
  share_out(problem, t, blocks);
  jit::Launch launch;
  launch.grid[0] = static_cast<std::uint32_t>(std::min(blocks, std::int64_t{p.slots.value} * p.chunks));
  launch.block[0] = static_cast<std::uint32_t>(t.threads);
  launch.shared_bytes = t.shared_bytes;
  launch.programmatic = (args.flags & QUERN_CALL_PROGRAMMATIC) != 0;
  launch.stream = args.stream;
  ops::launch(runtime, *kernel, launch, "launching index_scores", p);
}

}  // namespace quern::ops::index_scores
