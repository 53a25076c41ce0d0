// How each shape is tiled on a target.
// SPDX-License-Identifier: Apache-2.0
#include "sources/attention/plan.h"

#include <algorithm>
#include <string>

#include "jit/error.h"
#include "sources/attention/kernels/sm90/room.cuh"
#include "sources/attention/params.cuh"

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
        return {16, 1, warps, 16 * warps, stages, 1, blocks, 1, warps * static_cast<int>(target.warp_size), bytes};
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
  const bool tall = shape.variant == Variant::large;
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
              1,
              blocks,
              1,
              rows->warps * static_cast<int>(target.warp_size),
              bytes};
    }
  }
  return {};
}

// Whether a cache of 8 bits becomes queries' 16 on its way to products of these.
bool is_widened(const Shape& shape) {
  return shape.q == shape.element &&
         (shape.cache == Dtype::e4m3 || shape.cache == Dtype::e5m2 || shape.cache == Dtype::i8);
}

// Warpgroups of 64 rows: three where their sums are small enough, else two. As many keys at once as there is room for,
// in registers and for two stages in shared memory. Where codes are widened or turned a further warpgroup does that.
Tiling tile_warpgroups(const Shape& shape, const jit::TargetInfo& target) {
  constexpr int kMostStages = 4, kRegisters = 190;  // f32 of a thread for sums of scores, for weights, and for results
  const bool widened = is_widened(shape);
  const int bytes_each = static_cast<int>(bytes_of(shape.q)), helpers = bytes_each == 1 || widened ? 1 : 0;
  const int consumers = std::max(shape.dim_k, shape.dim_v) <= 64 && helpers == 0 ? 3 : 2, rows = 64 * consumers;
  // Two tiles of queries where these are not in the way of keys and values.
  const int tiles = std::max(shape.dim_k, shape.dim_v) <= 128 ? 2 : 1;
  // Three warpgroups have registers for two blocks of weights of 96 keys.
  const int room_of_two = consumers == 3 ? 128 : 192;
  for (const int block : {consumers == 3 ? 96 : 128, 128, 112, 96, 80, 64}) {
    if (shape.paged && block % q::box_keys(shape.page_size, block) != 0) continue;
    if (shape.paged && shape.page_size % q::box_keys(shape.page_size, block) != 0) continue;
    if (bytes_each == 1 && block != q::kTurnedKeys) continue;
    if (shape.dim_v / 2 + block / 2 + block / 8 * bytes_each > kRegisters - 14 * helpers) continue;
    const bool two = tiles == 2 && shape.dim_v / 2 + block / 2 + block / 4 * bytes_each <= room_of_two;
    for (int codes = widened ? 2 : 0; codes >= (widened ? 1 : 0); --codes) {
      for (int stages = kMostStages; stages >= 2; --stages) {
        const auto bytes = static_cast<std::uint32_t>(
            q::sm90_shared_bytes(shape.dim_k, shape.dim_v, rows, tiles, block, stages, bytes_each) +
            q::sm90_code_bytes(shape.dim_k, shape.dim_v, block, codes, stages, shape.token_scales));
        if (bytes + q::kStaticBytes > target.shared_per_block) continue;
        const int threads = (consumers + 1 + helpers) * 128;
        const int warps = threads / static_cast<int>(target.warp_size);
        Tiling tiling{rows, 1, warps, block, stages, tiles, 1, 1, threads, bytes};
        tiling.two_weights = two;
        tiling.code_stages = codes;
        return tiling;
      }
    }
  }
  return {};
}

Tiling tile_streams(const Shape& shape, const jit::TargetInfo& target) {
  for (int stages = q::stream_stages(shape.dim_k, shape.dim_v, shape.cache_bytes()); stages >= q::kReaders;
       stages -= q::kReaders) {
    const auto bytes = static_cast<std::uint32_t>(
        q::stream_shared_bytes(shape.dim_k, shape.dim_v, stages, shape.cache_bytes(), shape.token_scales));
    if (bytes + q::kStreamStaticBytes > target.shared_per_block) continue;
    return {16, 1, q::kPipes * (q::kReaders + 1), q::kPipes * q::kPipeKeys, stages, 1, 1, 1, q::kStreamThreads, bytes};
  }
  return {};
}

// Tall tiles while the sums of a team's rows have room in its registers. Queries stay in shared memory where that
// leaves room for a pipeline: elsewhere they come again with every block of keys, and shared memory does not grow with
// d.
Tiling tile_wide(const Shape& shape, const jit::TargetInfo& target) {
  struct Form {
    int columns, stages;
    bool hold;
  };
  constexpr Form kForms[] = {{128, 4, true},  {128, 3, true},  {128, 2, true},  {64, 3, true},  {64, 2, true},
                             {128, 4, false}, {128, 3, false}, {128, 2, false}, {64, 2, false}, {128, 1, true},
                             {128, 1, false}, {64, 1, true},   {64, 1, false}};
  constexpr int kBlock = 64, kTallDim = 512, kMostHeld = 96 << 10;
  const bool few = shape.variant == Variant::wide_few;
  const int row_tiles = few || shape.dim_v > kTallDim ? 1 : 2;
  const auto warp_size = static_cast<int>(target.warp_size);
  for (const int blocks : {2, 1}) {
    for (const int teams : {2, 1}) {
      if ((few && teams == 2) || (!few && blocks == 2)) continue;
      for (const Form& form : kForms) {
        if (form.stages > (target.async_copy ? 4 : 1) || (blocks == 2 && form.stages < 3)) continue;
        const int rows = teams * row_tiles * 16, warps = teams * q::kTeamWarps;
        if (form.hold && rows * shape.dim_k * 2 > kMostHeld) continue;
        const auto bytes = static_cast<std::uint32_t>(
            q::wide_shared_bytes(shape.dim_k, rows, row_tiles, kBlock, form.columns, form.stages, form.hold));
        if (!fits(bytes, blocks, target)) continue;
        return {rows, row_tiles,         warps, kBlock,       form.stages, 1, blocks,
                1,    warps * warp_size, bytes, form.columns, form.hold};
      }
    }
  }
  return {};
}

// Tall tiles where an owner's half of the columns has room in its registers, and so many queries beside enough stages
// in shared memory: of two spans each, else of one, in two rings.
Tiling tile_wide_pairs(const Shape& shape, const jit::TargetInfo& target) {
  constexpr int kMostTallDim = 512, kMostStages = 12, kThreads = 384;
  for (const int rows : {128, 64}) {
    if (rows == 128 && shape.dim_v > kMostTallDim) continue;
    const int rings = rows == 128 ? 1 : 2, least = rows == 128 ? 6 : 8;
    for (int stages = kMostStages; stages >= least; stages -= 2) {
      const auto bytes = static_cast<std::uint32_t>(q::wide_sm90_shared_bytes(shape.dim_k, rows, stages));
      if (bytes + q::kWideStaticBytes > target.shared_per_block) continue;
      Tiling t = {rows, 1, kThreads / static_cast<int>(target.warp_size), q::kWideKeys, stages / rings};
      t.cluster = 2;
      t.threads = kThreads;
      t.shared_bytes = bytes;
      return t;
    }
  }
  return {};
}

bool is_plain(const Shape& shape) { return shape.q == shape.element && shape.cache == shape.element; }

// What every kernel of warpgroups for many rows asks for.
bool suits_warpgroups(const Shape& shape, const jit::TargetInfo& target) {
  constexpr int kLeastDim = 64;
  return target.warpgroups && shape.cache_copy_bytes() == 16 && std::min(shape.dim_k, shape.dim_v) >= kLeastDim &&
         (!shape.paged || shape.page_size != 0);
}

// How each of Hopper's kernels is tiled whatever the shape's variant; without warps where it cannot be.
Tiling warpgroups_of(const Shape& shape, const jit::TargetInfo& target) {
  const auto is_fp8 = [](Dtype dtype) { return dtype == Dtype::e4m3 || dtype == Dtype::e5m2; };
  const bool eights = is_fp8(shape.q) && is_fp8(shape.cache) && !shape.token_scales;
  if (shape.is_wide() || shape.codes_results() || !suits_warpgroups(shape, target)) return {};
  return is_plain(shape) || eights || is_widened(shape) ? tile_warpgroups(shape, target) : Tiling{};
}

Tiling wide_pairs_of(const Shape& shape, const jit::TargetInfo& target) {
  const bool can = shape.is_wide() && suits_warpgroups(shape, target) && is_plain(shape);
  return can ? tile_wide_pairs(shape, target) : Tiling{};
}

Tiling streams_of(const Shape& shape, const jit::TargetInfo& target) {
  const bool can = target.warpgroups && !shape.is_wide() && shape.copy_bytes == 16 &&
                   q::streams_take(shape.dim_k, shape.dim_v, shape.cache_bytes());
  return can ? tile_streams(shape, target) : Tiling{};
}

[[noreturn]] void refuse(const Shape& shape, const jit::TargetInfo& target) {
  std::string text;
  switch (shape.variant) {
    case Variant::streams:
      text =
          "attention by streams is for targets that have warpgroups, an alignment of 16, and keys and values of whole "
          "64 bytes; the target is ";
      break;
    case Variant::warpgroups:
      text =
          "attention by warpgroups is for targets that have them, head dims from 64, an alignment of 16, and ragged "
          "caches or pages of 16, 32, 64, 128 or 256 tokens, queries of dtype, or of e4m3 or e5m2 with caches of these "
          "without scales a token, results of 16 bits; the target is ";
      break;
    case Variant::wide_pairs:
      text =
          "attention with wide heads by pairs of blocks is for targets that have warpgroups, head dims from 64, an "
          "alignment of 16, and ragged caches or pages of 16, 32, 64, 128 or 256 tokens; the target is ";
      break;
    default:
      text = "attention with head dims " + std::to_string(shape.dim_k) + " and " + std::to_string(shape.dim_v) +
             " does not fit the shared memory of ";
  }
  throw Error(QUERN_UNSUPPORTED, text + target.target.name());
}

}  // namespace

const char* refusal_of_wide(const Shape& shape) {
  if (!shape.is_wide()) return nullptr;
  if (shape.q != shape.element)
    return "q of 8 bits is for head dims up to 256; with larger ones it must be of out's dtype";
  if (shape.cache != shape.element)
    return "k and v of 8 bits are for head dims up to 256; with larger ones they must be of out's dtype";
  return nullptr;
}

const char* refusal_of_coded_results(const Shape& shape) {
  if (!shape.codes_results() || shape.dim_v == 128 || shape.dim_v == 256) return nullptr;
  return "out of 8 bits is for a d_v of 128 or 256";
}

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
  return warpgroups_of(shape, target).warps != 0;
}
bool takes_wide_pairs(const Shape& shape, const jit::TargetInfo& target) {
  return wide_pairs_of(shape, target).warps != 0;
}
bool takes_streams(const Shape& shape, const jit::TargetInfo& target) { return streams_of(shape, target).warps != 0; }

Variant decode_variant(const Shape& shape, const jit::TargetInfo& target) {
  return shape.is_wide() ? Variant::wide_few : takes_streams(shape, target) ? Variant::streams : Variant::decode;
}
Variant medium_variant(const Shape& shape, const jit::TargetInfo& target) {
  return takes_wide_pairs(shape, target) ? Variant::wide_pairs : shape.is_wide() ? Variant::wide : Variant::medium;
}

Tiling tile(const Shape& shape, const jit::TargetInfo& target) {
  const Tiling t = shape.variant == Variant::warpgroups   ? warpgroups_of(shape, target)
                   : shape.variant == Variant::streams    ? streams_of(shape, target)
                   : shape.variant == Variant::decode     ? tile_decode(shape, target)
                   : shape.variant == Variant::wide_pairs ? wide_pairs_of(shape, target)
                   : shape.is_wide()                      ? tile_wide(shape, target)
                                                          : tile_prefill(shape, target);
  if (t.warps == 0) refuse(shape, target);
  return t;
}

}  // namespace quern::ops::attention
