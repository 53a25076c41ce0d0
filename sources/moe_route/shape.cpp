// SPDX-License-Identifier: Apache-2.0
#include "sources/moe_route/shape.h"

#include <algorithm>

#include "sources/common_headers.h"
#include "sources/constants.h"
#include "sources/embedded.h"
#include "sources/moe_route/params.cuh"

namespace quern::ops::moe_route {
namespace {

static_assert(kCapacities.back() == q::kMostExperts);

Shape to_shape(const jit::Spec& spec) {
  return {static_cast<Stage>(spec.words[0]), static_cast<Dtype>(spec.words[1]), static_cast<int>(spec.words[2])};
}

}  // namespace

int capacity_for(std::int64_t experts) {
  return *std::lower_bound(kCapacities.begin(), kCapacities.end() - 1, static_cast<int>(experts));
}

int threads_of(const Shape& shape) { return shape.stage == Stage::route && shape.capacity > 512 ? 512 : 1024; }

std::uint32_t group_bytes(const Shape& shape, const jit::TargetInfo& target) {
  const std::uint32_t warps = static_cast<std::uint32_t>(threads_of(shape)) / target.warp_size;
  return warps * static_cast<std::uint32_t>(shape.capacity) * 4;
}

jit::Spec to_spec(const Shape& shape, jit::Target target) {
  jit::Spec spec;
  spec.op = tag_moe_route;
  spec.target = target.tag();
  spec.words[0] = static_cast<std::uint32_t>(shape.stage);
  if (shape.stage == Stage::finish) return spec;
  spec.words[1] = static_cast<std::uint32_t>(shape.logits);
  spec.words[2] = static_cast<std::uint32_t>(shape.capacity);
  return spec;
}

Constants to_constants(const jit::Spec& spec) {
  const Shape shape = to_shape(spec);
  if (shape.stage == Stage::finish) return {{"stage", "finish"}};
  return {{"stage", "route"}, {"dtype", name_of(shape.logits)}, {"experts", std::to_string(shape.capacity)}};
}

jit::Spec from_constants(const Constants& given, const jit::TargetInfo& target) {
  ConstantReader reader("moe_route", given);
  Shape shape;
  if (reader.one_of("stage", {"route", "finish"}) == 1) {
    shape.stage = Stage::finish;
  } else {
    constexpr Dtype kDtypes[] = {Dtype::f16, Dtype::bf16, Dtype::f32};
    shape.logits = kDtypes[reader.one_of("dtype", {"f16", "bf16", "f32"})];
    shape.capacity = kCapacities[reader.one_of("experts", {"64", "128", "256", "512", "1024"})];
  }
  reader.finish();
  return to_spec(shape, target.target);
}

jit::Unit to_unit(const jit::Spec& spec) {
  const Shape shape = to_shape(spec);
  jit::Unit unit;
  unit.op = "moe_route";
  unit.target = jit::Target::from_tag(spec.target);
  unit.constants = {{"THREADS", std::to_string(threads_of(shape))}};
  unit.headers = device_headers(unit.target);
  if (shape.stage == Stage::finish) {
    unit.entry = "quern_moe_finish";
    unit.source = embedded("moe_route/finish.cuh");
    return unit;
  }
  unit.entry = "quern_moe_route";
  unit.source = embedded("moe_route/route.cuh");
  unit.constants.push_back({"LOGIT", name_of(shape.logits)});
  unit.constants.push_back({"CAPACITY", std::to_string(shape.capacity)});
  unit.max_shared_bytes = group_bytes(shape, jit::limits_of(unit.target));
  return unit;
}

}  // namespace quern::ops::moe_route
