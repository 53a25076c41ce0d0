// What a kernel of attention is specialised for, as a Spec, as a manifest line, and as the unit to compile.
// SPDX-License-Identifier: Apache-2.0
#include <string>

#include "jit/error.h"
#include "sources/attention/plan.h"
#include "sources/common_headers.h"
#include "sources/description.h"
#include "sources/embedded.h"

namespace quern::ops::attention {
namespace {

constexpr Names<Variant, kVariants> kVariantNames = {{{"decode", Variant::decode},
                                                      {"medium", Variant::medium},
                                                      {"large", Variant::large},
                                                      {"warpgroups", Variant::warpgroups},
                                                      {"streams", Variant::streams},
                                                      {"wide_few", Variant::wide_few},
                                                      {"wide", Variant::wide},
                                                      {"wide_pairs", Variant::wide_pairs}}};
constexpr Names<Dtype, 2> kElements = {{{"f16", Dtype::f16}, {"bf16", Dtype::bf16}}};
constexpr Names<Dtype, 4> kQueries = {
    {{"f16", Dtype::f16}, {"bf16", Dtype::bf16}, {"e4m3", Dtype::e4m3}, {"e5m2", Dtype::e5m2}}};
constexpr Names<Dtype, 5> kCaches = {
    {{"f16", Dtype::f16}, {"bf16", Dtype::bf16}, {"e4m3", Dtype::e4m3}, {"e5m2", Dtype::e5m2}, {"int8", Dtype::i8}}};
constexpr Names<Dtype, 4> kResults = kQueries;
constexpr Names<bool, 2> kScales = {{{"head", false}, {"token", true}}};
constexpr Names<int, 2> kAlignments = {{{"16", 16}, {"4", 4}}};

// Tokens of a page where that is a constant, 0 where only the call knows, or "ragged" for a cache without pages: two
// fields of the shape in one constant.
struct PageSize {
  static constexpr int kBits = 16;
  static constexpr std::uint32_t kRagged = 0xffff;
  static constexpr const char* kNames[] = {"0", "16", "32", "64", "128", "256", "ragged"};
  const char* name = "page_size";
  const char* macro = nullptr;

  constexpr bool is_in(const Shape&) const { return true; }
  static std::uint32_t bits_of(const Shape& shape) {
    return shape.paged ? static_cast<std::uint32_t>(shape.page_size) : kRagged;
  }
  static void set(Shape& shape, std::uint32_t bits) {
    shape.paged = bits != kRagged;
    shape.page_size = shape.paged ? static_cast<int>(bits) : 0;
  }
  std::string text(const Shape& shape) const { return shape.paged ? std::to_string(shape.page_size) : "ragged"; }
  void read(ConstantReader& reader, Shape& shape) const {
    const std::string given = kNames[reader.one_of(name, std::span<const char* const>(kNames))];
    set(shape, given == "ragged" ? kRagged : static_cast<std::uint32_t>(std::stoul(given)));
  }
};

constexpr auto kConstants = describe<Shape>(
    tag_attention, "attention", choice<&Shape::variant>("variant", nullptr, kVariantNames),
    choice<&Shape::element>("dtype", "ELEMENT", kElements), choice<&Shape::q>("q", "Q_ELEMENT", kQueries).optional(),
    choice<&Shape::cache>("cache", nullptr, kCaches).optional(),
    choice<&Shape::token_scales>("scales", nullptr, kScales).optional(),
    number<&Shape::dim_k>("dim_k", "HEAD_DIM_K", {8, kMaxDim, 8}),
    number<&Shape::dim_v>("dim_v", "HEAD_DIM_V", {8, kMaxDim, 8}).optional(),
    number<&Shape::group>("group", "GROUP", {1, 65535}).optional(), PageSize{},
    flag<&Shape::cap>("cap", "CAP").optional(), flag<&Shape::alibi>("alibi", "ALIBI").optional(),
    flag<&Shape::sinks>("sinks", "SINKS").optional(), flag<&Shape::mask>("mask", "CUSTOM_MASK").optional(),
    choice<&Shape::copy_bytes>("alignment", "COPY_BYTES", kAlignments).optional(),
    choice<&Shape::out>("out", "OUT_ELEMENT", kResults).optional());

}  // namespace

jit::Spec to_spec(const Shape& shape, jit::Target target) { return kConstants.to_spec(shape, target); }

Shape to_shape(const jit::Spec& spec) { return kConstants.to_shape(spec); }

Constants to_constants(const Shape& shape) { return kConstants.to_constants(shape); }

Shape from_constants(const Constants& constants) {
  Shape missing;
  missing.q = missing.cache = missing.out = Dtype::other;
  Shape shape = kConstants.read(constants, missing);
  if (shape.q == Dtype::other) shape.q = shape.element;
  if (shape.cache == Dtype::other) shape.cache = shape.element;
  if (shape.out == Dtype::other) shape.out = shape.element;
  if (shape.dim_v == 0) shape.dim_v = shape.dim_k;
  const auto refuse = [](const char* text) { throw Error(QUERN_INVALID, std::string("attention: ") + text); };
  if (bytes_of(shape.q) != 1 && shape.q != shape.element) refuse("q must be dtype, e4m3 or e5m2");
  if (bytes_of(shape.cache) != 1 && shape.cache != shape.element) refuse("cache must be dtype, e4m3, e5m2 or int8");
  if (bytes_of(shape.cache) != 1 && shape.token_scales) refuse("scales=token is for a cache of 8 bits");
  if (bytes_of(shape.out) != 1 && shape.out != shape.element) refuse("out must be dtype, e4m3 or e5m2");
  if (const char* refusal = refusal_of_wide(shape)) refuse(refusal);
  if (const char* refusal = refusal_of_coded_results(shape)) refuse(refusal);
  const bool wide =
      shape.variant == Variant::wide || shape.variant == Variant::wide_few || shape.variant == Variant::wide_pairs;
  if (wide && !shape.is_wide())
    refuse("variants wide, wide_few and wide_pairs are for a dim_k or dim_v larger than 256");
  if (!wide && shape.is_wide())
    refuse("dim_k and dim_v larger than 256 are for variants wide, wide_few and wide_pairs");
  return shape;
}

jit::Unit to_unit(const Shape& shape, jit::Target target) {
  const jit::TargetInfo limits = jit::limits_of(target);
  const Tiling t = tile(shape, limits);
  const bool decode = shape.variant == Variant::decode, warpgroups = shape.variant == Variant::warpgroups;
  const bool streams = shape.variant == Variant::streams, pairs = shape.variant == Variant::wide_pairs;
  const bool wide = shape.is_wide() && !pairs;
  jit::Unit unit;
  unit.op = "attention";
  unit.target = target;
  unit.entry = decode       ? "quern_attention_decode"
               : streams    ? "quern_attention_streams"
               : wide       ? "quern_attention_wide"
               : pairs      ? "quern_attention_wide_sm90"
               : warpgroups ? "quern_attention_sm90"
                            : "quern_attention_prefill";
  const auto define = [&](const char* name, auto value) {
    if constexpr (std::is_arithmetic_v<decltype(value)>) {
      unit.constants.push_back({name, std::to_string(value)});
    } else {
      unit.constants.push_back({name, value});
    }
  };
  kConstants.define(shape, &unit);
  define("CACHE_ELEMENT", shape.cache == Dtype::i8 ? "i8" : name_of(shape.cache));
  define("TOKEN_SCALES", static_cast<int>(shape.token_scales));
  define("CACHE_COPY_BYTES", shape.cache_copy_bytes());
  define("PAGED", static_cast<int>(shape.paged));
  define("PAGE_SIZE", shape.page_size);
  define("ROWS", t.rows);
  define("BLOCK_KV", t.block);
  define("STAGES", t.stages);
  define("THREADS", t.threads);
  define("BLOCKS_PER_SM", t.blocks_per_sm);
  if (warpgroups || pairs) {
    define("CONSUMERS", pairs ? 2 : t.rows / 64);
    define("QUERY_STAGES", t.query_stages);
    define("WHOLE_MAXIMA", static_cast<int>(pairs));
    define("TWO_WEIGHTS", static_cast<int>(t.two_weights));
    if (t.code_stages != 0) define("CODE_STAGES", t.code_stages);
    // One warp issues a block's copies in time where they are few.
    if (warpgroups) define("COPY_WARPS", shape.paged && shape.page_size < 128 ? 2 : 1);
    // Well below the L2 of the chips that have warpgroups, 50 MB: of one half data comes to the other by a longer way.
    define("SECTION_BYTES", 24 << 20);
  } else if (wide) {
    define("ROW_TILES", t.row_tiles);
    define("COLUMNS_AT_ONCE", t.columns);
    define("HOLD_QUERIES", static_cast<int>(t.hold_queries));
    define("MANY_ROWS", static_cast<int>(shape.variant == Variant::wide));
  } else if (!decode && !streams) {
    define("ROW_TILES", t.row_tiles);
    define("INVARIANT", static_cast<int>(shape.variant == Variant::medium));
    // Two row tiles a warp have products enough to keep the tensor cores busy with half a block of keys.
    define("KEYS_AT_ONCE", t.row_tiles == 2 && t.block == 64 ? 32 : t.block);
  }
  // Filling a pipeline and writing a result take about as long as this many blocks of keys. Streams go on.
  define("ITEM_PRICE", decode || pairs || shape.variant == Variant::wide_few ? 4 : streams ? 1 : 2);
  unit.source = embedded(decode       ? "attention/kernels/portable/decode.cuh"
                         : streams    ? "attention/kernels/sm90/decode.cuh"
                         : wide       ? "attention/kernels/portable/wide.cuh"
                         : pairs      ? "attention/kernels/sm90/wide.cuh"
                         : warpgroups ? "attention/kernels/sm90/prefill.cuh"
                                      : "attention/kernels/portable/prefill.cuh");
  unit.headers = device_headers(target);
  unit.max_shared_bytes = t.shared_bytes;
  return unit;
}

}  // namespace quern::ops::attention
