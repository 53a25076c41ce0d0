// Shapes to specs, units and manifest constants.
// SPDX-License-Identifier: Apache-2.0
#include "sources/mla_append/plan.h"

#include <string>

#include "jit/error.h"
#include "sources/common_headers.h"
#include "sources/description.h"
#include "sources/embedded.h"

namespace quern::ops::mla_append {
namespace {

constexpr Names<Dtype, 2> kElements = {{{"f16", Dtype::f16}, {"bf16", Dtype::bf16}}};
constexpr Names<Dtype, 4> kOrNone = {
    {{"none", Dtype::other}, {"f16", Dtype::f16}, {"bf16", Dtype::bf16}, {"f32", Dtype::f32}}};
constexpr Names<q::CacheKind, 4> kKinds = {{{"plain", q::CacheKind::plain},
                                            {"e4m3_tensor", q::CacheKind::e4m3_tensor},
                                            {"e4m3_token", q::CacheKind::e4m3_token},
                                            {"rows656", q::CacheKind::rows656}}};
constexpr Names<int, 3> kAlignments = {{{"16", 16}, {"8", 8}, {"4", 4}}};

constexpr bool turns(const rope::RopeShape& shape) { return shape.rotary != 0; }

constexpr auto kConstants =
    describe<Shape>(tag_mla_append, "mla_append", choice<&Shape::element>("dtype", "X_ELEMENT", kElements),
                    choice<&Shape::weight>("norm", nullptr, kOrNone).optional(),
                    choice<&Shape::kind>("cache", nullptr, kKinds).optional(),
                    number<&Shape::d_latent>("d_latent", "D_LATENT", {16, kMostLatent, 16}).optional(),
                    number<&Shape::d_rope>("d_rope", nullptr, {0, kMostRope, 16}).optional(),
                    flag<&Shape::queries>("queries", "HAS_Q").optional(),
                    number<&Shape::rotary>("rotary_dim", nullptr, {0, kMostRope, 2}).optional(),
                    flag<&Shape::interleaved>("interleaved", nullptr).optional().when(turns),
                    choice<&Shape::table>("table", nullptr, rope::kTableDtypes).optional().when(turns),
                    choice<&Shape::alignment>("alignment", nullptr, kAlignments).optional());

// The rope part's width as a head; without one the kernel has no use for it.
int head_dim(const Shape& shape) { return shape.d_rope != 0 ? shape.d_rope : 16; }

}  // namespace

int Shape::rope_width() const {
  return rope::vector_width(*this, head_dim(*this), head_dim(*this), element, alignment);
}
int Shape::rope_lanes() const { return rope::team_lanes(*this, head_dim(*this), head_dim(*this), rope_width()); }

jit::Spec to_spec(const Shape& shape, jit::Target target) { return kConstants.to_spec(shape, target); }
Shape to_shape(const jit::Spec& spec) { return kConstants.to_shape(spec); }
Constants to_constants(const Shape& shape) { return kConstants.to_constants(shape); }

Shape from_constants(const Constants& constants) {
  const auto refuse = [](const char* text) { throw Error(QUERN_INVALID, std::string("mla_append: ") + text); };
  const Shape shape = kConstants.read(constants);
  if (shape.weight != Dtype::other && shape.weight != Dtype::f32 && shape.weight != shape.element)
    refuse("norm must be dtype or f32");
  if (shape.rotary > shape.d_rope) refuse("rotary_dim must be at most d_rope");
  if (shape.queries && shape.rotary == 0) refuse("queries=1 takes a rotary_dim that is not 0");
  if (shape.kind == q::CacheKind::rows656 && (shape.d_latent != 512 || shape.d_rope != 64))
    refuse("cache=rows656 takes d_latent=512 d_rope=64");
  return shape;
}

jit::Unit to_unit(const Shape& shape, jit::Target target) {
  jit::Unit unit;
  unit.op = "mla_append";
  unit.target = target;
  unit.entry = "quern_mla_append";
  kConstants.define(shape, &unit);
  rope::define_table(shape, &unit);
  const auto define = [&](const char* name, const std::string& value) { unit.constants.push_back({name, value}); };
  const bool norm = shape.weight != Dtype::other;
  const bool plain = shape.kind == q::CacheKind::plain, rows656 = shape.kind == q::CacheKind::rows656;
  const std::string head = std::to_string(head_dim(shape));
  define("NORM", norm ? "1" : "0");
  define("WEIGHT_ELEMENT", norm ? name_of(shape.weight) : "f32");
  define("CACHE_KIND", std::to_string(static_cast<int>(shape.kind)));
  define("CACHE_ELEMENT", plain ? name_of(shape.element) : "e4m3");
  define("CACHE_ROPE_ELEMENT", plain ? name_of(shape.element) : rows656 ? "bf16" : "e4m3");
  define("HAS_ROPE_PART", shape.d_rope != 0 ? "1" : "0");
  define("LATENT_WIDTH", std::to_string(shape.alignment / 2));
  define("DIM_K", head);
  define("DIM_V", head);
  define("ROTARY", std::to_string(shape.rotary));
  define("INTERLEAVED", shape.rotary != 0 && shape.interleaved ? "1" : "0");
  define("WIDTH", std::to_string(shape.rope_width()));
  define("LANES", std::to_string(shape.rope_lanes()));
  define("THREADS", std::to_string(kThreads));
  define("BLOCKS_PER_SM", std::to_string(shape.blocks_per_sm()));
  unit.source = embedded("mla_append/mla_append.cuh");
  unit.headers = device_headers(target);
  return unit;
}

}  // namespace quern::ops::mla_append
