// Shapes to tilings, specs, units and manifest constants.
// SPDX-License-Identifier: Apache-2.0
#include "sources/quantize/shape.h"

#include <algorithm>
#include <bit>
#include <string>

#include "jit/error.h"
#include "sources/common_headers.h"
#include "sources/constants.h"
#include "sources/embedded.h"

namespace quern::ops::quantize {
namespace {

constexpr int kMostThreads = 1024;
constexpr int kLongThreads = 512;   // that take a long row
constexpr int kPieceThreads = 256;  // that take a piece of a row, at most
// That take a block of 128 rows: as few as can hold it in registers, so that several blocks on an SM take turns in loading and storing.
constexpr int kBlockThreads = 256, kWideBlockThreads = 512;
constexpr int kNarrow = 32;         // the smallest warp there is: classes of columns are the same on every target
constexpr int kMostColumns = kMostThreads * 32;

constexpr const char* kFronts[] = {"none", "rmsnorm", "layernorm", "silu_mul", "gelu_mul", "gelu_tanh_mul"};
constexpr const char* kScales[] = {"none", "given", "find", "token", "group", "block"};

// Elements that a thread holds at once: what it loads for them is 64 bytes of each tensor, but for narrow accesses.
int held_elements(const Shape& shape) { return shape.access == 16 && shape.x != Dtype::f32 ? 32 : 16; }

// The columns that a team is made for: one of few classes, so that lengths near each other share a kernel.
int class_of(std::int64_t columns, const Shape& shape) {
  const std::int64_t warp = std::int64_t{kNarrow} * held_elements(shape);
  if (columns > warp) return static_cast<int>((columns + warp - 1) / warp * warp);
  return static_cast<int>(std::bit_ceil(static_cast<std::uint64_t>(std::max<std::int64_t>(columns, q::kGroupColumns))));
}

// Threads that an SM is to hold: as few as keep 64 KiB of loads under way, and the registers that leaves to each.
int resident_threads(const Shape& shape) {
  if (shape.residual) return 768;  // two tensors, and a weight beside them
  if (shape.scale == q::Scale::block) return shape.x == Dtype::f32 ? 1024 : 768;  // which hold twice as much each
  return shape.front == q::Front::none ? 1280 : 1024;
}

const char* name_or_none(Dtype dtype) { return dtype == Dtype::other ? "none" : name_of(dtype); }

}  // namespace

void fit(Shape& shape, std::int64_t n, int alignment) {
  shape.access = alignment;
  const std::int64_t row_bytes = n * bytes_of(shape.x);
  // The second half of a row begins where the first ends.
  while (shape.product() && row_bytes % shape.access != 0) shape.access /= 2;
  shape.tail = n % shape.elements() != 0;
  shape.columns = 0;
  if (shape.scale == q::Scale::block) return;
  const std::int64_t most = std::int64_t{shape.whole() ? kMostThreads : kPieceThreads} * held_elements(shape);
  if (shape.whole() && n > most) return;
  const std::int64_t pieces = (n + most - 1) / most;
  shape.columns = class_of((n + pieces - 1) / pieces, shape);
}

Tiling tile(const Shape& shape, const jit::TargetInfo& target) {
  const int elements = shape.elements(), most = held_elements(shape) / elements;
  const int warp = static_cast<int>(target.warp_size);
  Tiling t{};
  if (shape.scale == q::Scale::block) {
    t.team = t.threads = shape.x == Dtype::f32 ? kWideBlockThreads : kBlockThreads;
    t.vectors = q::kBlockRows * q::kGroupColumns / elements / t.threads;
  } else if (shape.columns == 0) {
    t.team = t.threads = kLongThreads;
    t.vectors = most;
  } else {
    const int vectors = shape.columns / elements;
    if (vectors <= warp * most) {
      t.team = std::clamp(vectors, q::kGroupColumns / elements, warp);
      t.vectors = std::max(vectors / t.team, 1);
      t.threads = 128;
    } else {
      t.team = t.threads = ((vectors + most - 1) / most + warp - 1) / warp * warp;
      t.vectors = most;
    }
  }
  t.blocks_per_sm = std::max(resident_threads(shape) / t.threads, 1);
  t.pass = t.team * t.vectors * elements;
  return t;
}

jit::Spec to_spec(const Shape& shape, jit::Target target) {
  jit::Spec spec;
  spec.op = tag_quantize;
  spec.target = target.tag();
  spec.words[0] = static_cast<std::uint32_t>(shape.x) | static_cast<std::uint32_t>(shape.out) << 8 |
                  static_cast<std::uint32_t>(shape.weight) << 16 | static_cast<std::uint32_t>(shape.bias) << 24;
  spec.words[1] = static_cast<std::uint32_t>(shape.front) | static_cast<std::uint32_t>(shape.scale) << 8 |
                  static_cast<std::uint32_t>(shape.residual) << 16 | static_cast<std::uint32_t>(shape.tail) << 17 |
                  static_cast<std::uint32_t>(shape.access) << 24;
  spec.words[2] = static_cast<std::uint32_t>(shape.columns);
  return spec;
}

Shape to_shape(const jit::Spec& spec) {
  const auto byte = [&](int word, int at) { return static_cast<std::uint8_t>(spec.words[word] >> at); };
  Shape shape;
  shape.x = static_cast<Dtype>(byte(0, 0));
  shape.out = static_cast<Dtype>(byte(0, 8));
  shape.weight = static_cast<Dtype>(byte(0, 16));
  shape.bias = static_cast<Dtype>(byte(0, 24));
  shape.front = static_cast<q::Front>(byte(1, 0));
  shape.scale = static_cast<q::Scale>(byte(1, 8));
  shape.residual = (byte(1, 16) & 1) != 0;
  shape.tail = (byte(1, 16) & 2) != 0;
  shape.access = byte(1, 24);
  shape.columns = static_cast<int>(spec.words[2]);
  return shape;
}

Constants to_constants(const Shape& shape) {
  return {{"x", name_of(shape.x)},
          {"out", shape.scale == q::Scale::none ? "none" : name_of(shape.out)},
          {"front", kFronts[static_cast<int>(shape.front)]},
          {"scale", kScales[static_cast<int>(shape.scale)]},
          {"residual", std::to_string(shape.residual)},
          {"weight", name_or_none(shape.weight)},
          {"bias", name_or_none(shape.bias)},
          {"access", std::to_string(shape.access)},
          {"tail", std::to_string(shape.tail)},
          {"columns", std::to_string(shape.columns)}};
}

Shape from_constants(const Constants& constants) {
  constexpr Dtype kFloats[] = {Dtype::f16, Dtype::bf16, Dtype::f32, Dtype::other};
  constexpr Dtype kCodes[] = {Dtype::e4m3, Dtype::e5m2, Dtype::e4m3};
  ConstantReader reader("quantize", constants);
  Shape shape;
  shape.x = kFloats[reader.one_of("x", {"f16", "bf16", "f32"})];
  const std::size_t out = reader.one_of("out", {"e4m3", "e5m2", "none"});
  shape.out = kCodes[out];
  shape.front = static_cast<q::Front>(
      reader.one_of("front", {kFronts[0], kFronts[1], kFronts[2], kFronts[3], kFronts[4], kFronts[5]}, 0));
  shape.scale = static_cast<q::Scale>(
      reader.one_of("scale", {kScales[0], kScales[1], kScales[2], kScales[3], kScales[4], kScales[5]}));
  shape.residual = reader.integer("residual", 0, 1, 1, 0) != 0;
  shape.weight = kFloats[reader.one_of("weight", {"f16", "bf16", "f32", "none"}, 3)];
  shape.bias = kFloats[reader.one_of("bias", {"f16", "bf16", "f32", "none"}, 3)];
  constexpr int kAccesses[] = {16, 8, 4, 2};
  shape.access = kAccesses[reader.one_of("access", {"16", "8", "4", "2"}, 0)];
  shape.tail = reader.integer("tail", 0, 1, 1, 0) != 0;
  shape.columns = static_cast<int>(reader.integer("columns", 0, kMostColumns, q::kGroupColumns, 0));
  reader.finish();
  const auto refuse = [](const char* text) { throw Error(QUERN_INVALID, std::string("quantize: ") + text); };
  if ((out == 2) != (shape.scale == q::Scale::none)) refuse("out is none with scale none, and only then");
  if (!shape.norm() && (shape.residual || shape.weight != Dtype::other || shape.bias != Dtype::other)) {
    refuse("residual, weight and bias are for norms");
  }
  if (shape.bias != Dtype::other && shape.front != q::Front::layernorm) refuse("bias is for layernorm");
  if (shape.scale == q::Scale::block && shape.front != q::Front::none) refuse("scale block has no front");
  if (shape.access == 2 && (!shape.product() || shape.x == Dtype::f32)) {
    refuse("access 2 is for the second half of a product's row in 16 bits");
  }
  // Equal to what a call would ask for: any other number is no class, or more than a team can take.
  Shape fitted = shape;
  fit(fitted, std::max(shape.columns, 1), shape.access);
  if (shape.scale == q::Scale::block ? shape.columns != 0
                                     : shape.columns == 0 ? !shape.whole() : fitted.columns != shape.columns) {
    refuse("columns is none of the classes: 0 for blocks and for rows too long for registers; 128, 256, 512, 1024 and "
           "its multiples, or with x f32 or access below 16 128, 256, 512 and its multiples, for what fits them");
  }
  return shape;
}

jit::Unit to_unit(const Shape& shape, jit::Target target) {
  const Tiling t = tile(shape, jit::limits_of(target));
  const bool block = shape.scale == q::Scale::block;
  jit::Unit unit;
  unit.op = "quantize";
  unit.target = target;
  unit.entry = block ? "quern_quantize_blocks" : "quern_quantize_rows";
  const auto define = [&](const char* name, const std::string& value) { unit.constants.push_back({name, value}); };
  define("IN", name_of(shape.x));
  define("OUT", name_of(shape.out));
  define("ACCESS", std::to_string(shape.access));
  define("TAIL", std::to_string(shape.tail));
  define("TEAM", std::to_string(t.team));
  define("VECTORS", std::to_string(t.vectors));
  define("THREADS", std::to_string(t.threads));
  define("BLOCKS_PER_SM", std::to_string(t.blocks_per_sm));
  if (!block) {
    define("FRONT", std::string("Front::") + kFronts[static_cast<int>(shape.front)]);
    define("SCALE", std::string("Scale::") + kScales[static_cast<int>(shape.scale)]);
    define("HELD", std::to_string(shape.columns != 0));
    define("RESIDUAL", std::to_string(shape.residual));
    define("HAS_WEIGHT", std::to_string(shape.weight != Dtype::other));
    define("WEIGHT", shape.weight == Dtype::other ? "f32" : name_of(shape.weight));
    define("HAS_BIAS", std::to_string(shape.bias != Dtype::other));
    define("BIAS", shape.bias == Dtype::other ? "f32" : name_of(shape.bias));
  }
  unit.source = embedded(block ? "quantize/blocks.cuh" : "quantize/rows.cuh");
  unit.headers = device_headers(target);
  return unit;
}

}  // namespace quern::ops::quantize
