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

constexpr Names<Variant, kVariants> kVariantNames = {
    {{"portable", Variant::portable}, {"warpgroups", Variant::warpgroups}}};
constexpr Names<int, 4> kTokens = {{{"1", 1}, {"2", 2}, {"4", 4}, {"8", 8}}};
constexpr Names<int, 4> kPageRows = {{{"8", 8}, {"16", 16}, {"32", 32}, {"64", 64}}};
constexpr Names<int, 2> kAlignments = {{{"16", 16}, {"4", 4}}};

constexpr bool is_portable(const Shape& shape) { return shape.variant == Variant::portable; }
constexpr bool copies_pages(const Shape& shape) { return shape.variant == Variant::warpgroups && !shape.ragged; }

constexpr auto kConstants = describe<Shape>(
    tag_index_scores, "index_scores", choice<&Shape::variant>("variant", nullptr, kVariantNames),
    choice<&Shape::code>("dtype", "CODE", kFp8Dtypes).optional(),
    number<&Shape::dim>("dim", "DIM", {16, kMostDim, 16}).optional().when(is_portable),
    number<&Shape::head_rows>("head_rows", "HEAD_ROWS", {16, kMostHeads, 16}).optional().when(is_portable),
    choice<&Shape::tokens>("tokens", "TOKENS", kTokens).optional(), flag<&Shape::ragged>("ragged", "RAGGED").optional(),
    choice<&Shape::alignment>("alignment", "ALIGNMENT", kAlignments).optional().when(is_portable),
    choice<&Shape::page_rows>("page_rows", nullptr, kPageRows).optional().when(copies_pages));

// What a block of threads needs beyond its dynamic shared memory: what the hardware keeps.
constexpr std::uint32_t kSharedReserve = 1024;
constexpr int kThreads = 256;

}  // namespace

void choose(Shape& shape, std::int64_t heads, std::int64_t max_q_len, std::int64_t page_size,
            const jit::TargetInfo& target) {
  const bool fits =
      target.warpgroups && target.shared_per_block >= static_cast<std::uint32_t>(q::index_hopper_bytes(8));
  const int rows = shape.ragged ? 64 : static_cast<int>(page_size & -page_size & 63);
  shape.page_rows = rows == 0 ? 64 : rows;
  shape.head_rows = static_cast<int>((heads + 15) / 16 * 16);
  shape.tokens = 1;
  if (fits && heads == 64 && shape.dim == 128 && shape.alignment == 16 && shape.page_rows >= 8) {
    shape.variant = Variant::warpgroups;
    if (max_q_len > 4)
      shape.tokens = 8;
    else if (max_q_len > 1)
      shape.tokens = max_q_len > 2 ? 4 : 2;
    return;
  }
  shape.variant = Variant::portable;
  if (max_q_len > 1) {
    while (shape.tokens < 4 && 2 * shape.tokens * shape.head_rows <= 128) shape.tokens *= 2;
  }
}

Tiling tile(const Shape& shape, const jit::TargetInfo& target) {
  if (shape.variant == Variant::warpgroups) {
    if (!target.warpgroups) {
      throw Error(
          QUERN_UNSUPPORTED,
          "variant warpgroups of index_scores needs the instructions of sm_90a; the target is " + target.target.name());
    }
    return {q::kIndexKeys, q::index_hopper_threads(shape.tokens), 1,
            static_cast<std::uint32_t>(q::index_hopper_bytes(shape.tokens))};
  }
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
  if (shape.variant == Variant::portable && shape.tokens == 8)
    throw Error(QUERN_INVALID, "index_scores: tokens is 8; allowed with variant=portable: 1, 2, 4");
  if (shape.head_rows * shape.dim > kMostNumbers) {
    throw Error(QUERN_INVALID, "index_scores: head_rows times dim is " + std::to_string(shape.head_rows * shape.dim) +
                                   "; allowed: up to " + std::to_string(kMostNumbers));
  }
  return shape;
}

jit::Unit to_unit(const Shape& shape, jit::Target target) {
  const Tiling t = tile(shape, jit::limits_of(target));
  const bool portable = shape.variant == Variant::portable;
  jit::Unit unit;
  unit.op = "index_scores";
  unit.target = target;
  unit.entry = portable ? "quern_index_scores" : "quern_index_scores_sm90";
  kConstants.define(shape, &unit);
  const auto define = [&](const char* name, int value) { unit.constants.push_back({name, std::to_string(value)}); };
  define("THREADS", t.threads);
  if (portable) {
    define("KEYS", t.keys);
    define("BLOCKS_PER_SM", t.blocks_per_sm);
  } else {
    define("PAGE_ROWS", shape.page_rows);
  }
  unit.source =
      embedded(portable ? "index_scores/kernels/portable/scores.cuh" : "index_scores/kernels/sm90/scores.cuh");
  unit.headers = device_headers(target);
  unit.max_shared_bytes = t.shared_bytes;
  return unit;
}

}  // namespace quern::ops::index_scores
