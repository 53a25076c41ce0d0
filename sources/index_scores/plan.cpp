// Shapes to kernels, tilings, specs, units and manifest constants.
// SPDX-License-Identifier: Apache-2.0
#include "sources/index_scores/plan.h"

#include <algorithm>
#include <string>

#include "jit/error.h"
#include "sources/common_headers.h"
#include "sources/description.h"
#include "sources/embedded.h"

namespace quern::ops::index_scores {
namespace {

constexpr Names<Variant, kVariants> kVariantNames = {{{"portable", Variant::portable}}};
constexpr Names<int, 3> kTokens = {{{"1", 1}, {"2", 2}, {"4", 4}}};
constexpr Names<int, 2> kAlignments = {{{"16", 16}, {"4", 4}}};

constexpr bool is_portable(const Shape& shape) { return shape.variant == Variant::portable; }

constexpr auto kConstants = describe<Shape>(
    tag_index_scores, "index_scores", choice<&Shape::variant>("variant", nullptr, kVariantNames),
    choice<&Shape::code>("dtype", "CODE", kFp8Dtypes).optional(),
    number<&Shape::dim>("dim", "DIM", {16, kMostDim, 16}).optional().when(is_portable),
    number<&Shape::head_rows>("head_rows", "HEAD_ROWS", {16, kMostHeads, 16}).optional().when(is_portable),
    choice<&Shape::tokens>("tokens", "TOKENS", kTokens).optional(), flag<&Shape::ragged>("ragged", "RAGGED").optional(),
    choice<&Shape::alignment>("alignment", "ALIGNMENT", kAlignments).optional().when(is_portable));

// What a block of threads needs beyond its dynamic shared memory: what the hardware keeps.
constexpr std::uint32_t kSharedReserve = 1024;
constexpr int kThreads = 256;

}  // namespace

void choose(Shape& shape, std::int64_t heads, std::int64_t max_q_len, const jit::TargetInfo&) {
  shape.variant = Variant::portable;
  shape.head_rows = static_cast<int>((heads + 15) / 16 * 16);
  shape.tokens = 1;
  if (max_q_len > 1) {
    while (shape.tokens < 4 && 2 * shape.tokens * shape.head_rows <= 128) shape.tokens *= 2;
  }
}

Tiling tile(const Shape& shape, const jit::TargetInfo& target) {
  for (int keys = 128; keys >= 16; keys /= 2) {
    const auto bytes =
        static_cast<std::uint32_t>(q::index_layout(shape.dim, shape.tokens * shape.head_rows, shape.tokens, keys).end);
    if (bytes + kSharedReserve > target.shared_per_block) continue;
    return {keys, kThreads, 2 * (bytes + kSharedReserve) <= target.shared_per_sm ? 2 : 1, bytes};
  }
  throw Error(QUERN_UNSUPPORTED, "index scores of " + std::to_string(shape.head_rows) + " heads of " +
                                     std::to_string(shape.dim) + " do not fit the shared memory of " +
                                     target.target.name());
}

jit::Spec to_spec(const Shape& shape, jit::Target target) { return kConstants.to_spec(shape, target); }
Shape to_shape(const jit::Spec& spec) { return kConstants.to_shape(spec); }
Constants to_constants(const Shape& shape) { return kConstants.to_constants(shape); }

Shape from_constants(const Constants& constants) {
  const Shape shape = kConstants.read(constants);
  if (shape.head_rows * shape.dim > kMostNumbers) {
    throw Error(QUERN_INVALID, "index_scores: head_rows times dim is " + std::to_string(shape.head_rows * shape.dim) +
                                   "; allowed: up to " + std::to_string(kMostNumbers));
  }
  return shape;
}

jit::Unit to_unit(const Shape& shape, jit::Target target) {
  const Tiling t = tile(shape, jit::limits_of(target));
  jit::Unit unit;
  unit.op = "index_scores";
  unit.target = target;
  unit.entry = "quern_index_scores";
  kConstants.define(shape, &unit);
  const auto define = [&](const char* name, int value) { unit.constants.push_back({name, std::to_string(value)}); };
  define("KEYS", t.keys);
  define("THREADS", t.threads);
  define("BLOCKS_PER_SM", t.blocks_per_sm);
  unit.source = embedded("index_scores/kernels/portable/scores.cuh");
  unit.headers = device_headers(target);
  unit.max_shared_bytes = t.shared_bytes;
  return unit;
}

}  // namespace quern::ops::index_scores
