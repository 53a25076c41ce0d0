// Converts shapes to specs, compilation units and manifest constants, and back.
// SPDX-License-Identifier: Apache-2.0
#include "sources/gemm/plan/shape.h"

#include <algorithm>
#include <string>

#include "jit/error.h"
#include "sources/common_headers.h"
#include "sources/description.h"
#include "sources/embedded.h"
#include "sources/gemm/plan/epilogue_constants.h"
#include "sources/gemm/plan/tiling.h"

namespace quern::ops::gemm {
namespace {

constexpr auto kVariantNames = [] {
  Names<Variant, kVariants.size()> names{};
  for (std::size_t i = 0; i < names.size(); ++i) names[i] = {kVariants[i].name, static_cast<Variant>(i)};
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
constexpr Names<Scales, 2> kScaleNames = {{{"vectors", Scales::vectors}, {"blocks", Scales::blocks}}};
constexpr Names<Grouping, 2> kGroupings = {{{"contiguous", Grouping::contiguous}, {"masked", Grouping::masked}}};
constexpr Names<bool, 2> kOrdersOfA = {{{"mk", false}, {"km", true}}}, kOrdersOfB = {{{"nk", false}, {"kn", true}}};
constexpr Names<int, 2> kAlignments = {{{"16", 16}, {"4", 4}}};

// The three ops have the same constants; each op leaves out those in which it has no choice.
constexpr auto kVariant = choice<&Shape::variant>("variant", nullptr, kVariantNames);
constexpr auto kA = choice<&Shape::a>("a", nullptr, kFp8Dtypes).optional();
constexpr auto kB = choice<&Shape::b>("b", nullptr, kFp8Dtypes).optional();
constexpr auto kScales = choice<&Shape::scales>("scales", nullptr, kScaleNames);

template <class... Own>
constexpr auto describe_product(Tag op, const char* name, const Own&... own) {
  return describe<Shape>(op, name, kVariant, own..., choice<&Shape::out>("out", nullptr, kStored).optional(),
                         flag<&Shape::gate>("gate", nullptr).optional(),
                         flag<&Shape::out_scale>("out_scale", nullptr).optional(),
                         choice<&Shape::copy_bytes>("alignment", nullptr, kAlignments).optional(), EpilogueConstant{},
                         OperandConstant<0>{}, OperandConstant<1>{}, OperandConstant<2>{}, OperandConstant<3>{},
                         OperandConstant<4>{}, OperandConstant<5>{}, OperandConstant<6>{}, OperandConstant<7>{});
}
constexpr auto kGemm = describe_product(tag_gemm, "gemm", choice<&Shape::a>("dtype", nullptr, kFloatDtypes),
                                        choice<&Shape::transposed_a>("order_a", nullptr, kOrdersOfA).optional(),
                                        choice<&Shape::transposed_b>("order_b", nullptr, kOrdersOfB).optional());
constexpr auto kFp8Gemm = describe_product(tag_fp8_gemm, "fp8_gemm", kA, kB, kScales);
constexpr auto kGroupedFp8Gemm = describe_product(
    tag_grouped_fp8_gemm, "grouped_fp8_gemm", choice<&Shape::grouping>("rows", nullptr, kGroupings), kA, kB, kScales);

template <class Visit>
auto with_description(Tag op, const Visit& visit) {
  if (op == tag_gemm) return visit(kGemm);
  if (op == tag_fp8_gemm) return visit(kFp8Gemm);
  return visit(kGroupedFp8Gemm);
}

const char* op_name(Tag op) { return all()[op].name; }

}  // namespace

const char* name_of(Variant variant) { return facts_of(variant).name; }

std::optional<Variant> variant_named(std::string_view name) {
  for (const auto& each : kVariantNames) {
    if (each.name == name) return each.value;
  }
  return {};
}

jit::Spec to_spec(const Shape& given, Tag op, jit::Target target) {
  Shape shape = given;
  // The kernels for contiguous rows of experts that take no rows by index take counts as well: what else differs are
  // strides.
  const bool by_tensor_maps = is_a(Family::persistent, shape.variant) || is_a(Family::swap_ab, shape.variant);
  if (shape.grouping == Grouping::masked && by_tensor_maps) shape.grouping = Grouping::contiguous;
  return with_description(op, [&](const auto& constants) { return constants.to_spec(shape, target); });
}

Shape to_shape(const jit::Spec& spec) {
  const auto op = static_cast<Tag>(spec.op);
  Shape shape = with_description(op, [&](const auto& constants) { return constants.to_shape(spec); });
  if (op == tag_gemm) shape.b = shape.a;
  return shape;
}

Constants to_constants(const Shape& shape, Tag op) {
  return with_description(op, [&](const auto& constants) { return constants.to_constants(shape); });
}

Constants product_constants(const Shape& shape, Tag op, const ProductExtents& extents) {
  Constants product = {{"n", std::to_string(extents.n)}, {"k", std::to_string(extents.k)}};
  if (extents.batch != 1) product.push_back({"batch", std::to_string(extents.batch)});
  for (jit::Constant& constant : to_constants(shape, op)) {
    if (constant.name != "variant") product.push_back(std::move(constant));
  }
  return product;
}

void check_epilogue(const Shape& shape, const std::string& op) {
  if (shape.out_scale && bytes_of(shape.out) != 1)
    throw Error(QUERN_INVALID, op + ": out_scale is 1; allowed where out is e4m3 or e5m2 only");
  const std::uint32_t offered = shape.gate ? expression::leaf_gate | expression::leaf_up : expression::leaf_acc;
  if ((shape.epilogue->leaves & ~offered) != 0) {
    throw Error(QUERN_INVALID,
                op + ": epilogue is \"" + shape.epilogue->text +
                    "\"; allowed are a number as its value, rowN, colN, tensorN, scalarN and the results " +
                    (shape.gate ? "gate and up" : "acc"));
  }
}

void define_epilogue(const Shape& shape, jit::Unit* unit) {
  const auto define = [&](const char* name, int value) { unit->constants.push_back({name, std::to_string(value)}); };
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
    unit->constants.push_back(
        {"OPERAND_" + std::to_string(i),
         (kind == expression::OperandKind::row ? "RowOperand<" : "TensorOperand<") + dtype + ">"});
  }
  unit->constants.push_back({"EPILOGUE", shape.epilogue->code});
}

Shape from_constants(const Constants& constants, Tag op) {
  Shape missing;
  if (op != tag_gemm) missing.a = missing.b = Dtype::e4m3;
  Shape shape = with_description(op, [&](const auto& description) { return description.read(constants, missing); });
  if (op == tag_gemm) shape.b = shape.a;
  if (shape.variant == Variant::plain && shape.a != Dtype::f32)
    throw Error(QUERN_INVALID, std::string(op_name(op)) + ": variant is \"plain\"; allowed for dtype f32 only");
  check_epilogue(shape, op_name(op));
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
  // To the kernel of fitted b is the first operand.
  const bool swapped = family == Family::fitted;
  unit.constants = {{"ELEMENT_A", name_of(swapped ? shape.b : shape.a)},
                    {"ELEMENT_B", name_of(swapped ? shape.a : shape.b)},
                    {"OUT", name_of(shape.out)}};
  define("TENSOR_CORES", shape.variant != Variant::plain);
  define("TILE_M", swapped ? t.tile_n : t.tile_m);
  define("TILE_N", swapped ? t.tile_m : t.tile_n);
  define("BLOCK_K", t.block_k);
  define("STAGES", t.stages);
  if (family == Family::fitted) define("STAGE_ROOM", t.stage_room);
  if (family == Family::small_m || family == Family::split_k) {
    define("STAGES_OF_A", t.stages_of_a);
    define("COLUMN_GROUPS", t.column_groups);
  }
  define("WARPS_M", t.warps_m);
  define("WARPS_N", t.warps_n);
  define("THREADS", t.threads);
  define("TEAMS", t.teams);
  define("BLOCKS_PER_SM", t.blocks_per_sm);
  define("STREAM_K", t.stream_k);
  define("CONTINUOUS", t.continuous);
  define("OVERLAPPED_EPILOGUE", shape.variant == Variant::overlapped_128x256);
  define("COPY_BYTES", shape.copy_bytes);
  define("TRANSPOSED_A", shape.transposed_a);
  define("TRANSPOSED_B", shape.transposed_b);
  define("GROUPING", static_cast<int>(shape.grouping));
  define("SCALED", shape.scales == Scales::vectors);
  define("BLOCK_SCALE", shape.scales == Scales::blocks);
  define_epilogue(shape, &unit);
  unit.source = embedded(std::string("gemm/kernels/") + kernel.file + ".cuh");
  unit.headers = device_headers(target);
  unit.max_shared_bytes = t.shared_bytes;
  // ptxas -O3 takes up to half as long again as -O2 for loops that widen 8-bit operands, and makes them slower.
  if (family == Family::portable && bytes_of(shape.a) == 1 && target.family() == jit::Family::cuda)
    unit.options.emplace_back("--ptxas-options=-O2");
  return unit;
}

}  // namespace quern::ops::gemm
