// Shapes to specs, units and manifest constants.
// SPDX-License-Identifier: Apache-2.0
#include "sources/kv_append/plan.h"

#include <algorithm>
#include <string>
#include <utility>

#include "jit/error.h"
#include "sources/common_headers.h"
#include "sources/description.h"
#include "sources/embedded.h"

namespace quern::ops::kv_append {
namespace {

constexpr Names<Dtype, 6> kCaches = {{{"f16", Dtype::f16},
                                      {"bf16", Dtype::bf16},
                                      {"f32", Dtype::f32},
                                      {"e4m3", Dtype::e4m3},
                                      {"e5m2", Dtype::e5m2},
                                      {"int8", Dtype::i8}}};
constexpr Names<Dtype, 6> kQueries = {{{"f16", Dtype::f16},
                                       {"bf16", Dtype::bf16},
                                       {"f32", Dtype::f32},
                                       {"e4m3", Dtype::e4m3},
                                       {"e5m2", Dtype::e5m2},
                                       {"none", Dtype::other}}};
// Who has the scale of 8 bits: the caller, or the kernel finds one a token and head.
constexpr Names<bool, 2> kScales = {{{"given", false}, {"token", true}}};

constexpr auto kConstants =
    describe<Shape>(tag_kv_append, "kv_append", choice<&Shape::x>("dtype", "X_ELEMENT", kFloatDtypes),
                    choice<&Shape::cache>("cache", nullptr, kCaches).optional(),
                    choice<&Shape::find_cache_scale>("scale", nullptr, kScales).optional(),
                    choice<&Shape::q_out>("q", nullptr, kQueries).optional(),
                    choice<&Shape::find_q_scale>("q_scale", nullptr, kScales).optional(),
                    choice<&Shape::weight>("norm", nullptr, rope::kTableDtypes).optional(),
                    number<&Shape::dim_k>("dim_k", "DIM_K", {8, kMostDim, 8}),
                    number<&Shape::dim_v>("dim_v", "DIM_V", {8, kMostDim, 8}).optional(),
                    number<&Shape::rotary>("rotary_dim", "ROTARY", {0, 2 * q::kMostPairs, 2}).optional(),
                    flag<&Shape::interleaved>("interleaved", "INTERLEAVED").optional(),
                    choice<&Shape::table>("table", nullptr, rope::kTableDtypes).optional(),
                    number<&Shape::width>("width", "WIDTH", {1, 16}).optional());

// As the kernels call it.
const char* element_of(Dtype dtype) { return dtype == Dtype::i8 ? "i8" : name_of(dtype); }

[[noreturn]] void refuse(const std::string& text) { throw Error(QUERN_INVALID, "kv_append: " + text); }

}  // namespace

jit::Spec to_spec(const Shape& shape, jit::Target target) { return kConstants.to_spec(shape, target); }
Shape to_shape(const jit::Spec& spec) { return kConstants.to_shape(spec); }
Constants to_constants(const Shape& shape) { return kConstants.to_constants(shape); }

Shape from_constants(const Constants& constants) {
  Shape missing;  // what is not said follows from what is
  missing.cache = Dtype::other, missing.width = 0;
  Shape shape = kConstants.read(constants, missing);
  if (shape.cache == Dtype::other) shape.cache = shape.x;
  if (shape.dim_v == 0) shape.dim_v = shape.dim_k;
  if (shape.rotary > shape.dim_k) {
    refuse("rotary_dim is " + std::to_string(shape.rotary) + "; allowed: 0 to " + std::to_string(shape.dim_k) +
           ", in steps of 2");
  }
  rope::take_width("kv_append", rope::vector_width(shape, shape.dim_k, shape.dim_v, shape.x, 16), &shape.width);
  if (bytes_of(shape.cache) != 1 && shape.cache != shape.x) refuse("cache must be dtype, or have 8 bits");
  if (bytes_of(shape.cache) != 1 && shape.find_cache_scale) refuse("scale=token is for a cache of 8 bits");
  const bool queries = shape.q_out != Dtype::other;
  if (queries && bytes_of(shape.q_out) != 1 && shape.q_out != shape.x) refuse("q must be dtype, or have 8 bits");
  if (shape.find_q_scale && (!queries || bytes_of(shape.q_out) != 1)) refuse("q_scale=token is for queries of 8 bits");
  if (shape.weight != Dtype::other && shape.weight != shape.x && shape.weight != Dtype::f32)
    refuse("norm must be dtype or f32");
  if (shape.rotary == 0 && (shape.interleaved || shape.table != Dtype::other)) {
    refuse("interleaved and table are for a rotary_dim that is not 0");
  }
  return shape;
}

jit::Unit to_unit(const Shape& shape, jit::Target target) {
  jit::Unit unit;
  unit.op = "kv_append";
  unit.target = target;
  unit.entry = "quern_kv_append";
  kConstants.define(shape, &unit);
  rope::define_table(shape, &unit);
  const bool norm = shape.weight != Dtype::other, queries = shape.q_out != Dtype::other;
  for (const auto& [name, value] : {std::pair{"CACHE_ELEMENT", element_of(shape.cache)},
                                    {"Q_ELEMENT", element_of(queries ? shape.q_out : shape.x)},
                                    {"WEIGHT_ELEMENT", norm ? name_of(shape.weight) : "f32"}}) {
    unit.constants.push_back({name, value});
  }
  for (const auto& [name, value] : {std::pair{"HAS_Q", int{queries}},
                                    {"NORM", int{norm}},
                                    {"FIND_CACHE_SCALE", int{shape.find_cache_scale}},
                                    {"FIND_Q_SCALE", int{shape.find_q_scale}},
                                    {"LANES", shape.lanes()},
                                    {"THREADS", kThreads},
                                    {"BLOCKS_PER_SM", kBlocksPerSm}}) {
    unit.constants.push_back({name, std::to_string(value)});
  }
  unit.source = embedded("kv_append/kv_append.cuh");
  unit.headers = device_headers(target);
  return unit;
}

}  // namespace quern::ops::kv_append
