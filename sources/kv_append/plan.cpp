// Shapes to specs, units and manifest constants.
// SPDX-License-Identifier: Apache-2.0
#include "sources/kv_append/plan.h"

#include <algorithm>
#include <string>

#include "jit/error.h"
#include "sources/common_headers.h"
#include "sources/constants.h"
#include "sources/embedded.h"

namespace quern::ops::kv_append {
namespace {

const char* name_or_none(Dtype dtype) { return dtype == Dtype::other ? "none" : name_of(dtype); }
// As the kernels call it.
const char* element_of(Dtype dtype) { return dtype == Dtype::i8 ? "i8" : name_of(dtype); }

}  // namespace

jit::Spec to_spec(const Shape& shape, jit::Target target) {
  jit::Spec spec;
  spec.op = tag_kv_append;
  spec.target = target.tag();
  spec.words[0] = static_cast<std::uint32_t>(shape.x) | static_cast<std::uint32_t>(shape.cache) << 8 |
                  static_cast<std::uint32_t>(shape.q_out) << 16 | static_cast<std::uint32_t>(shape.weight) << 24;
  spec.words[1] = static_cast<std::uint32_t>(shape.rope.table) |
                  static_cast<std::uint32_t>(shape.rope.interleaved) << 8 |
                  static_cast<std::uint32_t>(shape.find_cache_scale) << 9 |
                  static_cast<std::uint32_t>(shape.find_q_scale) << 10 | static_cast<std::uint32_t>(shape.width) << 16;
  spec.words[2] = static_cast<std::uint32_t>(shape.dim_k) | static_cast<std::uint32_t>(shape.dim_v) << 16;
  spec.words[3] = static_cast<std::uint32_t>(shape.rope.rotary);
  return spec;
}

Shape to_shape(const jit::Spec& spec) {
  const auto byte = [&](int word, int at) { return static_cast<std::uint8_t>(spec.words[word] >> at); };
  Shape shape;
  shape.x = static_cast<Dtype>(byte(0, 0));
  shape.cache = static_cast<Dtype>(byte(0, 8));
  shape.q_out = static_cast<Dtype>(byte(0, 16));
  shape.weight = static_cast<Dtype>(byte(0, 24));
  shape.rope.table = static_cast<Dtype>(byte(1, 0));
  shape.rope.interleaved = (byte(1, 8) & 1) != 0;
  shape.find_cache_scale = (byte(1, 8) & 2) != 0;
  shape.find_q_scale = (byte(1, 8) & 4) != 0;
  shape.width = byte(1, 16);
  shape.dim_k = static_cast<int>(spec.words[2] & 0xffff);
  shape.dim_v = static_cast<int>(spec.words[2] >> 16);
  shape.rope.rotary = static_cast<int>(spec.words[3]);
  return shape;
}

Constants to_constants(const Shape& shape) {
  return {{"dtype", name_of(shape.x)},
          {"cache", name_of(shape.cache)},
          {"scale", shape.find_cache_scale ? "token" : "given"},
          {"q", name_or_none(shape.q_out)},
          {"q_scale", shape.find_q_scale ? "token" : "given"},
          {"norm", name_or_none(shape.weight)},
          {"dim_k", std::to_string(shape.dim_k)},
          {"dim_v", std::to_string(shape.dim_v)},
          {"rotary_dim", std::to_string(shape.rope.rotary)},
          {"interleaved", std::to_string(shape.rope.interleaved)},
          {"table", name_or_none(shape.rope.table)},
          {"width", std::to_string(shape.width)}};
}

Shape from_constants(const Constants& constants) {
  constexpr Dtype kAll[] = {Dtype::f16, Dtype::bf16, Dtype::f32, Dtype::e4m3, Dtype::e5m2, Dtype::i8};
  constexpr Dtype kQueries[] = {Dtype::f16, Dtype::bf16, Dtype::f32, Dtype::e4m3, Dtype::e5m2, Dtype::other};
  constexpr Dtype kFloats[] = {Dtype::f16, Dtype::bf16, Dtype::f32, Dtype::other};
  const auto refuse = [](const std::string& text) { throw Error(QUERN_INVALID, "kv_append: " + text); };
  ConstantReader reader("kv_append", constants);
  Shape shape;
  const std::size_t x = reader.one_of("dtype", {"f16", "bf16", "f32"});
  shape.x = kAll[x];
  shape.cache = kAll[reader.one_of("cache", {"f16", "bf16", "f32", "e4m3", "e5m2", "int8"}, x)];
  shape.find_cache_scale = reader.one_of("scale", {"given", "token"}, 0) == 1;
  shape.q_out = kQueries[reader.one_of("q", {"f16", "bf16", "f32", "e4m3", "e5m2", "none"}, 5)];
  shape.find_q_scale = reader.one_of("q_scale", {"given", "token"}, 0) == 1;
  shape.weight = kFloats[reader.one_of("norm", {"f16", "bf16", "f32", "none"}, 3)];
  shape.dim_k = static_cast<int>(reader.integer("dim_k", 8, kMostDim, 8));
  shape.dim_v = static_cast<int>(reader.integer("dim_v", 8, kMostDim, 8, shape.dim_k));
  shape.rope.rotary = static_cast<int>(reader.integer("rotary_dim", 0, std::min(shape.dim_k, 2 * q::kMostPairs), 2, 0));
  shape.rope.interleaved = reader.integer("interleaved", 0, 1, 1, 0) != 0;
  shape.rope.table = kFloats[reader.one_of("table", {"f16", "bf16", "f32", "none"}, 3)];
  const int widest = rope::vector_width(shape.rope, shape.dim_k, shape.dim_v, shape.x, 16);
  shape.width = static_cast<int>(reader.integer("width", 1, widest, 1, widest));
  reader.finish();
  if (widest % shape.width != 0)
    refuse("width is " + std::to_string(shape.width) + "; allowed: powers of two up to " + std::to_string(widest));
  if (bytes_of(shape.cache) != 1 && shape.cache != shape.x) refuse("cache must be dtype, or have 8 bits");
  if (bytes_of(shape.cache) != 1 && shape.find_cache_scale) refuse("scale=token is for a cache of 8 bits");
  const bool queries = shape.q_out != Dtype::other;
  if (queries && bytes_of(shape.q_out) != 1 && shape.q_out != shape.x) refuse("q must be dtype, or have 8 bits");
  if (shape.find_q_scale && (!queries || bytes_of(shape.q_out) != 1)) refuse("q_scale=token is for queries of 8 bits");
  if (shape.weight != Dtype::other && shape.weight != shape.x && shape.weight != Dtype::f32)
    refuse("norm must be dtype or f32");
  if (shape.rope.rotary == 0 && (shape.rope.interleaved || shape.rope.table != Dtype::other)) {
    refuse("interleaved and table are for a rotary_dim that is not 0");
  }
  return shape;
}

jit::Unit to_unit(const Shape& shape, jit::Target target) {
  jit::Unit unit;
  unit.op = "kv_append";
  unit.target = target;
  unit.entry = "quern_kv_append";
  const bool table = shape.rope.table != Dtype::other, norm = shape.weight != Dtype::other,
             queries = shape.q_out != Dtype::other;
  const auto define = [&](const char* name, auto value) {
    if constexpr (std::is_arithmetic_v<decltype(value)>) {
      unit.constants.push_back({name, std::to_string(static_cast<int>(value))});
    } else {
      unit.constants.push_back({name, value});
    }
  };
  define("X_ELEMENT", name_of(shape.x));
  define("CACHE_ELEMENT", element_of(shape.cache));
  define("HAS_Q", queries);
  define("Q_ELEMENT", queries ? element_of(shape.q_out) : name_of(shape.x));
  define("NORM", norm);
  define("WEIGHT_ELEMENT", norm ? name_of(shape.weight) : "f32");
  define("FIND_CACHE_SCALE", shape.find_cache_scale);
  define("FIND_Q_SCALE", shape.find_q_scale);
  define("DIM_K", shape.dim_k);
  define("DIM_V", shape.dim_v);
  define("ROTARY", shape.rope.rotary);
  define("INTERLEAVED", shape.rope.interleaved);
  define("HAS_TABLE", table);
  define("TABLE_ELEMENT", table ? name_of(shape.rope.table) : "f32");
  define("WIDTH", shape.width);
  define("LANES", shape.lanes());
  define("THREADS", kThreads);
  define("BLOCKS_PER_SM", kBlocksPerSm);
  unit.source = embedded("kv_append/kv_append.cuh");
  unit.headers = device_headers(target);
  return unit;
}

}  // namespace quern::ops::kv_append
