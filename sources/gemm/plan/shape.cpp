// Shapes to specs, units and manifest constants.
// SPDX-License-Identifier: Apache-2.0
#include "sources/gemm/plan/shape.h"

#include <algorithm>
#include <span>
#include <string>

#include "jit/error.h"
#include "sources/common_headers.h"
#include "sources/constants.h"
#include "sources/embedded.h"
#include "sources/gemm/plan/tiling.h"

namespace quern::ops::gemm {
namespace {

constexpr auto kVariantNames = [] {
  std::array<const char*, kVariants.size()> names{};
  for (std::size_t i = 0; i < names.size(); ++i) names[i] = kVariants[i].name;
  return names;
}();
struct FamilyFacts {
  const char *file, *entry;
};
constexpr FamilyFacts kFamilies[] = {
#define QUERN_GEMM_FAMILY(name, file, entry) {file, entry},
#include "sources/gemm/plan/variants.def"
#undef QUERN_GEMM_FAMILY
};
constexpr const char* kGroupingNames[] = {"dense", "contiguous", "masked"};
constexpr const char* kScaleNames[] = {"none", "vectors", "blocks"};

constexpr std::initializer_list<const char*> kFp8 = {"e4m3", "e5m2"};
constexpr Dtype kFp8Dtypes[] = {Dtype::e4m3, Dtype::e5m2};
constexpr std::initializer_list<const char*> kFloats = {"f16", "bf16", "f32"};
constexpr std::initializer_list<const char*> kStored = {"f16", "bf16", "f32", "e4m3", "e5m2"};
constexpr Dtype kDtypes[] = {Dtype::f16, Dtype::bf16, Dtype::f32, Dtype::e4m3, Dtype::e5m2};

std::string name_of_operand(std::size_t i) { return "operand" + std::to_string(i); }

const char* op_name(Tag op) { return all()[op].name; }

}  // namespace

const char* name_of(Variant variant) { return facts_of(variant).name; }

std::optional<Variant> variant_named(std::string_view name) {
  const auto found = std::find(std::begin(kVariantNames), std::end(kVariantNames), name);
  if (found == std::end(kVariantNames)) return {};
  return static_cast<Variant>(found - std::begin(kVariantNames));
}

jit::Spec to_spec(const Shape& shape, Tag op, jit::Target target) {
  jit::Spec spec;
  spec.op = op;
  spec.target = target.tag();
  spec.words[0] = static_cast<std::uint32_t>(shape.variant) | static_cast<std::uint32_t>(shape.grouping) << 8 |
                  static_cast<std::uint32_t>(shape.scales) << 12 | static_cast<std::uint32_t>(shape.copy_bytes) << 16;
  spec.words[1] = static_cast<std::uint32_t>(shape.a) | static_cast<std::uint32_t>(shape.b) << 8 |
                  static_cast<std::uint32_t>(shape.out) << 16;
  spec.words[2] = static_cast<std::uint32_t>(shape.transposed_a) | static_cast<std::uint32_t>(shape.transposed_b) << 1 |
                  static_cast<std::uint32_t>(shape.gate) << 2 | static_cast<std::uint32_t>(shape.out_scale) << 3;
  spec.words[3] = shape.epilogue->number;
  for (std::size_t i = 0; i < shape.operands.size(); ++i)
    spec.words[4] |= static_cast<std::uint32_t>(shape.operands[i]) << 4 * i;
  return spec;
}

Shape to_shape(const jit::Spec& spec) {
  Shape shape;
  const auto& w = spec.words;
  shape.variant = static_cast<Variant>(w[0] & 255);
  shape.grouping = static_cast<Grouping>(w[0] >> 8 & 15);
  shape.scales = static_cast<Scales>(w[0] >> 12 & 15);
  shape.copy_bytes = static_cast<int>(w[0] >> 16);
  shape.a = static_cast<Dtype>(w[1] & 255), shape.b = static_cast<Dtype>(w[1] >> 8 & 255),
  shape.out = static_cast<Dtype>(w[1] >> 16);
  shape.transposed_a = (w[2] & 1) != 0, shape.transposed_b = (w[2] & 2) != 0;
  shape.gate = (w[2] & 4) != 0, shape.out_scale = (w[2] & 8) != 0;
  shape.epilogue = &expression::interned(w[3]);
  for (std::size_t i = 0; i < shape.operands.size(); ++i) shape.operands[i] = static_cast<Dtype>(w[4] >> 4 * i & 15);
  return shape;
}

Constants to_constants(const Shape& shape, Tag op) {
  Constants c = {{"variant", name_of(shape.variant)}};
  if (op == tag_gemm) {
    c.push_back({"dtype", name_of(shape.a)});
    c.push_back({"order_a", shape.transposed_a ? "km" : "mk"});
    c.push_back({"order_b", shape.transposed_b ? "kn" : "nk"});
  } else {
    if (op == tag_grouped_fp8_gemm) c.push_back({"rows", kGroupingNames[static_cast<int>(shape.grouping)]});
    c.push_back({"a", name_of(shape.a)});
    c.push_back({"b", name_of(shape.b)});
    c.push_back({"scales", kScaleNames[static_cast<int>(shape.scales)]});
  }
  c.push_back({"out", name_of(shape.out)});
  c.push_back({"gate", std::to_string(shape.gate)});
  c.push_back({"out_scale", std::to_string(shape.out_scale)});
  c.push_back({"alignment", std::to_string(shape.copy_bytes)});
  c.push_back({"epilogue", shape.epilogue->text});
  for (std::size_t i = 0; i < shape.operands.size(); ++i) {
    if (shape.epilogue->operands[i] != expression::OperandKind::unused)
      c.push_back({name_of_operand(i), name_of(shape.operands[i])});
  }
  return c;
}

Constants product_constants(const Shape& shape, Tag op, const ProductExtents& extents) {
  Constants product = {{"n", std::to_string(extents.n)}, {"k", std::to_string(extents.k)}};
  if (extents.batch != 1) product.push_back({"batch", std::to_string(extents.batch)});
  for (jit::Constant& constant : to_constants(shape, op)) {
    if (constant.name != "variant") product.push_back(std::move(constant));
  }
  return product;
}

Shape from_constants(const Constants& constants, Tag op) {
  ConstantReader reader(op_name(op), constants);
  Shape shape;
  const std::size_t variant = reader.one_of("variant", std::span(kVariantNames));
  shape.variant = static_cast<Variant>(variant);
  if (op == tag_gemm) {
    shape.a = shape.b = kDtypes[reader.one_of("dtype", kFloats)];
    shape.transposed_a = reader.one_of("order_a", {"mk", "km"}, 0) == 1;
    shape.transposed_b = reader.one_of("order_b", {"nk", "kn"}, 0) == 1;
  } else {
    if (op == tag_grouped_fp8_gemm) {
      shape.grouping =
          reader.one_of("rows", {kGroupingNames[1], kGroupingNames[2]}) == 0 ? Grouping::contiguous : Grouping::masked;
    }
    shape.a = kFp8Dtypes[reader.one_of("a", kFp8, 0)];
    shape.b = kFp8Dtypes[reader.one_of("b", kFp8, 0)];
    shape.scales = reader.one_of("scales", {kScaleNames[1], kScaleNames[2]}) == 0 ? Scales::vectors : Scales::blocks;
  }
  if (shape.variant == Variant::plain && shape.a != Dtype::f32)
    throw Error(QUERN_INVALID, std::string(op_name(op)) + ": variant is \"plain\"; allowed for dtype f32 only");
  shape.out = kDtypes[reader.one_of("out", kStored, 1)];
  shape.gate = reader.integer("gate", 0, 1, 1, 0) != 0;
  shape.out_scale = reader.integer("out_scale", 0, 1, 1, 0) != 0;
  if (shape.out_scale && bytes_of(shape.out) != 1)
    throw Error(QUERN_INVALID, std::string(op_name(op)) + ": out_scale is 1; allowed where out is e4m3 or e5m2 only");
  shape.copy_bytes = reader.one_of("alignment", {"16", "4"}, 0) == 0 ? 16 : 4;
  shape.epilogue = &expression::intern(reader.text("epilogue", shape.gate ? "silu(gate)*up" : "acc"));
  const std::uint32_t offered = shape.gate ? expression::leaf_gate | expression::leaf_up : expression::leaf_acc;
  if ((shape.epilogue->leaves & ~offered) != 0) {
    throw Error(QUERN_INVALID, std::string(op_name(op)) + ": epilogue is \"" + shape.epilogue->text +
                                   "\"; allowed are the results " + (shape.gate ? "gate and up" : "acc"));
  }
  for (std::size_t i = 0; i < shape.operands.size(); ++i) {
    if (shape.epilogue->operands[i] == expression::OperandKind::unused) continue;
    shape.operands[i] = kDtypes[reader.one_of(name_of_operand(i).c_str(), kStored, 2)];
  }
  reader.finish();
  return shape;
}

jit::Unit to_unit(const Shape& shape, Tag op, jit::Target target) {
  const std::optional<Tiling> tiling = tile(shape, jit::limits_of(target));
  if (!tiling) {
    throw Error(QUERN_UNSUPPORTED, std::string(op_name(op)) + " in the variant " + name_of(shape.variant) +
                                       " is not for " + target.name() + ", or does not fit its shared memory");
  }
  const Tiling& t = *tiling;
  jit::Unit unit;
  unit.op = op_name(op);
  unit.target = target;
  const Family family = facts_of(shape.variant).family;
  const FamilyFacts& kernel = kFamilies[static_cast<std::size_t>(family)];
  unit.entry = kernel.entry;
  const auto define = [&](const std::string& name, int value) {
    unit.constants.push_back({name, std::to_string(value)});
  };
  unit.constants = {{"ELEMENT_A", name_of(shape.a)}, {"ELEMENT_B", name_of(shape.b)}, {"OUT", name_of(shape.out)}};
  define("TENSOR_CORES", shape.variant != Variant::plain);
  define("TILE_M", t.tile_m);
  define("TILE_N", t.tile_n);
  define("STEP_K", t.step_k);
  define("STAGES", t.stages);
  if (family == Family::small_m || family == Family::split_k) {
    define("STEPS_OF_A", t.steps_of_a);
    define("COLUMN_GROUPS", t.column_groups);
  }
  define("WARPS_M", t.warps_m);
  define("WARPS_N", t.warps_n);
  define("THREADS", t.threads);
  define("TEAMS", t.teams);
  define("BLOCKS_PER_SM", t.blocks_per_sm);
  define("SHARED_TILES", t.shared);
  define("CONTINUOUS", t.continuous);
  define("OVERLAPPED_EPILOGUE", shape.variant == Variant::overlapped_128x256);
  define("COPY_BYTES", shape.copy_bytes);
  define("TRANSPOSED_A", shape.transposed_a);
  define("TRANSPOSED_B", shape.transposed_b);
  define("GROUPING", static_cast<int>(shape.grouping));
  define("SCALED", shape.scales == Scales::vectors);
  define("BLOCK_SCALE", shape.scales == Scales::blocks);
  define("GATE", shape.gate);
  define("OUT_SCALE", shape.out_scale);
  define("PLAIN_FORMULA", shape.epilogue->code == "acc");
  define("USES_OPERANDS",
         std::any_of(shape.epilogue->operands.begin(), shape.epilogue->operands.end(),
                     [](expression::OperandKind kind) { return kind != expression::OperandKind::unused; }));
  for (std::size_t i = 0; i < shape.operands.size(); ++i) {
    const expression::OperandKind kind = shape.epilogue->operands[i];
    if (kind == expression::OperandKind::unused) continue;
    const std::string dtype = name_of(shape.operands[i]);
    unit.constants.push_back({"OPERAND_" + std::to_string(i),
                              (kind == expression::OperandKind::row ? "RowOperand<" : "TensorOperand<") + dtype + ">"});
  }
  unit.constants.push_back({"EPILOGUE", shape.epilogue->code});
  unit.source = embedded(std::string("gemm/kernels/") + kernel.file + ".cuh");
  unit.headers = device_headers(target);
  unit.max_shared_bytes = t.shared_bytes;
  // The assembler's third level takes up to half as long again over loops that widen 8-bit operands, and makes them
  // slower.
  if (family == Family::portable && bytes_of(shape.a) == 1 && target.family() == jit::Family::cuda)
    unit.options.emplace_back("--ptxas-options=-O2");
  return unit;
}

}  // namespace quern::ops::gemm
