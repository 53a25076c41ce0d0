// The constants of the kernels of quantized_gemm: specs, lines of a manifest, units to compile.
// SPDX-License-Identifier: Apache-2.0
#include "sources/quantized_gemm/plan/shape.h"

#include <string>

#include "jit/error.h"
#include "sources/common_headers.h"
#include "sources/description.h"
#include "sources/embedded.h"
#include "sources/gemm/plan/epilogue_constants.h"
#include "sources/ops.h"

namespace quern::ops::quantized_gemm {
namespace {

constexpr Names<Variant, kVariants> kRows = {{{"rows16", Variant::rows16},
                                              {"rows32", Variant::rows32},
                                              {"rows64", Variant::rows64},
                                              {"rows128", Variant::rows128},
                                              {"few8", Variant::few8},
                                              {"few16", Variant::few16},
                                              {"few32", Variant::few32},
                                              {"warpgroups", Variant::warpgroups},
                                              {"integers", Variant::integers}}};
constexpr Names<Code, 6> kCodesOfA = {{{"f16", Code::f16},
                                       {"bf16", Code::bf16},
                                       {"int8", Code::int8},
                                       {"e4m3", Code::e4m3},
                                       {"int4", Code::int4},
                                       {"e2m1", Code::e2m1}}};
constexpr Names<Code, 6> kCodesOfB = {{{"int8", Code::int8},
                                       {"uint8", Code::uint8},
                                       {"e4m3", Code::e4m3},
                                       {"int4", Code::int4},
                                       {"uint4", Code::uint4},
                                       {"e2m1", Code::e2m1}}};
constexpr Names<Scale, 6> kScales = {{{"none", Scale::none},
                                      {"f32", Scale::f32},
                                      {"f16", Scale::f16},
                                      {"bf16", Scale::bf16},
                                      {"e4m3", Scale::e4m3},
                                      {"ue8m0", Scale::ue8m0}}};
constexpr Names<int, 5> kGroups = {{{"0", 0}, {"16", 16}, {"32", 32}, {"64", 64}, {"128", 128}}};
constexpr Names<int, 6> kColumns = {{{"32", 32}, {"64", 64}, {"128", 128}, {"176", 176}, {"192", 192}, {"256", 256}}};
constexpr Names<int, 2> kAlignments = {{{"16", 16}, {"4", 4}}};

bool takes_scales_of_a(const Shape& shape) { return bits_of(shape.code_a) < 16; }
bool takes_zeros(const Shape& shape) { return is_unsigned(shape.code_b); }
bool has_columns(const Shape& shape) { return is_few(shape.rows) || shape.rows == Variant::integers; }
bool in_groups(const Shape& shape) { return shape.group != 0; }

constexpr auto kConstants = describe<Shape>(
    tag_quantized_gemm, "quantized_gemm", choice<&Shape::rows>("variant", nullptr, kRows),
    choice<&Shape::columns>("columns", nullptr, kColumns).optional().when(&has_columns),
    choice<&Shape::code_a>("a", nullptr, kCodesOfA).optional(), choice<&Shape::code_b>("b", nullptr, kCodesOfB),
    choice<&Shape::scale_a>("scale_a", nullptr, kScales).optional().when(&takes_scales_of_a),
    choice<&Shape::scale_b>("scale_b", nullptr, kScales).optional(),
    choice<&Shape::group>("group", nullptr, kGroups).optional(),
    flag<&Shape::groups_a>("groups_a", nullptr).optional().when(&in_groups),
    flag<&Shape::groups_b>("groups_b", nullptr).optional().when(&in_groups),
    flag<&Shape::zeros>("zeros", nullptr).optional().when(&takes_zeros),
    choice<&Shape::out>("out", nullptr, gemm::kStored).optional(), flag<&Shape::gate>("gate", nullptr).optional(),
    flag<&Shape::out_scale>("out_scale", nullptr).optional(),
    choice<&Shape::copy_bytes>("alignment", nullptr, kAlignments).optional(), gemm::EpilogueConstant{},
    gemm::OperandConstant<0>{}, gemm::OperandConstant<1>{}, gemm::OperandConstant<2>{}, gemm::OperandConstant<3>{},
    gemm::OperandConstant<4>{}, gemm::OperandConstant<5>{}, gemm::OperandConstant<6>{}, gemm::OperandConstant<7>{});

// The names of the kernel's types.
const char* type_of(Code code) {
  switch (code) {
    case Code::f16:
      return "f16";
    case Code::bf16:
      return "bf16";
    case Code::int8:
      return "i8";
    case Code::uint8:
      return "u8";
    case Code::e4m3:
      return "e4m3";
    case Code::int4:
      return "Int4";
    case Code::uint4:
      return "Uint4";
    default:
      return "E2m1";
  }
}
const char* type_of(Scale scale) {
  switch (scale) {
    case Scale::f16:
      return "f16";
    case Scale::bf16:
      return "bf16";
    case Scale::e4m3:
      return "e4m3";
    case Scale::ue8m0:
      return "Ue8m0";
    default:
      return "f32";
  }
}

}  // namespace

std::optional<Variant> variant_named(std::string_view name) {
  for (const auto& each : kRows) {
    if (each.name == name) return each.value;
  }
  return {};
}
jit::Spec to_spec(const Shape& shape, jit::Target target) { return kConstants.to_spec(shape, target); }
Shape to_shape(const jit::Spec& spec) { return kConstants.to_shape(spec); }

namespace {

jit::Spec parse(const Constants& given, const jit::TargetInfo& target) {
  Shape shape = kConstants.read(given);
  const auto refuse = [](const std::string& text) { throw Error(QUERN_INVALID, "quantized_gemm: " + text); };
  if (shape.groups_a && shape.scale_a == Scale::none) refuse("groups_a is 1; allowed with scale_a");
  if (shape.groups_b && shape.scale_b == Scale::none) refuse("groups_b is 1; allowed with scale_b");
  if (shape.group != 0 && !shape.groups_a && !shape.groups_b)
    refuse("group is " + std::to_string(shape.group) + "; allowed with groups_a or groups_b");
  gemm::check_epilogue(shape, "quantized_gemm");
  // So that one line is for every target: what a call of so many rows takes there.
  shape = fitting(shape, target);
  return to_spec(shape, target.target);
}
Constants constants(const jit::Spec& spec) { return kConstants.to_constants(to_shape(spec)); }

jit::Unit unit(const jit::Spec& spec) {
  const Shape shape = to_shape(spec);
  const jit::Target target = jit::Target::from_tag(spec.target);
  const std::optional<Tiling> tiling = tile(shape, jit::limits_of(target));
  if (!tiling) throw Error(QUERN_UNSUPPORTED, "quantized_gemm does not fit the shared memory of " + target.name());
  const Tiling& t = *tiling;
  jit::Unit unit;
  unit.op = "quantized_gemm";
  unit.target = target;
  const bool warpgroups = shape.rows == Variant::warpgroups, integers = shape.rows == Variant::integers;
  unit.entry = warpgroups ? "quern_quantized_gemm_warpgroups"
               : integers ? "quern_quantized_gemm_integers"
                          : "quern_quantized_gemm";
  const char* const element = integers ? "i8" : "u8";
  unit.constants = {{"ELEMENT_A", element},
                    {"ELEMENT_B", element},
                    {"OUT", name_of(shape.out)},
                    {"CODE_A", type_of(shape.code_a)},
                    {"CODE_B", type_of(shape.code_b)},
                    {"SCALE_A", type_of(shape.scale_a)},
                    {"SCALE_B", type_of(shape.scale_b)}};
  const auto define = [&](const char* name, int value) { unit.constants.push_back({name, std::to_string(value)}); };
  define("GROUP", shape.group);
  define("GROUPS_A", shape.groups_a);
  define("GROUPS_B", shape.groups_b);
  define("ZEROS", shape.zeros);
  define("TILE_M", t.tile_m);
  define("TILE_N", t.tile_n);
  define("BLOCK_K", t.block_k);
  define("STAGES", t.stages);
  define(is_few(shape.rows) ? "FEW_BUFFER" : "QUANTIZED_STAGE", t.stage_bytes);
  if (is_few(shape.rows)) define("CHUNK_BLOCKS", t.chunk_blocks);
  define("WARPS_M", t.warps_m);
  define("WARPS_N", t.warps_n);
  define("THREADS", t.threads);
  define("BLOCKS_PER_SM", t.blocks_per_sm);
  define("COPY_BYTES", shape.copy_bytes);
  // What the layers that this kernel shares with other products ask for.
  define("STREAM_K", !integers);
  define("SCALED", integers);
  for (const char* name :
       {"CONTINUOUS", "OVERLAPPED_EPILOGUE", "TRANSPOSED_A", "TRANSPOSED_B", "GROUPING", "BLOCK_SCALE"}) {
    define(name, 0);
  }
  gemm::define_epilogue(shape, &unit);
  unit.source = embedded(is_few(shape.rows) ? "quantized_gemm/kernels/few/product.cuh"
                         : warpgroups       ? "quantized_gemm/kernels/sm90/product.cuh"
                         : integers         ? "quantized_gemm/kernels/sm90/integers.cuh"
                                            : "quantized_gemm/kernels/portable/product.cuh");
  unit.headers = device_headers(target);
  unit.max_shared_bytes = t.shared_bytes;
  return unit;
}

// A quern_model has no weights of 8 or 4 bits but those of fp8_gemm: who knows of others names lines.
void list(const quern_model&, const jit::TargetInfo&, std::vector<jit::Spec>*) {}

}  // namespace

const Op op{"quantized_gemm", unit, parse, list, constants};

}  // namespace quern::ops::quantized_gemm
