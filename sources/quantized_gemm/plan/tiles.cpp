// The tiles of the kernels for every target, and as deep a pipeline as a target has room for.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "sources/quantized_gemm/plan/shape.h"

namespace quern::ops::quantized_gemm {
namespace {

int round_up(int a, int b) { return (a + b - 1) / b * b; }

// What sources/quantized_gemm/kernels/portable/staged.cuh lays out.
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

// What sources/quantized_gemm/kernels/few/tokens.cuh lays out.
int buffer_bytes(const Shape& shape, const Tiling& t, int warps_k) {
  const int chunk = t.chunk_blocks * t.block_k, groups = shape.group == 0 ? 1 : chunk / shape.group, pitch = groups | 1;
  const int scales = (shape.groups_b ? t.tile_n : 0) + (shape.zeros ? t.tile_n : 0) +
                     (shape.groups_a && shape.group > 16 ? t.tile_m : 0);
  const int rows = chunk * t.tile_m * (shape.integers() ? 1 : 2),
            parts = 4 * std::max(warps_k / 2, 1) * t.tile_m * (t.tile_n + 4);
  return round_up(std::max(rows + 4 * scales * pitch, parts), 128);
}

// What sources/quantized_gemm/kernels/few takes. A warp has so many lines that reading a's rows from shared memory,
// which it does once for all of them, does not hold up reading b.
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

}  // namespace quern::ops::quantized_gemm
