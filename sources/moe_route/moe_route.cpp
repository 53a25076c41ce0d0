// The moe_route op: each token's experts, and its choices sorted by expert.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "sources/launch.h"
#include "sources/moe_route/problem.h"
#include "sources/ops.h"
#include "sources/workspace.h"

namespace quern::ops::moe_route {
namespace {

using q::MoeSort;

// A thread block takes at least this many tokens: so many warps can work side by side without slowing each other down.
constexpr std::int64_t kLeastTokens = 4;
// Up to so many tokens the last thread block sorts alone, in less time than a second launch takes.
constexpr std::int64_t kSortedAtOnce = 128;

std::int64_t blocks_for(std::int64_t tokens, std::int64_t sms) {
  return std::clamp<std::int64_t>((tokens + kLeastTokens - 1) / kLeastTokens, 1, sms);
}

// Bytes of what the first kernel leaves for the second.
constexpr std::uint64_t kBeginBytes = q::kMostExperts * 4;
std::uint64_t scratch_bytes(const q::MoeRouteParams& p, std::int64_t sms) {
  if (p.tokens <= kSortedAtOnce) return 0;
  return kBeginBytes + static_cast<std::uint64_t>(blocks_for(p.tokens, sms) * p.pitch) * 4;
}

std::int64_t sms_of(const Runtime& runtime) { return std::max<std::int64_t>(runtime.driver->device().sm_count, 1); }

MoeSort sort_of(const Problem& problem, std::int64_t blocks) {
  if (!problem.sorts) return MoeSort::none;
  if (!problem.places) return MoeSort::counts;
  return blocks == 1 || problem.params.tokens <= kSortedAtOnce ? MoeSort::whole : MoeSort::begun;
}

// Logits come in the model's dtype, or in f32 from a gate that is computed so.
void list(const quern_model& model, const jit::TargetInfo& target, std::vector<jit::Spec>* specs) {
  if (model.experts == 0 || model.experts > q::kMostExperts) return;
  const Dtype element = model.dtype.bits == 0 ? Dtype::bf16 : dtype_of(model.dtype);
  const int capacity = capacity_for(model.experts);
  specs->push_back(to_spec({Stage::route, Dtype::f32, capacity}, target.target));
  if (element == Dtype::f16 || element == Dtype::bf16)
    specs->push_back(to_spec({Stage::route, element, capacity}, target.target));
  specs->push_back(to_spec({Stage::finish}, target.target));
}

}  // namespace

const Op op{"moe_route", to_unit, from_constants, list, to_constants};

std::uint64_t workspace(const Runtime& runtime, const quern_moe_route_args& args) {
  const Problem problem = read_problem(args, runtime, true);
  return problem.sorts ? kCounterBytes + scratch_bytes(problem.params, sms_of(runtime)) : 0;
}

void prepare(const Runtime& runtime, const quern_moe_route_args& args) {
  const Problem problem = read_problem(args, runtime, true);
  const jit::Target target = runtime.driver->device().limits.target;
  kernel_for(runtime, to_spec(problem.shape, target), args.flags, args.stream);
  if (problem.params.tokens > kSortedAtOnce)
    kernel_for(runtime, to_spec({Stage::finish}, target), args.flags, args.stream);
}

void run(const Runtime& runtime, const quern_moe_route_args& args) {
  const Problem problem = read_problem(args, runtime, false);
  const jit::TargetInfo& limits = runtime.driver->device().limits;
  q::MoeRouteParams p = problem.params;
  p.chunk = static_cast<std::int32_t>(std::max<std::int64_t>(
      (p.tokens + blocks_for(p.tokens, problem.sms) - 1) / blocks_for(p.tokens, problem.sms), 1));
  const std::int64_t blocks = std::max<std::int64_t>((std::int64_t{p.tokens} + p.chunk - 1) / p.chunk, 1);
  p.sort = sort_of(problem, blocks);
  if (problem.sorts) {
    const Workspace space =
        read_workspace(args.workspace, args.workspace_size, kCounterBytes + scratch_bytes(p, sms_of(runtime)));
    p.counters = space.counters;
    p.begins = static_cast<std::uint32_t*>(space.scratch);
    p.chunk_counts = p.begins + q::kMostExperts;
  }
  const jit::Kernel* route = kernel_for(runtime, to_spec(problem.shape, limits.target), args.flags, args.stream);
  const Shape finishing{Stage::finish};
  const jit::Kernel* finish = p.sort != MoeSort::begun
                                  ? nullptr
                                  : kernel_for(runtime, to_spec(finishing, limits.target), args.flags, args.stream);
  if (p.tokens == 0 && p.sort == MoeSort::none) return;

  jit::Launch launch;
  launch.grid[0] = static_cast<std::uint32_t>(blocks);
  launch.block[0] = static_cast<std::uint32_t>(threads_of(problem.shape));
  launch.shared_bytes = p.groups > 1 ? group_bytes(problem.shape, limits) : 0;
  launch.programmatic = (args.flags & QUERN_CALL_PROGRAMMATIC) != 0;
  launch.stream = args.stream;
  ops::launch(runtime, *route, launch, "launching moe_route", p);
  if (finish == nullptr) return;
  launch.block[0] = static_cast<std::uint32_t>(threads_of(finishing));
  launch.shared_bytes = 0;
  ops::launch(runtime, *finish, launch, "launching the end of moe_route's sort", p);
}

}  // namespace quern::ops::moe_route
