// The tiles of each form, and how deep a pipeline the target has room for.
// SPDX-License-Identifier: Apache-2.0
#include "sources/gemm/tiling.h"

#include <algorithm>

namespace quern::ops::gemm {
namespace {

// Static shared memory, and what the hardware keeps of each block's.
constexpr std::uint32_t kReserve = 1024;
// What the kernel of a grouped product keeps of the experts (sources/gemm/experts.cuh).
constexpr std::uint32_t kExpertBytes = 3 * 4 * 1024 + 64;

struct FormTile {
  int tile_m, tile_n;
  int step_bytes;  // of a row
  int most_stages;
  int warps_m, warps_n;
  int blocks_per_sm;
  bool shared;
};

FormTile form_of(const Shape& shape) {
  const bool blocks = shape.scales == Scales::blocks;
  switch (shape.form) {
    case Form::tiny:  // streams b: many bytes under way, in blocks of threads that are cheap to have many of
      return {16, 64, blocks ? 128 : 256, blocks ? 8 : 5, 1, 4, 2, true};
    case Form::small:
      return {64, 128, 128, 4, 2, 2, 2, true};
    case Form::medium:
      return {128, 128, 128, 5, 2, 4, 1, true};
    case Form::large:
      // Sums that wait for their scale take registers of their own.
      return blocks ? FormTile{128, 128, 128, 5, 2, 4, 1, false} : FormTile{128, 256, 128, 4, 2, 4, 1, false};
    case Form::plain:
      break;
  }
  return {128, 128, 64, 4, 16, 16, 1, true};
}

int bytes_of_row(int elements, Dtype dtype) { return elements * static_cast<int>(bytes_of(dtype)) + 16; }

}  // namespace

std::optional<Tiling> tile(const Shape& shape, const jit::TargetInfo& target) {
  FormTile f = form_of(shape);
  // A row's 128 columns that share a scale must be in one tile.
  const int out_n = shape.gate ? f.tile_n / 2 : f.tile_n;
  if (shape.out_scale && out_n < 128) {
    const int times = 128 / out_n;
    f.tile_n *= times, f.warps_n *= times, f.blocks_per_sm = 1;
  }
  Tiling t{};
  t.tile_m = f.tile_m, t.tile_n = f.tile_n;
  t.step_k = f.step_bytes / static_cast<int>(bytes_of(shape.a));
  t.warps_m = f.warps_m, t.warps_n = f.warps_n;
  t.threads = shape.form == Form::plain ? 256 : f.warps_m * f.warps_n * static_cast<int>(target.warp_size);
  if (t.threads > 1024) return {};
  t.shared = f.shared && shape.grouping == Grouping::dense;

  const int a = shape.transposed_a ? t.step_k * bytes_of_row(t.tile_m, shape.a) : t.tile_m * bytes_of_row(t.step_k, shape.a);
  const int b = shape.transposed_b ? t.step_k * bytes_of_row(t.tile_n, shape.b) : t.tile_n * bytes_of_row(t.step_k, shape.b);
  const int scales = shape.scales == Scales::blocks ? ((t.tile_m + t.tile_n / 16) * 4 + 15) & ~15 : 0;
  const int slice_rows = shape.form == Form::plain ? 16 : 16 * t.warps_m;
  const auto stage = static_cast<std::uint32_t>(a + b + scales);
  const auto staged = static_cast<std::uint32_t>(slice_rows * (t.tile_n + 4) * 4);
  const std::uint32_t reserve = kReserve + (shape.grouping == Grouping::dense ? 0 : kExpertBytes);
  for (int blocks = f.blocks_per_sm; blocks >= 1; --blocks) {
    for (int stages = target.async_copy ? f.most_stages : 1; stages >= 1; --stages) {
      const std::uint32_t bytes = std::max(stage * static_cast<std::uint32_t>(stages), staged);
      const std::uint32_t each = bytes + reserve;
      if (each > target.shared_per_block || each * static_cast<std::uint32_t>(blocks) > target.shared_per_sm) continue;
      if (blocks > 1 && target.async_copy && stages < 3) break;  // rather one block with a pipeline
      t.stages = stages;
      t.blocks_per_sm = blocks;
      t.shared_bytes = bytes;
      return t;
    }
  }
  return {};
}

}  // namespace quern::ops::gemm
