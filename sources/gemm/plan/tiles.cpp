// What there is of a product before a choice is made: which variants are offered, its tiles, the device.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "sources/gemm/plan/choose.h"

namespace quern::ops::gemm {
namespace {

std::int64_t div_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

}  // namespace

// Blocks in a cluster, at most: 8 on a GPU; the emulation on the host takes 64 warps.
int most_blocks(const Problem& problem, int threads) {
  constexpr int kMost = 8, kEmulatedThreads = 64 * 32;
  const bool emulated = problem.call.device->limits.target.family() == jit::Family::host;
  return emulated ? std::min(kMost, kEmulatedThreads / threads) : kMost;
}
int most_blocks(const Problem& problem, const Tiling& t) {
  return std::min(t.most_parts, most_blocks(problem, t.threads));
}

std::optional<Tiling> offered(const Shape& kind, Variant variant, const jit::TargetInfo& target) {
  const auto tiling = [&](Variant of) {
    Shape shape = kind;
    shape.variant = of;
    return tile(shape, target);
  };
  const bool grouped = kind.grouping != Grouping::dense, blocks = kind.scales == Scales::blocks;
  switch (variant) {
    // The fastest of all for few products on an H200, and then by little; each kernel that a model must have costs room
    // and time.
    case Variant::small_m_128x64:
      return {};
    case Variant::split_k_128x128:
    case Variant::small_m_128x32:
      if (!blocks) return {};  // of split_k, tiles of 112 columns
      break;
    case Variant::persistent_128x64:
    case Variant::persistent_128x192:
      // Where tiles can be fitted to the rows these hardly ever are the faster.
      if (tiling(Variant::fitted_96x128)) return {};
      if (grouped && variant != Variant::persistent_128x192) return {};
      break;
    default:
      // Where small_m takes the operands swap_ab is hardly ever the faster.
      if (is_a(Family::swap_ab, variant) && tiling(Variant::small_m_64x64)) return {};
      break;
  }
  return tiling(variant);
}

bool may_pair(const Problem& problem, Variant variant) {
  return variant == Variant::persistent_128x128 && problem.shape.scales != Scales::blocks && problem.call.sms >= 2;
}

Tiling fitted_to(Tiling t, const Choice& choice, std::int64_t rows) {
  if (!is_a(Family::fitted, choice.variant)) return t;
  const std::int64_t each = div_up(rows, std::max(choice.tiles, 1));
  t.tile_m = q::fitted_rows(static_cast<std::int32_t>(std::min<std::int64_t>(each, t.tile_m)), t.tile_m);
  t.stages = t.stages_of(t.tile_m);
  return t;
}

bool takes_tensor_maps(const Problem& problem) {
  const q::GemmParams& p = problem.params;
  // Tensor maps take no stride of 0, except that a matrix that all groups share is the only one in its map.
  const bool a_leads = problem.shape.grouping != Grouping::contiguous;
  if ((p.a_row == 0 && (a_leads ? p.m : p.a_rows) > 1) || (p.b_row == 0 && p.n > 1)) return false;
  if ((problem.shape.transposed_a && p.a_k == 0) || (problem.shape.transposed_b && p.b_k == 0)) return false;
  return p.groups <= 1 || (p.b_group >= 0 && (!a_leads || p.a_group >= 0));
}

Sizes sizes_of(const Problem& problem) {
  const q::GemmParams& p = problem.params;
  const std::int64_t expected = problem.expected_rows;
  if (problem.shape.grouping == Grouping::contiguous) {
    if (expected == 0) return {div_up(p.out_rows, std::max(p.groups, 1)), p.groups};
    // So many times are there that many rows, of whichever expert: what tiles are counted by.
    return {expected, div_up(p.out_rows, expected)};
  }
  return {expected != 0 ? std::min<std::int64_t>(expected, p.m) : p.m, p.groups};
}

std::int64_t columns_of(const Problem& problem) { return problem.shape.gate ? problem.params.n / 2 : problem.params.n; }

int all_sms(const Problem& problem) { return std::max(static_cast<int>(problem.call.device->sm_count), 1); }

std::optional<Tiling> tiling_of(const Problem& problem, Variant variant) {
  Shape shape = problem.shape;
  shape.variant = variant;
  return tile(shape, problem.call.device->limits);
}

std::int64_t tiles_of(const Problem& problem, const Tiling& t, const Sizes& sizes) {
  return sizes.groups * div_up(sizes.rows, t.tile_m) * div_up(columns_of(problem), t.out_tile_n(problem.shape.gate));
}

std::int64_t runs_of(const Problem& problem, const Tiling& t, const Sizes& sizes) {
  if (!problem.shape.out_scale) return tiles_of(problem, t, sizes);
  return sizes.groups * div_up(sizes.rows, t.tile_m) * div_up(columns_of(problem), 128);
}

int parts_of_sliced(const Tiling& t, std::int64_t tiles, std::int64_t k_blocks, int sms) {
  constexpr int kFewestKBlocks = 2;  // of each team
  const std::int64_t room = sms / std::max<std::int64_t>(tiles, 1), most = k_blocks / (kFewestKBlocks * t.teams);
  return static_cast<int>(std::max<std::int64_t>(std::min(room, most), 1));
}

Tiles tiles_to_split(const Problem& problem, const Tiling& t, const Sizes& sizes) {
  return {sizes.groups * div_up(sizes.rows, t.tile_m), div_up(columns_of(problem), t.out_tile_n(problem.shape.gate)),
          div_up(problem.params.k, t.block_k)};
}

std::int64_t clusters_of(const Problem& problem, const Tiling& t, const Choice& choice, const Sizes& sizes) {
  const std::int64_t columns = div_up(columns_of(problem), t.out_tile_n(problem.shape.gate));
  return sizes.groups * div_up(div_up(sizes.rows, t.tile_m), choice.twins) * div_up(columns, choice.peers);
}

Machine machine_of(const Problem& problem, const Tiling& t) {
  return {all_sms(problem), problem.call.sms, most_blocks(problem, t)};
}

}  // namespace quern::ops::gemm
