// The constants of moe_route's kernels.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>

#include "sources/op.h"
#include "sources/tensor.h"

namespace quern::ops::moe_route {

enum class Stage : std::uint32_t {
  route,  // chooses, and sorts as far as one launch can
  finish  // places the choices where there are many tokens; it has no further constants
};

// Experts that a kernel has room for: one class serves all smaller counts.
inline constexpr std::array kCapacities = {64, 128, 256, 512, 1024};

struct Shape {
  Stage stage = Stage::route;
  Dtype logits = Dtype::f32;
  int capacity = 0;
};

// The class of a number of experts from 1 to 1024.
int capacity_for(std::int64_t experts);
// Threads of a block: fewer where a lane holds so many experts that it needs more registers.
int threads_of(const Shape& shape);
// Dynamic shared memory of the route kernel where groups are limited, in bytes.
std::uint32_t group_bytes(const Shape& shape, const jit::TargetInfo& target);

jit::Spec to_spec(const Shape& shape, jit::Target target);
jit::Unit to_unit(const jit::Spec& spec);
Constants to_constants(const jit::Spec& spec);
// Throws Error(QUERN_INVALID).
jit::Spec from_constants(const Constants& given, const jit::TargetInfo& target);

}  // namespace quern::ops::moe_route
