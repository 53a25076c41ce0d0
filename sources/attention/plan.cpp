// Shapes to tilings, specs, units and manifest constants.
// SPDX-License-Identifier: Apache-2.0
#include "sources/attention/plan.h"

#include <algorithm>
#include <string>

#include "jit/error.h"
#include "sources/attention/kernels/sm90/room.cuh"
#include "sources/attention/params.cuh"
#include "sources/common_headers.h"
#include "sources/constants.h"
#include "sources/embedded.h"

namespace quern::ops::attention {
namespace {

// What a block of threads needs beyond its dynamic shared memory: the static part, and what the hardware keeps.
constexpr std::uint32_t kSharedReserve = 4096;

bool fits(std::uint32_t bytes, int blocks_per_sm, const jit::TargetInfo& target) {
  const std::uint32_t each = bytes + kSharedReserve;
  return each <= target.shared_per_block && each * static_cast<std::uint32_t>(blocks_per_sm) <= target.shared_per_sm;
}

// As many warps as there is room for, two blocks of threads to an SM where each still has a deep pipeline.
Tiling tile_decode(const Shape& shape, const jit::TargetInfo& target) {
  for (const int warps : {4, 2, 1}) {
    for (const int blocks : {2, 1}) {
      for (int stages = 4; stages >= (blocks == 2 ? 3 : 1); --stages) {
        const auto bytes = static_cast<std::uint32_t>(
            q::decode_shared_bytes(shape.dim_k, shape.dim_v, warps, stages, shape.cache_bytes()));
        if (!fits(bytes, blocks, target)) continue;
        // At two blocks of threads an SM, a third stage is enough; a fourth only costs set-up.
        if (blocks == 2 && stages > 3 && shape.dim_k + shape.dim_v > 128) continue;
        return {16, 1, warps, 16 * warps, stages, blocks, warps * static_cast<int>(target.warp_size), bytes};
      }
    }
  }
  return {};
}

Tiling tile_prefill(const Shape& shape, const jit::TargetInfo& target) {
  struct Rows {
    int warps, row_tiles;
  };
  // A warp's results take dim_v / 2 registers a row tile: two row tiles where that leaves room for the rest. A warp of
  // 64 has half as many a lane, but shared memory for the smaller tiles only.
  constexpr Rows kTall[] = {{8, 2}, {4, 2}, {8, 1}, {4, 1}, {2, 1}, {1, 1}};
  constexpr Rows kShort[] = {{4, 1}, {2, 1}, {1, 1}};
  struct Stages {
    int block, stages;
  };
  constexpr Stages kStages[] = {{64, 2}, {32, 2}, {64, 1}, {32, 1}, {16, 1}};
  const bool tall = shape.form == Form::large;
  const Rows* rows = tall ? kTall : kShort;
  const Rows* end = tall ? std::end(kTall) : std::end(kShort);
  for (; rows != end; ++rows) {
    if (rows->row_tiles == 2 && shape.dim_v > 128) continue;
    for (const Stages& pipe : kStages) {
      if (!target.async_copy && pipe.stages > 1) continue;
      if (tall && rows->warps > 1 && pipe.block < 32) continue;  // rather fewer rows than so few keys
      const int height = rows->warps * rows->row_tiles * 16;
      const auto bytes = static_cast<std::uint32_t>(
          q::prefill_shared_bytes(shape.dim_k, shape.dim_v, height, pipe.block, pipe.stages, shape.cache_bytes()));
      if (!fits(bytes, 1, target)) continue;
      const int blocks = rows->warps * rows->row_tiles <= 8 && fits(bytes, 2, target) ? 2 : 1;
      return {height,
              rows->row_tiles,
              rows->warps,
              pipe.block,
              pipe.stages,
              blocks,
              rows->warps * static_cast<int>(target.warp_size),
              bytes};
    }
  }
  return {};
}

// Warpgroups of 64 rows: three where their sums are small enough, else two. As many keys at once as there is room for,
// in registers and for two stages in shared memory.
Tiling tile_warpgroups(const Shape& shape, const jit::TargetInfo& target) {
  constexpr int kMostStages = 4, kRegisters = 190;  // f32 of a thread for sums of scores, for weights, and for results
  const int consumers = std::max(shape.dim_k, shape.dim_v) <= 64 ? 3 : 2, rows = 64 * consumers;
  for (const int block : {128, 112, 96, 80, 64}) {
    if (shape.paged && block % q::box_keys(shape.page_size, block) != 0) continue;
    if (shape.paged && shape.page_size % q::box_keys(shape.page_size, block) != 0) continue;
    if (shape.dim_v / 2 + block / 2 + block / 4 > kRegisters) continue;
    for (int stages = kMostStages; stages >= 2; --stages) {
      const auto bytes =
          static_cast<std::uint32_t>(q::sm90_shared_bytes(shape.dim_k, shape.dim_v, rows, block, stages));
      if (bytes + q::kStaticBytes > target.shared_per_block) continue;
      const int threads = (consumers + 1) * 128;
      return {rows, 1, threads / static_cast<int>(target.warp_size), block, stages, 1, threads, bytes};
    }
  }
  return {};
}

constexpr const char* kFormNames[kForms] = {"decode", "medium", "large", "warpgroups"};

}  // namespace

int constant_page_size(std::int64_t page_size) {
  switch (page_size) {
    case 16:
    case 32:
    case 64:
    case 128:
    case 256:
      return static_cast<int>(page_size);
    default:
      return 0;
  }
}

bool takes_warpgroups(const Shape& shape, const jit::TargetInfo& target) {
  constexpr int kLeastDim = 64;
  const bool plain = shape.q == shape.element && shape.cache == shape.element && !shape.mask;
  return target.warpgroups && plain && shape.copy_bytes == 16 && std::min(shape.dim_k, shape.dim_v) >= kLeastDim &&
         (!shape.paged || shape.page_size != 0) && tile_warpgroups(shape, target).warps != 0;
}

Tiling tile(const Shape& shape, const jit::TargetInfo& target) {
  if (shape.form == Form::warpgroups && !takes_warpgroups(shape, target)) {
    throw Error(QUERN_UNSUPPORTED,
                "attention by warpgroups is for targets that have them, head dims from 64, an alignment of 16, and "
                "ragged caches or pages of 16, 32, 64, 128 or 256 tokens, queries and caches of dtype, and no custom mask; the "
                "target is " +
                    target.target.name());
  }
  const Tiling t = shape.form == Form::warpgroups ? tile_warpgroups(shape, target)
                   : shape.form == Form::decode   ? tile_decode(shape, target)
                                                  : tile_prefill(shape, target);
  if (t.warps == 0) {
    throw Error(QUERN_UNSUPPORTED, "attention with head dims " + std::to_string(shape.dim_k) + " and " +
                                       std::to_string(shape.dim_v) + " does not fit the shared memory of " +
                                       target.target.name());
  }
  return t;
}

jit::Spec to_spec(const Shape& shape, jit::Target target) {
  jit::Spec spec;
  spec.op = tag_attention;
  spec.target = target.tag();
  spec.words[0] = static_cast<std::uint32_t>(shape.form) | static_cast<std::uint32_t>(shape.element) << 8 |
                  static_cast<std::uint32_t>(shape.copy_bytes) << 16;
  spec.words[1] = static_cast<std::uint32_t>(shape.dim_k) | static_cast<std::uint32_t>(shape.dim_v) << 16;
  spec.words[2] = static_cast<std::uint32_t>(shape.group);
  spec.words[3] = static_cast<std::uint32_t>(shape.page_size);
  spec.words[4] = static_cast<std::uint32_t>(shape.paged) | static_cast<std::uint32_t>(shape.cap) << 1 |
                  static_cast<std::uint32_t>(shape.alibi) << 2 | static_cast<std::uint32_t>(shape.sinks) << 3 |
                  static_cast<std::uint32_t>(shape.mask) << 4 | static_cast<std::uint32_t>(shape.token_scales) << 5;
  spec.words[5] = static_cast<std::uint32_t>(shape.q) | static_cast<std::uint32_t>(shape.cache) << 8;
  return spec;
}

Shape to_shape(const jit::Spec& spec) {
  Shape shape;
  shape.form = static_cast<Form>(spec.words[0] & 0xff);
  shape.element = static_cast<Dtype>(spec.words[0] >> 8 & 0xff);
  shape.copy_bytes = static_cast<int>(spec.words[0] >> 16);
  shape.dim_k = static_cast<int>(spec.words[1] & 0xffff);
  shape.dim_v = static_cast<int>(spec.words[1] >> 16);
  shape.group = static_cast<int>(spec.words[2]);
  shape.page_size = static_cast<int>(spec.words[3]);
  shape.paged = (spec.words[4] & 1) != 0;
  shape.cap = (spec.words[4] & 2) != 0;
  shape.alibi = (spec.words[4] & 4) != 0;
  shape.sinks = (spec.words[4] & 8) != 0;
  shape.mask = (spec.words[4] & 16) != 0;
  shape.token_scales = (spec.words[4] & 32) != 0;
  shape.q = static_cast<Dtype>(spec.words[5] & 0xff);
  shape.cache = static_cast<Dtype>(spec.words[5] >> 8);
  return shape;
}

Constants to_constants(const Shape& shape) {
  return {{"form", kFormNames[static_cast<int>(shape.form)]},
          {"dtype", name_of(shape.element)},
          {"q", name_of(shape.q)},
          {"cache", name_of(shape.cache)},
          {"scales", shape.token_scales ? "token" : "head"},
          {"dim_k", std::to_string(shape.dim_k)},
          {"dim_v", std::to_string(shape.dim_v)},
          {"group", std::to_string(shape.group)},
          {"page_size", shape.paged ? std::to_string(shape.page_size) : "ragged"},
          {"cap", std::to_string(shape.cap)},
          {"alibi", std::to_string(shape.alibi)},
          {"sinks", std::to_string(shape.sinks)},
          {"mask", std::to_string(shape.mask)},
          {"alignment", std::to_string(shape.copy_bytes)}};
}

Shape from_constants(const Constants& constants) {
  ConstantReader reader("attention", constants);
  Shape shape;
  shape.form = static_cast<Form>(reader.one_of("form", {"decode", "medium", "large", "warpgroups"}));
  constexpr Dtype kDtypes[] = {Dtype::f16, Dtype::bf16, Dtype::e4m3, Dtype::e5m2, Dtype::i8};
  const std::size_t element = reader.one_of("dtype", {"f16", "bf16"});
  shape.element = kDtypes[element];
  shape.q = kDtypes[reader.one_of("q", {"f16", "bf16", "e4m3", "e5m2"}, element)];
  shape.cache = kDtypes[reader.one_of("cache", {"f16", "bf16", "e4m3", "e5m2", "int8"}, element)];
  shape.token_scales = reader.one_of("scales", {"head", "token"}, 0) == 1;
  shape.mask = reader.integer("mask", 0, 1, 1, 0) != 0;
  shape.dim_k = static_cast<int>(reader.integer("dim_k", 8, kMaxDim, 8));
  shape.dim_v = static_cast<int>(reader.integer("dim_v", 8, kMaxDim, 8, shape.dim_k));
  shape.group = static_cast<int>(reader.integer("group", 1, 65535, 1, 1));
  constexpr const char* kPages[] = {"0", "16", "32", "64", "128", "256", "ragged"};
  const std::size_t page =
      reader.one_of("page_size", {kPages[0], kPages[1], kPages[2], kPages[3], kPages[4], kPages[5], kPages[6]});
  shape.paged = page != 6;
  shape.page_size = shape.paged ? std::stoi(kPages[page]) : 0;
  shape.cap = reader.integer("cap", 0, 1, 1, 0) != 0;
  shape.alibi = reader.integer("alibi", 0, 1, 1, 0) != 0;
  shape.sinks = reader.integer("sinks", 0, 1, 1, 0) != 0;
  shape.copy_bytes = reader.one_of("alignment", {"16", "4"}, 0) == 0 ? 16 : 4;
  reader.finish();
  const auto refuse = [](const char* text) { throw Error(QUERN_INVALID, std::string("attention: ") + text); };
  if (bytes_of(shape.q) != 1 && shape.q != shape.element) refuse("q must be dtype, e4m3 or e5m2");
  if (bytes_of(shape.cache) != 1 && shape.cache != shape.element) refuse("cache must be dtype, e4m3, e5m2 or int8");
  if (bytes_of(shape.cache) != 1 && shape.token_scales) refuse("scales=token is for a cache of 8 bits");
  return shape;
}

jit::Unit to_unit(const Shape& shape, jit::Target target) {
  const jit::TargetInfo limits = jit::limits_of(target);
  const Tiling t = tile(shape, limits);
  const bool decode = shape.form == Form::decode, warpgroups = shape.form == Form::warpgroups;
  jit::Unit unit;
  unit.op = "attention";
  unit.target = target;
  unit.entry = decode ? "quern_attention_decode" : warpgroups ? "quern_attention_sm90" : "quern_attention_prefill";
  const auto define = [&](const char* name, auto value) {
    if constexpr (std::is_arithmetic_v<decltype(value)>) {
      unit.constants.push_back({name, std::to_string(value)});
    } else {
      unit.constants.push_back({name, value});
    }
  };
  define("ELEMENT", name_of(shape.element));
  define("Q_ELEMENT", name_of(shape.q));
  define("CACHE_ELEMENT", shape.cache == Dtype::i8 ? "i8" : name_of(shape.cache));
  define("TOKEN_SCALES", static_cast<int>(shape.token_scales));
  define("CUSTOM_MASK", static_cast<int>(shape.mask));
  define("CACHE_COPY_BYTES", shape.cache_copy_bytes());
  define("HEAD_DIM_K", shape.dim_k);
  define("HEAD_DIM_V", shape.dim_v);
  define("GROUP", shape.group);
  define("PAGED", static_cast<int>(shape.paged));
  define("PAGE_SIZE", shape.page_size);
  define("CAP", static_cast<int>(shape.cap));
  define("ALIBI", static_cast<int>(shape.alibi));
  define("SINKS", static_cast<int>(shape.sinks));
  define("COPY_BYTES", shape.copy_bytes);
  define("ROWS", t.rows);
  define("BLOCK_KV", t.block);
  define("STAGES", t.stages);
  define("THREADS", t.threads);
  define("BLOCKS_PER_SM", t.blocks_per_sm);
  if (warpgroups) {
    define("CONSUMERS", t.rows / 64);
    // Well below the L2 of the chips that have warpgroups, 50 MB: of one half data comes to the other by a longer way.
    define("SECTION_BYTES", 24 << 20);
  } else if (!decode) {
    define("ROW_TILES", t.row_tiles);
    define("INVARIANT", static_cast<int>(shape.form == Form::medium));
    // Two row tiles a warp have products enough to keep the tensor cores busy with half a block of keys.
    define("KEYS_AT_ONCE", t.row_tiles == 2 && t.block == 64 ? 32 : t.block);
  }
  // Filling a pipeline and writing a result take about as long as this many blocks of keys.
  define("ITEM_PRICE", decode ? 4 : 2);
  unit.source = embedded(decode       ? "attention/kernels/portable/decode.cuh"
                         : warpgroups ? "attention/kernels/sm90/prefill.cuh"
                                      : "attention/kernels/portable/prefill.cuh");
  unit.headers = device_headers(target);
  unit.max_shared_bytes = t.shared_bytes;
  return unit;
}

}  // namespace quern::ops::attention
