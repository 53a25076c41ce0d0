// The mla_append op: new tokens into a latent cache.
// SPDX-License-Identifier: Apache-2.0
#include "sources/launch.h"

#include <algorithm>

#include "sources/index_data.h"
#include "sources/kv_append/index_check.h"
#include "sources/mla_append/read.h"
#include "sources/ops.h"

namespace quern::ops::mla_append {
namespace {

jit::Unit unit(const jit::Spec& spec) { return to_unit(to_shape(spec), jit::Target::from_tag(spec.target)); }
jit::Spec parse(const Constants& constants, const jit::TargetInfo& target) {
  return to_spec(from_constants(constants), target.target);
}
Constants constants(const jit::Spec& spec) { return to_constants(to_shape(spec)); }

// With the queries turned in the same launch, and without them; the norm's weight has the model's dtype.
void list(const quern_model& model, const jit::TargetInfo& target, std::vector<jit::Spec>* specs) {
  if ((model.flags & QUERN_MODEL_MLA) == 0) return;
  Shape shape;
  shape.element = model.dtype.bits == 0 ? Dtype::bf16 : dtype_of(model.dtype);
  if (shape.element != Dtype::f16 && shape.element != Dtype::bf16) return;
  const auto whole = [](std::uint32_t dim, int most) {
    return dim <= static_cast<std::uint32_t>(most) && dim % 16 == 0;
  };
  if (!whole(model.kv_lora_rank, kMostLatent) || model.kv_lora_rank == 0 || !whole(model.rope_head_dim, kMostRope))
    return;
  shape.d_latent = static_cast<int>(model.kv_lora_rank);
  shape.d_rope = static_cast<int>(model.rope_head_dim);
  shape.weight = shape.element;
  const bool turns = (model.flags & QUERN_MODEL_NO_ROPE) == 0 && shape.d_rope != 0;
  shape.rotary = turns ? shape.d_rope : 0;
  shape.interleaved = turns && (model.flags & QUERN_MODEL_ROPE_INTERLEAVED) != 0;
  std::vector<q::CacheKind> kinds = {q::CacheKind::plain};
  const Dtype cache = model.kv_dtype.bits == 0 ? shape.element : dtype_of(model.kv_dtype);
  const bool chosen = model.index_top_k != 0, of_656 = shape.d_latent == 512 && shape.d_rope == 64;
  if (cache == Dtype::e4m3) {
    kinds = {q::CacheKind::e4m3_tensor, q::CacheKind::e4m3_token};
    if (chosen && of_656) kinds.push_back(q::CacheKind::rows656);
  } else if (cache == Dtype::u8) {
    if (!of_656) return;
    kinds = {q::CacheKind::rows656};
  } else if (cache != shape.element) {
    return;
  }
  for (const q::CacheKind kind : kinds) {
    shape.kind = kind;
    for (const bool queries : {false, true}) {
      if (queries && !turns) continue;
      shape.queries = queries;
      specs->push_back(to_spec(shape, target.target));
    }
  }
  // The keys of an indexer: as they come, in e4m3 with a scale a token.
  if (!chosen || model.index_head_dim % 16 != 0 || model.index_head_dim > kMostLatent) return;
  Shape keys;
  keys.element = shape.element, keys.kind = q::CacheKind::e4m3_token;
  keys.d_latent = static_cast<int>(model.index_head_dim), keys.d_rope = 0;
  specs->push_back(to_spec(keys, target.target));
}

}  // namespace

const Op op{"mla_append", unit, parse, list, constants};

std::uint64_t workspace(const Runtime& runtime, const quern_mla_append_args& args) {
  read_problem(args, runtime, true);
  return 0;
}

void prepare(const Runtime& runtime, const quern_mla_append_args& args) {
  const Problem problem = read_problem(args, runtime, true);
  kernel_for(runtime, to_spec(problem.shape, runtime.driver->device().limits.target), args.flags, args.stream);
}

void run(const Runtime& runtime, const quern_mla_append_args& args) {
  Problem problem = read_problem(args, runtime, false);
  q::MlaAppendParams& p = problem.params;
  const jit::DeviceInfo& device = runtime.driver->device();
  const jit::Kernel* kernel =
      kernel_for(runtime, to_spec(problem.shape, device.limits.target), args.flags, args.stream);
  if (p.tokens == 0) return;
  check_indices(runtime, args, [&](IndexList& list) {
    kv_append::list_places(p.places, p.rope, p.tokens, kv_append::kMlaBounds, &list);
  });
  constexpr std::int64_t kTokens = kThreads / q::kAppendTeam;  // that a block takes at a time
  const std::int64_t head_teams = kThreads / problem.shape.rope_lanes();
  const std::int64_t strips = p.queries.heads > 0 ? std::int64_t{p.tokens} * p.strips.value : 0;
  std::int64_t keys = (p.tokens + kTokens - 1) / kTokens, queries = (strips + head_teams - 1) / head_teams;
  // Half of what is resident at once goes round the tokens; queries, of which there are more, come and go.
  keys = std::min(keys, queries > 0 ? std::max<std::int64_t>(problem.most_blocks / 2, 1) : problem.most_blocks);
  if (args.max_sms > 0) queries = std::min(queries, std::max<std::int64_t>(problem.most_blocks - keys, 1));
  p.latent_blocks = static_cast<std::int32_t>(keys);
  jit::Launch launch;
  launch.grid[0] = static_cast<std::uint32_t>(keys + queries);
  launch.block[0] = kThreads;
  launch.programmatic = (args.flags & QUERN_CALL_PROGRAMMATIC) != 0;
  launch.stream = args.stream;
  ops::launch(runtime, *kernel, launch, "launching mla_append", p);
}

}  // namespace quern::ops::mla_append
