// Shapes to kernels, tilings, specs, units and manifest constants.
// SPDX-License-Identifier: Apache-2.0
#include "sources/mla_decode/plan.h"

#include <algorithm>
#include <iterator>
#include <string>

#include "jit/error.h"
#include "sources/common_headers.h"
#include "sources/description.h"
#include "sources/embedded.h"

namespace quern::ops::mla_decode {
namespace {

constexpr Names<Variant, kVariants> kVariantNames = {{{"rows16", Variant::rows16},
                                                      {"rows32", Variant::rows32},
                                                      {"rows64", Variant::rows64},
                                                      {"gather64", Variant::gather64},
                                                      {"few16", Variant::few16},
                                                      {"combine", Variant::combine}}};
constexpr Names<Dtype, 2> kElements = {{{"f16", Dtype::f16}, {"bf16", Dtype::bf16}}};
constexpr Names<q::CacheKind, 4> kKinds = {{{"plain", q::CacheKind::plain},
                                            {"e4m3_tensor", q::CacheKind::e4m3_tensor},
                                            {"e4m3_token", q::CacheKind::e4m3_token},
                                            {"rows656", q::CacheKind::rows656}}};
constexpr Names<Indexed, 3> kIndexed = {
    {{"no", Indexed::no}, {"positions", Indexed::positions}, {"slots", Indexed::slots}}};
constexpr Names<int, 2> kAlignments = {{{"16", 16}, {"4", 4}}};
constexpr Names<int, 4> kPageRows = {{{"8", 8}, {"16", 16}, {"32", 32}, {"64", 64}}};
constexpr Names<int, 3> kRows = {{{"16", 16}, {"32", 32}, {"64", 64}}};
constexpr Names<int, 4> kBlocks = {{{"16", 16}, {"32", 32}, {"64", 64}, {"128", 128}}};

constexpr bool combines(const Shape& shape) { return shape.variant == Variant::combine; }
constexpr bool multiplies(const Shape& shape) { return shape.variant != Variant::combine; }
constexpr bool is_rows64(const Shape& shape) { return shape.variant == Variant::rows64; }
constexpr bool may_be_listed(const Shape& shape) { return shape.variant != Variant::rows64; }
// Keys of 8 bits become numbers of 16. What they become goes to both blocks of a cluster; what cp.async copies goes to
// the block's own memory alone.
constexpr bool widens(const Shape& shape) {
  return shape.variant == Variant::gather64 && shape.kind != q::CacheKind::plain;
}
constexpr bool is_portable(const Shape& shape) {
  return shape.variant == Variant::rows16 || shape.variant == Variant::rows32;
}
constexpr bool is_hopper(const Shape& shape) { return multiplies(shape) && !is_portable(shape); }
constexpr bool has_kinds(const Shape& shape) { return multiplies(shape) && !is_rows64(shape); }
constexpr bool is_quantised(const Shape& shape) {
  return shape.kind == q::CacheKind::e4m3_tensor || shape.kind == q::CacheKind::e4m3_token;
}

constexpr auto kConstants =
    describe<Shape>(tag_mla_decode, "mla_decode", choice<&Shape::variant>("variant", nullptr, kVariantNames),
                    choice<&Shape::element>("dtype", "ELEMENT", kElements),
                    choice<&Shape::kind>("cache", nullptr, kKinds).optional().when(has_kinds),
                    choice<&Shape::indexed>("indices", nullptr, kIndexed).optional().when(may_be_listed),
                    number<&Shape::d_latent>("d_latent", "D_LATENT", {16, kMaxLatent, 16}).optional(),
                    number<&Shape::d_rope>("d_rope", nullptr, {0, kMaxRope, 16}).optional().when(multiplies),
                    flag<&Shape::cap>("cap", nullptr).optional().when(multiplies),
                    flag<&Shape::paired>("paired", nullptr).optional().when(widens),
                    choice<&Shape::page_rows>("page_rows", "PAGE_ROWS", kPageRows).optional().when(is_rows64),
                    choice<&Shape::copy_bytes>("alignment", "COPY_BYTES", kAlignments).optional().when(is_portable),
                    choice<&Shape::rows>("rows", nullptr, kRows).optional().when(combines),
                    choice<&Shape::block>("block", nullptr, kBlocks).optional().when(combines));

// What a block of threads needs beyond its dynamic shared memory: what the hardware keeps.
constexpr std::uint32_t kSharedReserve = 1024;
constexpr int kCombineThreads = 256;

// Of the portable kernel: as many keys at once as there is room for, copied a block ahead where that is asynchronous.
Tiling tile_portable(const Shape& shape, const jit::TargetInfo& target) {
  struct Size {
    int block, stages;
  };
  constexpr Size kSizes[] = {{64, 2}, {32, 2}, {32, 1}, {16, 2}, {16, 1}};
  const int most = shape.variant == Variant::rows16 ? 16 : 32;
  for (const Size& size : kSizes) {
    if (!target.async_copy && size.stages > 1) continue;
    for (int rows = most; rows >= 16; rows -= 16) {
      const q::PortableLayout layout =
          q::portable_layout(shape.kind, shape.d_latent + shape.d_rope, rows, size.block, size.stages);
      const auto bytes = static_cast<std::uint32_t>(layout.end);
      if (bytes + kSharedReserve > target.shared_per_block) continue;
      Tiling t;
      t.rows = rows;
      t.block = size.block;
      t.stages = size.stages;
      t.threads = 8 * 32;
      t.blocks_per_sm = 2 * (bytes + kSharedReserve) <= target.shared_per_sm ? 2 : 1;
      t.side_by_side = 4;
      t.price = 4;
      t.shared_bytes = bytes;
      return t;
    }
  }
  throw Error(QUERN_UNSUPPORTED, "MLA decode with d_latent " + std::to_string(shape.d_latent) + " and d_rope " +
                                     std::to_string(shape.d_rope) + " does not fit the shared memory of " +
                                     target.target.name());
}

}  // namespace

int page_rows_of(std::int64_t page_size) {
  int rows = 64;
  while (page_size % rows != 0) rows /= 2;
  return rows;
}

Variant variant_of(const Shape& shape, std::int64_t heads, std::int64_t most_rows, std::int64_t page_size,
                   const jit::TargetInfo& target) {
  constexpr auto kMost =
      static_cast<std::uint32_t>(std::max(q::kRows64SharedBytes + q::kGather64Lookups, q::kFewSharedBytes));
  const bool fits = target.warpgroups && target.shared_per_block >= kMost;
  if (fits && shape.d_latent == 512 && shape.d_rope == 64 && shape.copy_bytes == 16) {
    // Tiles of 16 rows read a cache of 16 bits no faster than those of 64 do: worth while where they are all.
    if (shape.kind == q::CacheKind::plain ? most_rows <= 16 : is_quantised(shape) && heads <= 16) return Variant::few16;
    const bool mapped = shape.kind == q::CacheKind::plain && shape.indexed == Indexed::no;
    return mapped && page_rows_of(page_size) >= 8 ? Variant::rows64 : Variant::gather64;
  }
  return heads <= 16 ? Variant::rows16 : Variant::rows32;
}

bool is_paired(const Shape& shape, std::int64_t heads) { return widens(shape) && heads > 64; }

bool joins_pairs(const Shape& shape) { return is_rows64(shape); }

Tiling tile(const Shape& shape, const jit::TargetInfo& target) {
  if (shape.variant == Variant::combine) {
    Tiling t;
    t.rows = shape.rows;
    t.block = shape.block;
    t.threads = kCombineThreads;
    t.blocks_per_sm = 4;
    return t;
  }
  if (!is_hopper(shape)) return tile_portable(shape, target);
  if (!target.warpgroups) {
    throw Error(QUERN_UNSUPPORTED,
                "variants rows64 and gather64 of mla_decode need the instructions of sm_90a; the "
                "target is " +
                    target.target.name());
  }
  Tiling t;
  if (shape.variant == Variant::few16) {
    t.rows = 16;
    t.block = q::kFewKeys;
    t.stages = q::kFewSlots;
    t.threads = q::few_threads(shape.kind == q::CacheKind::plain);
    t.side_by_side = 4;
    t.price = 2;
    // With a cache of 16 bits memory is the limit, and what is read twice costs more than a longer run.
    t.cut_price = shape.kind == q::CacheKind::plain ? 4 : 1;
    t.shared_bytes = static_cast<std::uint32_t>(q::kFewSharedBytes);
    return t;
  }
  t.rows = 64;
  t.block = q::kRows64Keys;
  t.stages = 2;
  t.threads = widens(shape) ? q::kGather64Threads : q::kRows64Threads;
  t.side_by_side = 2;
  t.price = 2;
  t.cut_price = 4;
  t.shared_bytes = static_cast<std::uint32_t>(q::kRows64SharedBytes + (widens(shape) ? q::kGather64Lookups : 0));
  return t;
}

Shape combine_of(const Shape& shape, const Tiling& tiling) {
  // What does not concern it is left as it is by default, so that all calls share few of them.
  Shape combine;
  combine.variant = Variant::combine;
  combine.element = shape.element;
  combine.d_latent = shape.d_latent;
  combine.indexed = shape.indexed;
  combine.rows = tiling.rows;
  combine.block = tiling.block;
  return combine;
}

jit::Spec to_spec(const Shape& shape, jit::Target target) { return kConstants.to_spec(shape, target); }
Shape to_shape(const jit::Spec& spec) { return kConstants.to_shape(spec); }
Constants to_constants(const Shape& shape) { return kConstants.to_constants(shape); }

Shape from_constants(const Constants& constants) {
  const Shape shape = kConstants.read(constants);
  if (is_hopper(shape) && (shape.d_latent != 512 || shape.d_rope != 64)) {
    throw Error(QUERN_INVALID, "mla_decode: variants rows64, gather64 and few16 take d_latent=512 d_rope=64");
  }
  if (shape.variant == Variant::few16 && shape.kind == q::CacheKind::rows656) {
    throw Error(QUERN_INVALID, "mla_decode: variant=few16 takes cache=plain, cache=e4m3_tensor and cache=e4m3_token");
  }
  if (shape.kind == q::CacheKind::rows656 && (shape.d_latent != 512 || shape.d_rope != 64)) {
    throw Error(QUERN_INVALID, "mla_decode: cache=rows656 takes d_latent=512 d_rope=64");
  }
  return shape;
}

jit::Unit to_unit(const Shape& shape, jit::Target target) {
  const jit::TargetInfo limits = jit::limits_of(target);
  const Tiling t = tile(shape, limits);
  jit::Unit unit;
  unit.op = "mla_decode";
  unit.target = target;
  struct Source {
    const char *entry, *file;
  };
  const bool combine = shape.variant == Variant::combine, few = shape.variant == Variant::few16;
  const Source source = combine            ? Source{"quern_mla_combine", "mla_decode/kernels/portable/combine.cuh"}
                        : few              ? Source{"quern_mla_few16", "mla_decode/kernels/sm90/few.cuh"}
                        : is_hopper(shape) ? Source{"quern_mla_rows64", "mla_decode/kernels/sm90/decode.cuh"}
                                           : Source{"quern_mla_decode", "mla_decode/kernels/portable/decode.cuh"};
  unit.entry = source.entry;
  const auto define = [&](const char* name, int value) { unit.constants.push_back({name, std::to_string(value)}); };
  kConstants.define(shape, &unit);
  define("D_ROPE", combine ? 0 : shape.d_rope);
  define("INDEXED", static_cast<int>(shape.indexed));
  define("CAP", static_cast<int>(!combine && shape.cap));
  define("PAIRED", static_cast<int>(shape.paired));
  define("ROWS", t.rows);
  define("BLOCK_KV", t.block);
  define("THREADS", t.threads);
  define("ITEM_PRICE", t.price);
  define("CUT_PRICE", t.cut_price);
  define("PLANS_AHEAD", shape.variant == Variant::gather64 ? 1 : 0);
  if (has_kinds(shape)) define("CACHE_KIND", static_cast<int>(shape.kind));
  if (is_portable(shape)) define("STAGES", t.stages);
  if (is_hopper(shape) && !few) define("GATHERED", static_cast<int>(shape.variant == Variant::gather64));
  unit.source = embedded(source.file);
  unit.headers = device_headers(target);
  unit.max_shared_bytes = t.shared_bytes;
  return unit;
}

}  // namespace quern::ops::mla_decode
