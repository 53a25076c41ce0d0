// The constants of the kernels of quantized_gemm, their tiles, and what a model needs.
// SPDX-License-Identifier: Apache-2.0
#include "sources/quantized_gemm/shape.h"

#include <algorithm>
#include <cmath>
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

int round_up(int a, int b) { return (a + b - 1) / b * b; }

// What sources/quantized_gemm/staged.cuh lays out.
int stage_bytes(const Shape& shape, int tile_m, int tile_n, int block_k) {
  const auto line = [&](Code code) { return block_k * bits_of(code) / 8 + 4 * bits_of(code); };
  const int groups = shape.group == 0 || shape.group >= block_k ? 1 : block_k / shape.group;
  const int scales = (shape.groups_a ? tile_m : 0) + (shape.groups_b ? tile_n : 0) + (shape.zeros ? tile_n : 0);
  return round_up(tile_m * line(shape.code_a) + tile_n * line(shape.code_b) + 4 * groups * scales, 128);
}

// Rows and columns of sums, and how warps and multiprocessors divide them.
struct Form {
  int tile_m, tile_n, warps_m, warps_n, blocks_per_sm, most_stages;
};
Form form_of(const Shape& shape, Variant rows, int columns) {
  // The 128 columns of a scale of results lie in one tile.
  const bool wide = shape.gate && shape.out_scale;
  const int n = wide ? 256 : columns, warps_n = wide ? 8 : 4;
  switch (rows) {
    case Variant::rows16:  // bound by reading b: many bytes in flight
      return {16, n, 1, warps_n, wide ? 1 : 3, 8};
    case Variant::rows32:
      return {32, n, 1, warps_n, wide ? 1 : 3, 6};
    case Variant::rows64:
      return {64, n, wide ? 1 : 2, warps_n, 1, 5};
    default:
      return {wide ? 64 : 128, n, wide ? 1 : 2, warps_n, 1, 4};
  }
}

std::optional<Tiling> tile_by(const Shape& shape, Variant rows, int columns, int block_k,
                              const jit::TargetInfo& target) {
  constexpr int kFewestStages = 3;          // scales are stored a k block ahead of their use
  constexpr std::uint32_t kReserve = 1024;  // bytes that the hardware and static arrays take
  const Form form = form_of(shape, rows, columns);
  Tiling t{};
  t.tile_m = form.tile_m, t.tile_n = form.tile_n, t.block_k = block_k;
  t.warps_m = form.warps_m, t.warps_n = form.warps_n;
  t.threads = form.warps_m * form.warps_n * static_cast<int>(target.warp_size);
  t.stage_bytes = stage_bytes(shape, t.tile_m, t.tile_n, block_k);
  const auto stage = static_cast<std::uint32_t>(t.stage_bytes);
  const auto staged = static_cast<std::uint32_t>(16 * form.warps_m * (t.tile_n + 4) * 4);
  for (t.blocks_per_sm = form.blocks_per_sm; t.blocks_per_sm >= 1; --t.blocks_per_sm) {
    const auto blocks = static_cast<std::uint32_t>(t.blocks_per_sm);
    const std::uint32_t room = std::min(target.shared_per_block, target.shared_per_sm / blocks);
    const std::uint32_t fixed = staged + kReserve;
    const int stages = room <= fixed ? 0 : static_cast<int>((room - fixed) / stage);
    if (stages < kFewestStages + (blocks > 1 ? 1 : 0)) continue;
    t.stages = std::min(stages, form.most_stages);
    t.shared_bytes = static_cast<std::uint32_t>(t.stages) * stage + staged;
    return t;
  }
  return {};
}

constexpr int rows_of(Variant few) { return few == Variant::few8 ? 8 : few == Variant::few16 ? 16 : 32; }

// What sources/quantized_gemm/few/tokens.cuh lays out.
int buffer_bytes(const Shape& shape, const Tiling& t, int warps_k) {
  const int chunk = t.chunk_blocks * t.block_k, groups = shape.group == 0 ? 1 : chunk / shape.group, pitch = groups | 1;
  const int scales = (shape.groups_b ? t.tile_n : 0) + (shape.zeros ? t.tile_n : 0) +
                     (shape.groups_a && shape.group > 16 ? t.tile_m : 0);
  const int rows = chunk * t.tile_m * (shape.integers() ? 1 : 2),
            parts = 4 * std::max(warps_k / 2, 1) * t.tile_m * (t.tile_n + 4);
  return round_up(std::max(rows + 4 * scales * pitch, parts), 128);
}

// What sources/quantized_gemm/few takes. A warp has so many lines that reading a's rows from shared memory, which it
// does once for all of them, does not hold up reading b.
std::optional<Tiling> few_tile(const Shape& shape, const jit::TargetInfo& target) {
  constexpr int kStepK = 128;
  constexpr std::uint32_t kReserve = 1024;
  const bool eight = shape.rows == Variant::few8;
  if (!target.async_copy || (eight && target.warp_size != 32)) return {};
  if ((shape.columns & (shape.columns - 1)) != 0) return {};  // 176 and 192 are Variant::integers'
  // With a gate each half is some warps' own; a scale of results takes 128 columns of one tile.
  if (shape.columns < (shape.gate ? 2 : 1) * (shape.out_scale ? 128 : 32)) return {};
  Tiling t{};
  t.tile_m = rows_of(shape.rows);
  t.tile_n = shape.columns;
  const int bits = bits_of(shape.code_b), lines = bits == 4 || t.tile_m == 32 ? 32 : 16;
  const int slot = lines * kStepK * bits / 8, warp = static_cast<int>(target.warp_size);
  t.warps_m = 1, t.warps_n = t.tile_n / lines, t.blocks_per_sm = 1;
  // 32 rows of narrow tiles would have chunks of so many k that little is left for b.
  for (t.threads = t.tile_m == 32 && t.tile_n <= 64 ? 256 : 512; t.threads >= 256; t.threads /= 2) {
    const int warps = t.threads / warp, warps_k = warps / t.warps_n;
    if (warps_k == 0) break;
    t.block_k = warps_k * kStepK;
    // Chunks are as long as fits a fifth of the memory.
    const int longest = 16384 / t.tile_m / t.block_k;
    for (t.chunk_blocks = 1; t.chunk_blocks < longest; t.chunk_blocks *= 2) {
      Tiling next = t;
      next.chunk_blocks *= 2;
      if (buffer_bytes(shape, next, warps_k) > static_cast<int>(target.shared_per_block / 5)) break;
    }
    t.stage_bytes = buffer_bytes(shape, t, warps_k);
    for (t.stages = 4; t.stages >= 2; --t.stages) {
      t.shared_bytes = static_cast<std::uint32_t>(warps * t.stages * slot + 2 * t.stage_bytes);
      if (t.shared_bytes + kReserve <= target.shared_per_block) return t;
    }
  }
  return {};
}

// How long few rows take beyond what every call does, in nanoseconds, roughly: to choose by. Of whole tiles, or of all
// tiles' k blocks if blocks of threads divide them evenly. Measured on an H200: a multiprocessor reads and unpacks so
// many bytes a nanosecond; multiplying takes time as if a line had more bytes; every tile reads a's rows besides, as if
// they were some more of them; and blocks add up their sums.
struct Cost {
  double whole, divided;
  double least() const { return std::min(whole, divided); }
};
Cost cost_of(const Shape& shape, const Extents& call) {
  const int bits = bits_of(shape.code_b), rows = rows_of(shape.rows), columns = shape.columns;
  double bytes = bits / 8.0, of_rows = rows == 8 ? 7 : 20;  // of a line and a k; of a's rows and a k
  if (rows == 16) bytes += bits == 4 ? 0.1 : 0.05;
  if (rows == 32) {
    const bool scaled = shape.code_b == Code::e2m1;
    bytes += bits == 8 ? (shape.integers() ? 0.1 : 0.2) : scaled ? 0.63 : shape.zeros ? 0.73 : 0.53;
    if (bits == 8 || scaled) of_rows = shape.groups_a && shape.group == 16 ? 56 : 34;
  }
  if (shape.integers()) of_rows *= bits == 8 && rows == 32 ? 0.24 : 0.4;
  const double k = static_cast<double>(call.k) / (bits == 4 ? 28 : 34), adding_up = 6500 + rows * columns;
  const auto tiles = static_cast<double>((call.lines + columns - 1) / columns), sms = static_cast<double>(call.sms);
  return {std::ceil(tiles / sms) * (columns * bytes + of_rows) * k,
          (static_cast<double>(call.lines) * bytes + tiles * of_rows) * k / sms + adding_up};
}
// Integers of 4 bits are unpacked and scaled by rows32 as fast, from some size of b on.
double cost_of_rows32(const Extents& call) {
  return static_cast<double>(call.lines) * static_cast<double>(call.k) / 2 / (12.5 * call.sms) + 7500;
}

// With tiles of as many columns as is best for a call, if there is room for any.
std::optional<Shape> with_columns(Shape shape, const Extents& call, const jit::TargetInfo& target) {
  std::optional<Shape> best;
  double least = 0;
  for (const int columns : {256, 128, 64, 32}) {
    shape.columns = columns;
    const double time = cost_of(shape, call).least();
    if (!tile(shape, target) || (best && time >= least)) continue;
    best = shape, least = time;
  }
  const bool unpacked = !shape.integers() && (shape.code_b == Code::int4 || shape.code_b == Code::uint4);
  if (shape.rows == Variant::few32 && unpacked && least > cost_of_rows32(call)) return {};
  return best;
}

// What is taken instead of a shape that a target has no room for; rows16 itself if there is no other.
Shape next_best(Shape shape) {
  if (is_few(shape.rows) && shape.columns < 256) {
    shape.columns = shape.columns < 128 ? 2 * shape.columns : 256;
    return shape;
  }
  shape.columns = 128;
  switch (shape.rows) {
    case Variant::warpgroups:
    case Variant::integers:
      shape.rows = Variant::rows128;
      break;
    case Variant::rows128:
      shape.rows = Variant::rows64;
      break;
    case Variant::rows64:
    case Variant::few32:
      shape.rows = Variant::rows32;
      break;
    case Variant::few8:
      shape.rows = Variant::few16;
      break;
    default:
      shape.rows = Variant::rows16;
  }
  return shape;
}
Shape fitting(Shape shape, const jit::TargetInfo& target) {
  while (!tile(shape, target)) {
    if (shape.rows == Variant::rows16) {
      throw Error(QUERN_UNSUPPORTED,
                  "a product of these numbers does not fit the shared memory of " + target.target.name());
    }
    shape = next_best(shape);
  }
  return shape;
}

}  // namespace

std::optional<Tiling> tile(const Shape& shape, const jit::TargetInfo& target) {
  if (is_few(shape.rows)) return few_tile(shape, target);
  if (shape.rows == Variant::warpgroups) return tile_warpgroups(shape, target);
  if (shape.rows == Variant::integers) return tile_integers(shape, target);
  // All variants have the same k blocks, within which groups are summed, so that a row has the same bits in each.
  // Groups of integers are never divided.
  int block_k = bits_of(shape.code_a) == 16 && bits_of(shape.code_b) == 8 ? 64 : 128;
  const bool whole = shape.integers() && shape.group == 128;
  if (!whole && !tile_by(shape, Variant::rows128, 128, block_k, target)) block_k = 64;
  // Fewer columns where there is little shared memory.
  for (const int columns : {128, 64}) {
    if (columns < 128 && shape.out_scale) break;
    if (const std::optional<Tiling> t = tile_by(shape, shape.rows, columns, block_k, target)) return t;
  }
  return {};
}

bool pays_to_divide(const Shape& shape, const Extents& call) {
  const Cost cost = cost_of(shape, call);
  return cost.divided < cost.whole;
}

Shape choose(const Shape& shape, const Extents& call, const jit::TargetInfo& target) {
  Shape wanted = shape;
  const std::int64_t rows = call.rows;
  // Not every target has tiles of eight rows.
  for (const Variant few : {Variant::few8, Variant::few16, Variant::few32}) {
    wanted.rows = few;
    if (call.invariant || rows > rows_of(few)) continue;
    if (const std::optional<Shape> best = with_columns(wanted, call, target)) return *best;
  }
  wanted.columns = 128;
  // Up to here weights are read as fast as the other tiles multiply.
  constexpr std::int64_t kFewRows = 64;
  if (!call.invariant && rows > kFewRows && call.mapped && tile_warpgroups(shape, target)) {
    wanted.rows = Variant::warpgroups;
    return wanted;
  }
  if (rows > kFewRows) {
    if (const std::optional<Shape> best = choose_integers(wanted, call, target)) return *best;
  }
  wanted.rows = rows <= 16   ? Variant::rows16
                : rows <= 32 ? Variant::rows32
                : rows <= 64 ? Variant::rows64
                             : Variant::rows128;
  return fitting(wanted, target);
}

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
  unit.source = embedded(is_few(shape.rows) ? "quantized_gemm/few/product.cuh"
                         : warpgroups       ? "quantized_gemm/kernels/sm90/product.cuh"
                         : integers         ? "quantized_gemm/kernels/sm90/integers.cuh"
                                            : "quantized_gemm/product.cuh");
  unit.headers = device_headers(target);
  unit.max_shared_bytes = t.shared_bytes;
  return unit;
}

// A quern_model has no weights of 8 or 4 bits but those of fp8_gemm: who knows of others names lines.
void list(const quern_model&, const jit::TargetInfo&, std::vector<jit::Spec>*) {}

}  // namespace

const Op op{"quantized_gemm", unit, parse, list, constants};

}  // namespace quern::ops::quantized_gemm
