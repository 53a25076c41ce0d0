// SPDX-License-Identifier: Apache-2.0
#include "sources/moe_route/problem.h"

#include <cmath>
#include <string>

#include "jit/error.h"

namespace quern::ops::moe_route {
namespace {

// Rows may begin anywhere that their elements may.
Tensor read_rows(const DLTensor* given, const char* name, int rank, std::initializer_list<Dtype> allowed,
                 const Place& place) {
  const Tensor t = read(given, name, rank, allowed, place);
  expect_unit_stride(t, name, rank - 1);
  return t;
}

Tensor read_choices(const DLTensor* given, const char* name, Dtype dtype, std::int64_t tokens, std::int64_t top_k,
                    const Place& place) {
  const Tensor t = read_rows(given, name, 2, {dtype}, place);
  expect_extent(t, name, 0, tokens);
  expect_extent(t, name, 1, top_k);
  expect_apart(t, name);
  return t;
}

std::int32_t* read_list(const DLTensor* given, const char* name, std::int64_t extent, const Place& place) {
  if (given == nullptr) return nullptr;
  const Tensor t = read_rows(given, name, 1, {Dtype::i32}, place);
  expect_extent(t, name, 0, extent);
  return reinterpret_cast<std::int32_t*>(t.data);
}

// The groups and how many choices there are, into *p; also how the lanes of a warp are spread over the groups.
void read_selection(const quern_moe_route_args& args, std::int64_t experts, std::uint32_t warp_size,
                    q::MoeRouteParams* p) {
  const std::int32_t groups = args.groups == 0 ? 1 : args.groups;
  if (groups < 1 || groups > q::kMostGroups || experts % groups != 0) {
    refuse_value("groups", std::int64_t{args.groups}, "0 (1), or 1 to 32 that divide the experts");
  }
  const std::int32_t top_groups = args.top_groups == 0 ? groups : args.top_groups;
  if (top_groups < 1 || top_groups > groups) {
    refuse_value("top_groups", std::int64_t{args.top_groups}, "0 (all groups) or 1 to groups");
  }
  const auto size = static_cast<std::int32_t>(experts / groups);
  if (args.top_k < 1 || args.top_k > q::kMostTopK || args.top_k > top_groups * size) {
    const int most = std::min(q::kMostTopK, top_groups * size);
    refuse_value("top_k", std::int64_t{args.top_k},
                 ("1 to " + std::to_string(most) + ": at most 32, and the experts of top_groups groups").c_str());
  }
  p->top_k = args.top_k;
  p->groups = top_groups == groups ? 1 : groups;
  p->top_groups = top_groups;
  p->group_size = size;
  while (p->groups > 1 && (p->groups << (p->group_shift + 1)) <= static_cast<std::int32_t>(warp_size)) ++p->group_shift;
}

void read_experts_here(const quern_moe_route_args& args, std::int64_t experts, q::MoeRouteParams* p) {
  if (args.first_expert < 0 || args.first_expert >= experts) {
    refuse_value("first_expert", std::int64_t{args.first_expert}, "0 to the experts less 1");
  }
  const std::int64_t rest = experts - args.first_expert;
  if (args.local_experts < 0 || args.local_experts > rest) {
    refuse_value("local_experts", std::int64_t{args.local_experts},
                 "0 (all from first_expert on) to the experts from first_expert on");
  }
  p->first_expert = args.first_expert;
  p->local_experts = args.local_experts == 0 ? static_cast<std::int32_t>(rest) : args.local_experts;
  p->pitch = (p->local_experts + 3) / 4 * 4;
}

}  // namespace

Problem read_problem(const quern_moe_route_args& args, const Runtime& runtime, bool may_lack_data) {
  const Call call = read_call(runtime, args, QUERN_MOE_SIGMOID | QUERN_MOE_RENORMALIZE,
                              "enum quern_call_flags | enum quern_moe_flags", 4, may_lack_data);
  const Tensor logits = read_rows(args.logits, "logits", 2, {Dtype::f32, Dtype::f16, Dtype::bf16}, call.place);
  const std::int64_t tokens = logits.shape[0], experts = logits.shape[1];
  if (experts < 1 || experts > q::kMostExperts) refuse_extent("logits", 1, experts, "1 to 1024 experts");

  Problem problem{{Stage::route, logits.dtype, capacity_for(experts)}, {}, call.sms, false, false};
  q::MoeRouteParams& p = problem.params;
  read_selection(args, experts, call.device->limits.warp_size, &p);
  read_experts_here(args, experts, &p);
  const std::int64_t choices = tokens * p.top_k;
  // The kernels count tokens and rows in 32 bits, a little beyond the last.
  if (choices > std::int64_t{1} << 30) refuse_extent("logits", 0, tokens, "tokens times top_k at most 2^30");
  if (!std::isfinite(args.scale)) refuse_value("scale", double{args.scale}, "0 (1) or any other finite number");

  bool vectors =
      reinterpret_cast<std::uintptr_t>(logits.data) % 16 == 0 && logits.strides[0] * bytes_of(logits.dtype) % 16 == 0;
  if (args.bias != nullptr) {
    const Tensor bias = read_rows(args.bias, "bias", 1, {Dtype::f32}, call.place);
    expect_extent(bias, "bias", 0, experts);
    p.bias = reinterpret_cast<const float*>(bias.data);
    vectors = vectors && reinterpret_cast<std::uintptr_t>(bias.data) % 16 == 0;
  }
  const Tensor weights = read_choices(args.weights, "weights", Dtype::f32, tokens, p.top_k, call.place);
  const Tensor ids = read_choices(args.ids, "ids", Dtype::i32, tokens, p.top_k, call.place);
  p.offsets = read_list(args.offsets, "offsets", p.local_experts + 1, call.place);
  p.indices = read_list(args.indices, "indices", choices, call.place);
  p.counts = read_list(args.counts, "counts", p.local_experts, call.place);
  if (args.positions != nullptr) {
    const Tensor positions = read_choices(args.positions, "positions", Dtype::i32, tokens, p.top_k, call.place);
    p.positions = reinterpret_cast<std::int32_t*>(positions.data), p.positions_stride = positions.strides[0];
  }
  problem.places = args.indices != nullptr || args.positions != nullptr;
  problem.sorts = problem.places || args.offsets != nullptr || args.counts != nullptr;

  p.logits = logits.data, p.logits_stride = logits.strides[0];
  p.weights = reinterpret_cast<float*>(weights.data), p.weights_stride = weights.strides[0];
  p.ids = reinterpret_cast<std::int32_t*>(ids.data), p.ids_stride = ids.strides[0];
  p.tokens = static_cast<std::int32_t>(tokens);
  p.experts = static_cast<std::int32_t>(experts);
  p.scale = args.scale == 0.0f ? 1.0f : args.scale;
  p.sigmoid = (args.flags & QUERN_MOE_SIGMOID) != 0;
  p.renormalize = (args.flags & QUERN_MOE_RENORMALIZE) != 0;
  p.vectors = vectors;
  return problem;
}

}  // namespace quern::ops::moe_route
