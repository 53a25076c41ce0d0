// The kv_append op: new tokens' keys and values into a paged cache, with the norms, rope and quantisation in front of
// it.
// SPDX-License-Identifier: Apache-2.0
#include "sources/launch.h"

#include <algorithm>

#include "sources/index_data.h"
#include "sources/kv_append/index_check.h"
#include "sources/kv_append/read.h"
#include "sources/ops.h"

namespace quern::ops::kv_append {
namespace {

jit::Unit unit(const jit::Spec& spec) { return to_unit(to_shape(spec), jit::Target::from_tag(spec.target)); }
jit::Spec parse(const Constants& constants, const jit::TargetInfo& target) {
  return to_spec(from_constants(constants), target.target);
}
Constants constants(const jit::Spec& spec) { return to_constants(to_shape(spec)); }

// With the queries turned in the same launch, and without them; the norms' weights have the model's dtype. Where rope's
// frequencies follow from no formula, as in GGUF files that have a divisor for each, engines turn by a table. Latent
// attention keeps its own cache.
void list(const quern_model& model, const jit::TargetInfo& target, std::vector<jit::Spec>* specs) {
  Shape shape;
  shape.x = model.dtype.bits == 0 ? Dtype::bf16 : dtype_of(model.dtype);
  shape.cache = model.kv_dtype.bits == 0 ? shape.x : dtype_of(model.kv_dtype);
  const auto whole = [](std::uint32_t dim) { return dim >= 8 && dim <= kMostDim && dim % 8 == 0; };
  const std::uint32_t dim_v = model.v_head_dim != 0 ? model.v_head_dim : model.head_dim;
  if ((model.flags & QUERN_MODEL_MLA) != 0 || !whole(model.head_dim) || !whole(dim_v)) return;
  if (shape.x != Dtype::f16 && shape.x != Dtype::bf16 && shape.x != Dtype::f32) return;
  const bool codes = shape.cache == Dtype::e4m3 || shape.cache == Dtype::e5m2 || shape.cache == Dtype::i8;
  if (!codes && shape.cache != shape.x) return;
  shape.dim_k = static_cast<int>(model.head_dim);
  shape.dim_v = static_cast<int>(dim_v);
  shape.find_cache_scale = codes && (model.flags & QUERN_MODEL_KV_TOKEN_SCALES) != 0;
  if ((model.flags & QUERN_MODEL_QK_NORM) != 0) shape.weight = shape.x;
  if ((model.flags & QUERN_MODEL_NO_ROPE) == 0) {
    const std::uint32_t rotary = model.rotary_dim != 0 ? model.rotary_dim : model.head_dim;
    if (rotary < 2 || rotary > std::min<std::uint32_t>(model.head_dim, 2 * q::kMostPairs) || rotary % 2 != 0) return;
    shape.rotary = static_cast<int>(rotary);
    shape.interleaved = (model.flags & QUERN_MODEL_ROPE_INTERLEAVED) != 0;
  }
  shape.width = rope::vector_width(shape, shape.dim_k, shape.dim_v, shape.x, 16);
  const auto add = [&](Dtype q_out) {
    shape.q_out = q_out;
    shape.find_q_scale = q_out == Dtype::e4m3;
    specs->push_back(to_spec(shape, target.target));
  };
  std::vector<Dtype> queries = {shape.x};
  if ((model.flags & QUERN_MODEL_FP8_QUERIES) != 0 && shape.cache == Dtype::e4m3) queries.push_back(Dtype::e4m3);
  add(Dtype::other);
  for (const Dtype q_out : queries) add(q_out);
  if (shape.rotary == 0) return;
  shape.table = Dtype::f32;
  shape.width = rope::vector_width(shape, shape.dim_k, shape.dim_v, shape.x, 16);
  for (const Dtype q_out : queries) add(q_out);
}

}  // namespace

const Op op{"kv_append", unit, parse, list, constants};

std::uint64_t workspace(const Runtime& runtime, const quern_kv_append_args& args) {
  read_problem(args, runtime, true);
  return 0;
}

void prepare(const Runtime& runtime, const quern_kv_append_args& args) {
  const Problem problem = read_problem(args, runtime, true);
  kernel_for(runtime, to_spec(problem.shape, runtime.driver->device().limits.target), args.flags, args.stream);
}

void run(const Runtime& runtime, const quern_kv_append_args& args) {
  Problem problem = read_problem(args, runtime, false);
  const jit::Kernel* kernel =
      kernel_for(runtime, to_spec(problem.shape, runtime.driver->device().limits.target), args.flags, args.stream);
  if (problem.params.tokens == 0) return;
  check_indices(runtime, args, [&](IndexList& list) {
    list_places(problem.params.places, problem.params.rope, problem.tokens, kKvBounds, &list);
  });
  const std::int64_t teams = kThreads / problem.shape.lanes();
  const std::int64_t items = std::int64_t{problem.params.tokens} * problem.params.strips.value;
  jit::Launch launch;
  launch.grid[0] =
      static_cast<std::uint32_t>(std::clamp<std::int64_t>((items + teams - 1) / teams, 1, problem.most_blocks));
  launch.block[0] = kThreads;
  launch.programmatic = (args.flags & QUERN_CALL_PROGRAMMATIC) != 0;
  launch.stream = args.stream;
  problem.params.rehearses = may_rehearse(launch, runtime.driver->device().sm_count);
  ops::launch(runtime, *kernel, launch, "launching kv_append", problem.params);
}

}  // namespace quern::ops::kv_append
