// SPDX-License-Identifier: Apache-2.0
#include "sources/moe_route/shape.h"

#include <algorithm>

#include "sources/common_headers.h"
#include "sources/description.h"
#include "sources/embedded.h"
#include "sources/moe_route/params.cuh"

namespace quern::ops::moe_route {
namespace {

static_assert(kCapacities.back() == q::kMostExperts);

constexpr Names<Stage, 2> kStages = {{{"route", Stage::route}, {"finish", Stage::finish}}};
constexpr Names<int, kCapacities.size()> kExperts = {
    {{"64", 64}, {"128", 128}, {"256", 256}, {"512", 512}, {"1024", 1024}}};
static_assert(kExperts.back().value == kCapacities.back());
constexpr bool routes(const Shape& shape) { return shape.stage == Stage::route; }

constexpr auto kConstants =
    describe<Shape>(tag_moe_route, "moe_route", choice<&Shape::stage>("stage", nullptr, kStages),
                    choice<&Shape::logits>("dtype", "LOGIT", kFloatDtypes).when(routes),
                    choice<&Shape::capacity>("experts", "CAPACITY", kExperts).when(routes));

}  // namespace

int capacity_for(std::int64_t experts) {
  return *std::lower_bound(kCapacities.begin(), kCapacities.end() - 1, static_cast<int>(experts));
}

int threads_of(const Shape& shape) { return shape.stage == Stage::route && shape.capacity > 512 ? 512 : 1024; }

std::uint32_t group_bytes(const Shape& shape, const jit::TargetInfo& target) {
  const std::uint32_t warps = static_cast<std::uint32_t>(threads_of(shape)) / target.warp_size;
  return warps * static_cast<std::uint32_t>(shape.capacity) * 4;
}

jit::Spec to_spec(const Shape& shape, jit::Target target) { return kConstants.to_spec(shape, target); }

Constants to_constants(const jit::Spec& spec) { return kConstants.to_constants(kConstants.to_shape(spec)); }

jit::Spec from_constants(const Constants& given, const jit::TargetInfo& target) {
  return kConstants.to_spec(kConstants.read(given), target.target);
}

jit::Unit to_unit(const jit::Spec& spec) {
  const Shape shape = kConstants.to_shape(spec);
  jit::Unit unit;
  unit.op = "moe_route";
  unit.target = jit::Target::from_tag(spec.target);
  unit.constants = {{"THREADS", std::to_string(threads_of(shape))}};
  kConstants.define(shape, &unit);
  unit.headers = device_headers(unit.target);
  if (shape.stage == Stage::finish) {
    unit.entry = "quern_moe_finish";
    unit.source = embedded("moe_route/finish.cuh");
    return unit;
  }
  unit.entry = "quern_moe_route";
  unit.source = embedded("moe_route/route.cuh");
  unit.max_shared_bytes = group_bytes(shape, jit::limits_of(unit.target));
  return unit;
}

}  // namespace quern::ops::moe_route
