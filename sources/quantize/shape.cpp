// Shapes to tilings, specs, units and manifest constants.
// SPDX-License-Identifier: Apache-2.0
#include "sources/quantize/shape.h"

#include <algorithm>
#include <bit>
#include <string>

#include "jit/error.h"
#include "sources/common_headers.h"
#include "sources/description.h"
#include "sources/element_names.h"
#include "sources/embedded.h"

namespace quern::ops::quantize {
namespace {

constexpr int kMostThreads = 1024;
constexpr int kLongThreads = 512;  // that take a long row
// That take a block of 128 rows: as few as can hold it in registers, so that several blocks on an SM take turns in
// loading and storing.
constexpr int kBlockThreads = 256, kWideBlockThreads = 512;
constexpr int kNarrow = 32;  // the smallest warp there is: classes of columns are the same on every target
constexpr int kMostColumns = kMostThreads * 32;

constexpr Names<q::Front, 6> kFronts = {{{"none", q::Front::none},
                                         {"rmsnorm", q::Front::rmsnorm},
                                         {"layernorm", q::Front::layernorm},
                                         {"silu_mul", q::Front::silu_mul},
                                         {"gelu_mul", q::Front::gelu_mul},
                                         {"gelu_tanh_mul", q::Front::gelu_tanh_mul}}};
constexpr Names<q::Scale, 6> kScales = {{{"none", q::Scale::none},
                                         {"given", q::Scale::given},
                                         {"find", q::Scale::find},
                                         {"token", q::Scale::token},
                                         {"group", q::Scale::group},
                                         {"block", q::Scale::block}}};
constexpr Names<Dtype, 4> kCodes = {
    {{"e4m3", Dtype::e4m3}, {"e5m2", Dtype::e5m2}, {"int8", Dtype::i8}, {"none", Dtype::other}}};
constexpr Names<Dtype, 4> kVectors = {
    {{"f16", Dtype::f16}, {"bf16", Dtype::bf16}, {"f32", Dtype::f32}, {"none", Dtype::other}}};
constexpr Names<int, 4> kAccesses = {{{"16", 16}, {"8", 8}, {"4", 4}, {"2", 2}}};

constexpr int kQuickColumns = 8192;  // of a row whose threads hold half as much
constexpr int kFewColumns = 256;     // of a piece where there are few: one vector of 16 bytes for each lane of a warp

// Elements that a thread holds at once of a row of so many columns, 0 of one that it does not hold: what it loads for
// them is 64 bytes, but for narrow accesses. A norm knows nothing of its row before the slowest thread has its sum:
// with two tensors to load a thread holds half as much, as long as two blocks fit an SM.
int held_elements(const Shape& shape, std::int64_t columns) {
  if (shape.access != 16 || shape.x == Dtype::f32) return 16;
  return shape.norm() && shape.residual && columns > 0 && columns <= kQuickColumns ? 16 : 32;
}

// The columns that a team is made for: one of few classes, so that lengths near each other share a kernel.
int class_of(std::int64_t columns, const Shape& shape) {
  const std::int64_t warp = std::int64_t{kNarrow} * held_elements(shape, columns);
  if (columns > warp) return static_cast<int>((columns + warp - 1) / warp * warp);
  return static_cast<int>(std::bit_ceil(static_cast<std::uint64_t>(std::max<std::int64_t>(columns, q::kGroupColumns))));
}

// Threads that an SM is to hold: as few as keep 64 KiB of loads under way, and the registers that leaves to each.
int resident_threads(const Shape& shape) {
  // Two tensors, and a weight beside them.
  if (shape.residual)
    return shape.access == 16 && held_elements(shape, shape.columns) == 16 && shape.x != Dtype::f32 ? 1024 : 768;
  if (shape.scale == q::Scale::block) return shape.x == Dtype::f32 ? 1024 : 768;  // which hold twice as much each
  return shape.front == q::Front::none ? 1280 : 1024;
}

constexpr auto kConstants = describe<Shape>(
    tag_quantize, "quantize", choice<&Shape::x>("x", "IN", kFloatDtypes), choice<&Shape::out>("out", nullptr, kCodes),
    choice<&Shape::front>("front", nullptr, kFronts).optional(), choice<&Shape::scale>("scale", nullptr, kScales),
    flag<&Shape::residual>("residual", nullptr).optional(),
    choice<&Shape::weight>("weight", nullptr, kVectors).optional(),
    choice<&Shape::bias>("bias", nullptr, kVectors).optional(),
    choice<&Shape::access>("access", "ACCESS", kAccesses).optional(), flag<&Shape::tail>("tail", "TAIL").optional(),
    number<&Shape::columns>("columns", nullptr, {0, kMostColumns, q::kGroupColumns}).optional());

}  // namespace

void fit(Shape& shape, std::int64_t n, int alignment, bool few) {
  shape.access = alignment;
  const std::int64_t row_bytes = n * bytes_of(shape.x);
  // The second half of a row begins where the first ends.
  while (shape.product() && row_bytes % shape.access != 0) shape.access /= 2;
  shape.tail = n % shape.elements() != 0;
  shape.columns = 0;
  if (shape.scale == q::Scale::block) return;
  // A piece is what a warp takes, whatever the rows' length: so all of a model's share a kernel.
  const std::int64_t most = shape.whole() ? kMostThreads * std::int64_t{held_elements(shape, n)}
                            : few         ? kFewColumns
                                          : kNarrow * held_elements(shape, n);
  if (shape.whole() && n > most) return;
  const std::int64_t pieces = (n + most - 1) / most;
  shape.columns = class_of((n + pieces - 1) / pieces, shape);
}

bool are_few(const Shape& shape, std::int64_t elements, int sms) {
  return elements <= std::int64_t{sms} * resident_threads(shape) * shape.elements();
}

Tiling tile(const Shape& shape, const jit::TargetInfo& target) {
  const int elements = shape.elements(), most = held_elements(shape, shape.columns) / elements;
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

jit::Spec to_spec(const Shape& shape, jit::Target target) { return kConstants.to_spec(shape, target); }

Shape to_shape(const jit::Spec& spec) { return kConstants.to_shape(spec); }

Constants to_constants(const Shape& shape) { return kConstants.to_constants(shape); }

Shape from_constants(const Constants& constants) {
  const Shape shape = kConstants.read(constants);
  const auto refuse = [](const char* text) { throw Error(QUERN_INVALID, std::string("quantize: ") + text); };
  if ((shape.out == Dtype::other) != (shape.scale == q::Scale::none))
    refuse("out is none with scale none, and only then");
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
      : shape.columns == 0           ? !shape.whole()
                                     : fitted.columns != shape.columns) {
    refuse(
        "columns is none of the classes: 0 for blocks and for rows too long for registers; for pieces of rows powers "
        "of "
        "two from 128 to 1024, or to 512 with x f32 or access below 16; for whole rows also the multiples of the "
        "largest, of 512 up to 8192 where a norm has a residual");
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
  kConstants.define(shape, &unit);
  define("OUT", device_type(shape.out == Dtype::other ? Dtype::e4m3 : shape.out));
  define("TEAM", std::to_string(t.team));
  define("VECTORS", std::to_string(t.vectors));
  define("THREADS", std::to_string(t.threads));
  define("BLOCKS_PER_SM", std::to_string(t.blocks_per_sm));
  if (!block) {
    define("FRONT", std::string("Front::") + kFronts[static_cast<std::size_t>(shape.front)].name);
    define("SCALE", std::string("Scale::") + kScales[static_cast<std::size_t>(shape.scale)].name);
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
