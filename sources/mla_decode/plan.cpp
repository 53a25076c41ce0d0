// Shapes to kernels, tilings, specs, units and manifest constants.
// SPDX-License-Identifier: Apache-2.0
#include "sources/mla_decode/plan.h"

#include <algorithm>
#include <iterator>
#include <string>

#include "jit/error.h"
#include "sources/common_headers.h"
#include "sources/constants.h"
#include "sources/embedded.h"

namespace quern::ops::mla_decode {
namespace {

constexpr const char* kFormNames[kForms] = {"rows16", "rows32", "rows64", "combine"};
constexpr const char* kKindNames[] = {"plain", "e4m3_tensor", "e4m3_token", "rows656"};
constexpr const char* kIndexedNames[] = {"no", "positions", "slots"};

// What a block of threads needs beyond its dynamic shared memory: what the hardware keeps.
constexpr std::uint32_t kSharedReserve = 1024;
constexpr int kCombineThreads = 256;

// Of the portable kernel: as many keys at once as there is room for, copied a block ahead where that is asynchronous.
Tiling tile_portable(const Shape& shape, const jit::TargetInfo& target) {
  struct Size {
    int block, stages;
  };
  constexpr Size kSizes[] = {{64, 2}, {32, 2}, {32, 1}, {16, 2}, {16, 1}};
  const int most = shape.form == Form::rows16 ? 16 : 32;
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

Form form_of(const Shape& shape, std::int64_t heads, std::int64_t page_size, const jit::TargetInfo& target) {
  const bool fits = target.warpgroups && target.shared_per_block >= static_cast<std::uint32_t>(q::kRows64SharedBytes);
  const bool takes = shape.kind == q::CacheKind::plain && shape.d_latent == 512 && shape.d_rope == 64 &&
                     shape.indexed == Indexed::no && shape.copy_bytes == 16 && page_rows_of(page_size) >= 8;
  if (fits && takes) return Form::rows64;
  return heads <= 16 ? Form::rows16 : Form::rows32;
}

Tiling tile(const Shape& shape, const jit::TargetInfo& target) {
  if (shape.form == Form::combine) {
    Tiling t;
    t.rows = shape.rows;
    t.block = 64;
    t.threads = kCombineThreads;
    t.blocks_per_sm = 4;
    return t;
  }
  if (shape.form != Form::rows64) return tile_portable(shape, target);
  if (!target.warpgroups) {
    throw Error(QUERN_UNSUPPORTED, "form rows64 of mla_decode needs the instructions of sm_90a; the target is " +
                                       target.target.name());
  }
  Tiling t;
  t.rows = 64;
  t.block = q::kRows64Keys;
  t.stages = 2;
  t.threads = q::kRows64Threads;
  t.side_by_side = 2;
  t.price = 2;
  t.shared_bytes = static_cast<std::uint32_t>(q::kRows64SharedBytes);
  return t;
}

Shape combine_of(const Shape& shape, const Tiling& tiling) {
  // What does not concern it is left as it is by default, so that all calls share few of them.
  Shape combine;
  combine.form = Form::combine;
  combine.element = shape.element;
  combine.d_latent = shape.d_latent;
  combine.d_rope = 0;
  combine.indexed = shape.indexed;
  combine.rows = tiling.rows;
  // It counts a batch-invariant call's pieces again, in the same blocks of keys.
  combine.page_rows = tiling.block;
  return combine;
}

jit::Spec to_spec(const Shape& shape, jit::Target target) {
  jit::Spec spec;
  spec.op = tag_mla_decode;
  spec.target = target.tag();
  spec.words[0] = static_cast<std::uint32_t>(shape.form) | static_cast<std::uint32_t>(shape.element) << 8 |
                  static_cast<std::uint32_t>(shape.kind) << 16 | static_cast<std::uint32_t>(shape.indexed) << 24;
  spec.words[1] = static_cast<std::uint32_t>(shape.d_latent) | static_cast<std::uint32_t>(shape.d_rope) << 16;
  spec.words[2] = static_cast<std::uint32_t>(shape.cap) | static_cast<std::uint32_t>(shape.copy_bytes) << 8 |
                  static_cast<std::uint32_t>(shape.page_rows) << 16 | static_cast<std::uint32_t>(shape.rows) << 24;
  return spec;
}

Shape to_shape(const jit::Spec& spec) {
  Shape shape;
  shape.form = static_cast<Form>(spec.words[0] & 0xff);
  shape.element = static_cast<Dtype>(spec.words[0] >> 8 & 0xff);
  shape.kind = static_cast<q::CacheKind>(spec.words[0] >> 16 & 0xff);
  shape.indexed = static_cast<Indexed>(spec.words[0] >> 24);
  shape.d_latent = static_cast<int>(spec.words[1] & 0xffff);
  shape.d_rope = static_cast<int>(spec.words[1] >> 16);
  shape.cap = (spec.words[2] & 1) != 0;
  shape.copy_bytes = static_cast<int>(spec.words[2] >> 8 & 0xff);
  shape.page_rows = static_cast<int>(spec.words[2] >> 16 & 0xff);
  shape.rows = static_cast<int>(spec.words[2] >> 24);
  return shape;
}

Constants to_constants(const Shape& shape) {
  return {{"form", kFormNames[static_cast<int>(shape.form)]},
          {"dtype", name_of(shape.element)},
          {"cache", kKindNames[static_cast<int>(shape.kind)]},
          {"d_latent", std::to_string(shape.d_latent)},
          {"d_rope", std::to_string(shape.d_rope)},
          {"indices", kIndexedNames[static_cast<int>(shape.indexed)]},
          {"cap", std::to_string(shape.cap)},
          {"alignment", std::to_string(shape.copy_bytes)},
          {"page_rows", std::to_string(shape.page_rows)},
          {"rows", std::to_string(shape.rows)}};
}

Shape from_constants(const Constants& constants) {
  ConstantReader reader("mla_decode", constants);
  Shape shape;
  shape.form = static_cast<Form>(reader.one_of("form", kFormNames));
  shape.element = reader.one_of("dtype", {"f16", "bf16"}) == 0 ? Dtype::f16 : Dtype::bf16;
  shape.kind = static_cast<q::CacheKind>(reader.one_of("cache", kKindNames, 0));
  shape.d_latent = static_cast<int>(reader.integer("d_latent", 16, kMaxLatent, 16, 512));
  shape.d_rope = static_cast<int>(reader.integer("d_rope", 0, kMaxRope, 16, shape.form == Form::combine ? 0 : 64));
  shape.indexed = static_cast<Indexed>(reader.one_of("indices", kIndexedNames, 0));
  shape.cap = reader.integer("cap", 0, 1, 1, 0) != 0;
  shape.copy_bytes = reader.one_of("alignment", {"16", "4"}, 0) == 0 ? 16 : 4;
  constexpr const char* kPageRows[] = {"0", "8", "16", "32", "64", "128"};
  shape.page_rows =
      std::stoi(kPageRows[reader.one_of("page_rows", kPageRows, shape.form == Form::rows64 ? 4 : shape.form == Form::combine ? 5 : 0)]);
  constexpr const char* kRows[] = {"16", "32", "64"};
  shape.rows = std::stoi(kRows[reader.one_of("rows", kRows, shape.form == Form::combine ? 2 : 1)]);
  reader.finish();
  if (shape.form == Form::rows64 &&
      (shape.kind != q::CacheKind::plain || shape.d_latent != 512 || shape.d_rope != 64 ||
       shape.indexed != Indexed::no || shape.copy_bytes != 16 || shape.page_rows == 0 || shape.page_rows == 128)) {
    throw Error(QUERN_INVALID,
                "mla_decode: form=rows64 takes cache=plain d_latent=512 d_rope=64 indices=no alignment=16 and page_rows "
                "8, 16, 32 or 64");
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
  const bool combine = shape.form == Form::combine, hopper = shape.form == Form::rows64;
  unit.entry = combine ? "quern_mla_combine" : hopper ? "quern_mla_rows64" : "quern_mla_decode";
  const auto define = [&](const char* name, int value) {
    unit.constants.push_back({name, std::to_string(value)});
  };
  unit.constants.push_back({"ELEMENT", name_of(shape.element)});
  define("D_LATENT", shape.d_latent);
  define("D_ROPE", shape.d_rope);
  define("INDEXED", static_cast<int>(shape.indexed));
  define("CAP", static_cast<int>(shape.cap));
  define("ROWS", t.rows);
  define("BLOCK_KV", combine ? shape.page_rows : t.block);
  define("THREADS", t.threads);
  define("ITEM_PRICE", t.price);
  if (hopper) {
    define("PAGE_ROWS", shape.page_rows);
  } else if (!combine) {
    define("CACHE_KIND", static_cast<int>(shape.kind));
    define("COPY_BYTES", shape.copy_bytes);
    define("STAGES", t.stages);
  }
  unit.source = embedded(combine  ? "mla_decode/kernels/portable/combine.cuh"
                         : hopper ? "mla_decode/kernels/sm90/decode.cuh"
                                  : "mla_decode/kernels/portable/decode.cuh");
  unit.headers = device_headers(target);
  unit.max_shared_bytes = t.shared_bytes;
  return unit;
}

}  // namespace quern::ops::mla_decode
