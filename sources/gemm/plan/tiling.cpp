// The tile of each variant, and as deep a pipeline as the target has room for.
// SPDX-License-Identifier: Apache-2.0
#include "sources/gemm/plan/tiling.h"

#include <algorithm>

namespace quern::ops::gemm {
namespace {

// Bytes of a block's static shared memory, and of what the hardware reserves.
constexpr std::uint32_t kReserve = 1024;
// Bytes of the list of experts (sources/gemm/kernels/shared/grouped_tiles.cuh).
constexpr std::uint32_t kExpertBytes = 3 * 4 * 1024 + 64;

struct PortableTile {
  int tile_m, tile_n;
  int k_block_bytes;  // bytes of a row in a k block
  int most_stages;
  int warps_m, warps_n;
  int blocks_per_sm;
  bool stream_k;
};

PortableTile portable_tile(const Shape& shape) {
  const bool blocks = shape.scales == Scales::blocks;
  const int m = facts_of(shape.variant).rows, n = facts_of(shape.variant).columns;
  switch (shape.variant) {
    case Variant::tiny:  // bound by reading b: many bytes in flight
      // With block scales widening and scaling take longer than copying: more blocks, as many bytes in flight.
      if (blocks) return {m, n, 128, 4, 1, 4, 5, true};
      return {m, n, 256, 4, 1, 4, 2, true};
    case Variant::small:
      return {m, n, 128, 3, 2, 2, 2, true};
    case Variant::medium:
      return {m, n, 128, 4, 2, 4, 1, true};
    case Variant::large:
      // Products that wait for their scale take registers of their own: half the columns.
      return blocks ? PortableTile{m, n / 2, 128, 5, 2, 4, 1, false} : PortableTile{m, n, 128, 4, 2, 4, 1, false};
    default:
      break;
  }
  return {m, n, 64, 4, 16, 16, 1, true};
}

// The fewest stages of a pipeline.
constexpr int kPipeline = 3;

int bytes_of_row(int elements, Dtype dtype) { return elements * static_cast<int>(bytes_of(dtype)) + 16; }

// Bytes of a stage: a k block of a and b as it lies in shared memory, and its block scales, one for each row of a and
// each 16 columns of b.
int stage_bytes(const Shape& shape, const Tiling& t) {
  const auto operand = [&](bool transposed, int lines) {
    return transposed ? t.block_k * bytes_of_row(lines, shape.a) : lines * bytes_of_row(t.block_k, shape.a);
  };
  const int scales = shape.scales == Scales::blocks ? ((t.tile_m + t.tile_n / 16) * 4 + 15) & ~15 : 0;
  return operand(shape.transposed_a, t.tile_m) + operand(shape.transposed_b, t.tile_n) + scales;
}

// Whether wgmma takes the operands, of at most 16 bits. Operands of 8 bits always are k-major.
bool takes_warpgroup_products(const Shape& shape, const jit::TargetInfo& target) {
  if (!target.warpgroups || bytes_of(shape.a) > 2 || shape.copy_bytes != 16) return false;
  // The 128 columns of a scale of results must lie in one tile.
  return !shape.out_scale || !shape.gate;
}

// The persistent kernel: a producer warpgroup and two consumer warpgroups of 64 rows each, one block of threads a
// multiprocessor. The sizes of what lies beside the stages are those of
// sources/gemm/kernels/sm90/persistent_epilogue.cuh and persistent_copies.cuh.
std::optional<Tiling> tile_persistent(const Shape& shape, const jit::TargetInfo& target) {
  constexpr int kRow = 128, kWarps = 8;
  const int bytes = static_cast<int>(bytes_of(shape.a));
  if (!takes_warpgroup_products(shape, target)) return {};
  Tiling t{};
  t.tile_m = facts_of(shape.variant).rows, t.tile_n = facts_of(shape.variant).columns;
  // The halves of a gate, and the 128 columns of a scale of results, must be whole slices.
  if (t.tile_n % 128 != 0 && (shape.gate || shape.out_scale)) return {};
  // So must blocks of scales, and the boxes of an mn-major b.
  if (t.tile_n % 64 != 0 && (shape.scales == Scales::blocks || shape.transposed_b)) return {};
  t.block_k = kRow / bytes;
  t.warps_m = t.warps_n = 1;
  t.blocks_per_sm = 1;
  t.threads = 3 * 128;
  const int most_stages = t.tile_n < 128 ? 8 : 6;
  const bool operands =
      std::any_of(shape.epilogue->operands.begin(), shape.epilogue->operands.end(),
                  [](expression::OperandKind kind) { return kind != expression::OperandKind::unused; });
  const bool plain = !shape.gate && !shape.out_scale && !operands && bytes_of(shape.out) == 2;
  const bool blocks = shape.scales == Scales::blocks, overlapped = shape.variant == Variant::overlapped_128x256;
  if (overlapped && (!plain || shape.scales == Scales::none || shape.grouping != Grouping::dense)) return {};
  const bool dense = shape.grouping == Grouping::dense;
  const int boxes = overlapped ? t.tile_n / 64 : dense && !blocks ? 2 : 1;
  const int slice = shape.out_scale ? 128 : !shape.gate ? 64 : dense ? 32 : shape.scales == Scales::vectors ? 16 : 64;
  const int staged = kWarps * (plain ? boxes * 16 * 128 : 8 * (slice + 8) * 4 * (shape.gate ? 2 : 1));
  const int column_scales =
      shape.scales == Scales::vectors && !shape.out_scale ? (overlapped ? 4 : 2) * t.tile_n * 4 : 0;
  const int stage = (t.tile_m + t.tile_n) * kRow + (blocks ? t.tile_m * (shape.gate || t.tile_n > 128 ? 2 : 1) * 4 : 0);
  // Tiles begin at multiples of 1024 bytes, behind static shared memory.
  const std::uint32_t reserve = 1024 + (shape.grouping == Grouping::dense ? 0 : (kExpertBytes + 1023) / 1024 * 1024);
  for (int stages = most_stages; stages >= kPipeline; --stages) {
    t.stages = stages;
    t.shared_bytes = static_cast<std::uint32_t>(stages * stage + staged + column_scales);
    if (t.shared_bytes + reserve <= target.shared_per_block) return t;
  }
  return {};
}

// The fitted kernel: the same warpgroups. Its tiles have at most so many rows; how many stages there are depends on
// that.
std::optional<Tiling> tile_fitted(const Shape& shape, const jit::TargetInfo& target) {
  constexpr int kMostStages = 12, kConsumers = 2, kRow = 128;
  if (!takes_warpgroup_products(shape, target) || shape.grouping != Grouping::dense || shape.scales == Scales::blocks)
    return {};
  if (shape.gate || shape.out_scale || shape.transposed_a || shape.transposed_b) return {};
  Tiling t{};
  t.tile_m = facts_of(shape.variant).rows, t.tile_n = facts_of(shape.variant).columns;
  // Products of 8 bits that are to be promoted leave no registers for more.
  if (bytes_of(shape.a) == 1 && t.tile_m > 192) return {};
  t.block_k = kRow / static_cast<int>(bytes_of(shape.a));
  t.warps_m = t.warps_n = 1;
  t.blocks_per_sm = 1;
  t.threads = (kConsumers + 1) * 128;
  t.stages = kMostStages;
  if (t.tile_m > 192) t.most_parts = 5;  // as far as there is room for their sums
  // The sizes of what lies behind the stages are those of sources/gemm/kernels/sm90/fitted_epilogue.cuh. Tiles begin at
  // multiples of 1024 bytes, behind static shared memory.
  constexpr int kStaged = kConsumers * 2 * 32 * kRow, kReserved = 1024;
  const int scales = shape.scales == Scales::vectors ? kConsumers * (t.tile_m + 16) * 4 : 0;
  const int room =
      static_cast<int>(std::min<std::uint32_t>(target.shared_per_block, INT32_MAX)) - kReserved - kStaged - scales;
  t.stage_room = room / 1024 * 1024;
  if (t.stage_room < kPipeline * (t.tile_m + t.tile_n) * kRow) return {};
  t.shared_bytes = static_cast<std::uint32_t>(t.stage_room + kStaged + scales);
  return t;
}

// The swap_ab kernel: two consumer warpgroups of 64 rows of b each, a producer warp and a warp that loads scales.
std::optional<Tiling> tile_swap_ab(const Shape& shape, const jit::TargetInfo& target) {
  constexpr int kMostStages = 10, kRow = 128, kMostStaged = 64;
  const int bytes = static_cast<int>(bytes_of(shape.a));
  if (!takes_warpgroup_products(shape, target)) return {};
  Tiling t{};
  t.tile_m = facts_of(shape.variant).rows, t.tile_n = facts_of(shape.variant).columns;
  t.block_k = kRow / bytes;
  t.warps_m = t.warps_n = 1;
  t.threads = 10 * 32;
  const auto rows = static_cast<std::uint32_t>(t.tile_m);
  const std::uint32_t staged = std::min<std::uint32_t>(rows, kMostStaged) * (128 + 4) * 4;
  const std::uint32_t scales = shape.scales == Scales::blocks ? rows * 4 * (shape.gate ? 2 : 1) : 0;
  const std::uint32_t stage = (rows + 128) * kRow + scales;
  // Tiles begin at multiples of 1024 bytes, behind static shared memory; the hardware reserves 1024 bytes for each
  // block.
  const std::uint32_t reserve = 1024 + (shape.grouping == Grouping::dense ? 0 : (kExpertBytes + 1023) / 1024 * 1024);
  // Where stages are small two blocks fit a multiprocessor, so that the next launch's copies begin before this one has
  // ended.
  for (t.blocks_per_sm = t.tile_m <= 32 ? 2 : 1; t.blocks_per_sm >= 1; --t.blocks_per_sm) {
    for (t.stages = kMostStages; t.stages >= kPipeline + (t.blocks_per_sm > 1 ? 1 : 0); --t.stages) {
      t.shared_bytes = static_cast<std::uint32_t>(t.stages) * stage + staged;
      const std::uint32_t each = t.shared_bytes + reserve;
      if (each <= target.shared_per_block &&
          (each + 1024) * static_cast<std::uint32_t>(t.blocks_per_sm) <= target.shared_per_sm)
        return t;
    }
  }
  return {};
}

// Bytes in which the sums of a tile of split_k arrive: 2 KB for each 8 columns of 64 rows that a block finishes, from
// every other block.
int received_sums_bytes(const Tiling& t) {
  const int groups = t.tile_n / 8;
  int most = 0;
  for (int parts = 2; parts <= t.most_parts; ++parts) most = std::max(most, (groups + parts - 1) / parts * (parts - 1));
  return most * (t.tile_m / 64) * 2048;
}

// The small_m and split_k kernels: for each 64 rows several consumer warpgroups, which take the k blocks in turn
// (small_m) or have different columns (split_k), a producer warp and two warps that load scales. The sizes of what lies
// beside the stages are those of sources/gemm/kernels/sm90/small_m.cuh and split_k.cuh.
std::optional<Tiling> tile_small_m(const Shape& shape, const jit::TargetInfo& target) {
  constexpr int kMostStages = 24, kRow = 128;
  const bool split_k = is_a(Family::split_k, shape.variant);
  const int bytes = static_cast<int>(bytes_of(shape.a));
  if (!target.warpgroups || bytes > 2 || shape.transposed_a || shape.transposed_b || shape.copy_bytes != 16) return {};
  if (shape.grouping != Grouping::dense || (split_k && shape.gate)) return {};
  // A scale of results belongs to 128 columns, which lie in several tiles. Gated products have no other kernel for
  // that on Hopper; of these tiles a thread has registers for what it holds of each.
  if (shape.out_scale && !(shape.gate && shape.variant == Variant::small_m_64x64)) return {};
  Tiling t{};
  t.tile_m = facts_of(shape.variant).rows, t.tile_n = facts_of(shape.variant).columns;
  // The columns of a tile must belong to one block of scales.
  if (shape.scales == Scales::blocks && 128 % t.tile_n != 0) return {};
  t.block_k = kRow / bytes;
  t.warps_m = t.warps_n = 1;
  t.blocks_per_sm = 1;
  const int row_groups = t.tile_m / 64;
  // With split-K the warpgroups have different columns, so that nothing is left to add up within a block.
  const int interleaved = split_k ? 1 : t.tile_m == 64 && t.tile_n <= 32 ? 4 : 2;
  t.column_groups = split_k ? 2 / row_groups : 1;
  const int warpgroups = row_groups * t.column_groups * interleaved;
  t.threads = warpgroups * 128 + 3 * 32;
  const int vectors = shape.scales == Scales::vectors ? (t.tile_m + t.tile_n) * 4 : 0;
  const int scales = shape.scales == Scales::blocks ? t.tile_m * 4 * (shape.gate ? 2 : 1) : 0;
  if (split_k) {
    // Sums from more blocks would take the room of stages, which tiles of 128 rows need.
    if (t.tile_m == 128) t.most_parts = 2;
    // As measured on an H200: with 64 rows as many places of a as stages of b, with 128 rows more of b.
    t.stages = t.tile_m == 64 ? 6 : t.tile_n < 128 ? 8 : 7;
    t.stages_of_a = t.tile_m == 128 ? 5 : 6;
    // Tiles begin at multiples of 1024 bytes, behind barriers and scales.
    const int barriers = 8 * (2 * t.stages + warpgroups + 1);
    const int before = (barriers + 15) / 16 * 16 + t.stages_of_a * scales + std::max(vectors, 16);
    t.shared_bytes =
        static_cast<std::uint32_t>((t.stages * t.tile_n + t.stages_of_a * t.tile_m) * kRow + received_sums_bytes(t));
    const auto fixed = static_cast<std::uint32_t>((before + 1023) / 1024 * 1024);
    if (fixed + t.shared_bytes > target.shared_per_block) return {};
    return t;
  }
  const int staged = (interleaved + 1) / 2 * t.tile_m * (t.tile_n + 8) * 4;
  const int stage = (t.tile_m + t.tile_n) * kRow + scales;
  // Tiles begin at multiples of 1024 bytes, behind static shared memory.
  constexpr std::uint32_t kStatic = 1024;
  const int room = static_cast<int>(std::min<std::uint32_t>(target.shared_per_block, INT32_MAX)) -
                   static_cast<int>(kStatic) - staged - vectors;
  // Warpgroups that take k blocks in turn have stages of their own.
  t.stages = std::min(kMostStages, room / stage) / interleaved * interleaved;
  if (t.stages < 2 * interleaved) return {};
  t.stages_of_a = t.stages;
  t.shared_bytes = static_cast<std::uint32_t>(t.stages * stage + staged + vectors);
  return t;
}

// sliced_k, for few rows: one block a multiprocessor, whose warps form teams of four with k blocks and stages of their
// own. As many bytes are to be in flight as there is room for, by more teams rather than by more stages of each.
std::optional<Tiling> tile_sliced(const Shape& shape, const jit::TargetInfo& target) {
  constexpr int kMostTeams = 5, kFewestTeams = 2, kMostStages = 4, kRow = 128;
  // A scale of results belongs to 128 columns, which would lie in several tiles.
  if (!target.async_copy || shape.grouping != Grouping::dense || shape.out_scale) return {};
  // Its teams are of warps of 32: no GPU has both larger ones and asynchronous copies.
  if (target.warp_size != 32) return {};
  Tiling t{};
  t.tile_m = facts_of(shape.variant).rows, t.tile_n = facts_of(shape.variant).columns;
  t.warps_m = 1, t.warps_n = 4;
  t.block_k = kRow / static_cast<int>(bytes_of(shape.a));
  t.blocks_per_sm = 1;
  t.stream_k = true;
  const int warps = t.warps_m * t.warps_n * static_cast<int>(target.warp_size), stage = stage_bytes(shape, t);
  int most = 0;
  for (int teams = std::min(kMostTeams, 1024 / warps); teams >= kFewestTeams; --teams) {
    const int room = static_cast<int>(target.shared_per_block - kReserve) / (teams * stage);
    const int stages = std::min(kMostStages, room);
    if (stages < kPipeline || teams * (stages - 1) <= most) continue;
    most = teams * (stages - 1);
    t.teams = teams, t.stages = stages, t.threads = teams * warps;
    t.shared_bytes = static_cast<std::uint32_t>(teams * stages * stage);
  }
  if (most == 0) return {};
  return t;
}

// The tma_mma kernel: 16-bit operands, both k-major; a k block is 128 bytes of each row.
std::optional<Tiling> tile_tma_mma(const Shape& shape, const jit::TargetInfo& target) {
  constexpr int kStages = 4, kRow = 128;
  if (!target.tensor_maps || bytes_of(shape.a) != 2 || shape.transposed_a || shape.transposed_b) return {};
  if (shape.grouping != Grouping::dense || shape.scales != Scales::none || shape.copy_bytes != 16) return {};
  const bool high = shape.variant == Variant::tma_mma_256x192;
  Tiling t{};
  t.tile_m = facts_of(shape.variant).rows, t.tile_n = facts_of(shape.variant).columns;
  // The 128 columns of a scale of results must lie in one tile.
  if (shape.out_scale && t.out_tile_n(shape.gate) % 128 != 0) return {};
  t.block_k = kRow / 2;
  t.warps_m = high ? 4 : 2, t.warps_n = high ? 2 : 4;
  t.threads = 8 * 32;
  t.blocks_per_sm = 1;
  t.stages = kStages;
  t.continuous = t.stream_k = true;
  t.shared_bytes = static_cast<std::uint32_t>(t.stages * (t.tile_m + t.tile_n) * kRow);
  // Tiles begin at multiples of 1024 bytes, behind static shared memory.
  constexpr std::uint32_t kStatic = 1024;
  if (t.shared_bytes + kStatic > target.shared_per_block) return {};
  return t;
}

}  // namespace

std::optional<Tiling> tile(const Shape& shape, const jit::TargetInfo& target) {
  switch (facts_of(shape.variant).family) {
    case Family::persistent:
      return tile_persistent(shape, target);
    case Family::fitted:
      return tile_fitted(shape, target);
    case Family::swap_ab:
      return tile_swap_ab(shape, target);
    case Family::small_m:
    case Family::split_k:
      return tile_small_m(shape, target);
    case Family::tma_mma:
      return tile_tma_mma(shape, target);
    case Family::portable:
      break;
  }
  if (shape.variant == Variant::sliced_k) return tile_sliced(shape, target);
  PortableTile f = portable_tile(shape);
  // The 128 columns of a scale of results must lie in one tile.
  const int out_n = shape.gate ? f.tile_n / 2 : f.tile_n;
  if (shape.out_scale && out_n < 128) {
    const int times = 128 / out_n;
    f.tile_n *= times, f.warps_n *= times, f.blocks_per_sm = 1;
  }
  Tiling t{};
  t.tile_m = f.tile_m, t.tile_n = f.tile_n;
  t.warps_m = f.warps_m, t.warps_n = f.warps_n;
  t.threads = shape.variant == Variant::plain ? 256 : f.warps_m * f.warps_n * static_cast<int>(target.warp_size);
  if (t.threads > 1024) return {};
  t.stream_k = f.stream_k && shape.grouping == Grouping::dense;

  const std::uint32_t reserve = kReserve + (shape.grouping == Grouping::dense ? 0 : kExpertBytes);
  const int slice_rows = shape.variant == Variant::plain ? 16 : 16 * t.warps_m;
  const auto staged = static_cast<std::uint32_t>(slice_rows * (t.tile_n + 4) * 4);
  // Small tiles leave room to stage results beside the stages, so that the pipeline runs on from tile to tile.
  const bool may_run_on = shape.variant != Variant::large && target.async_copy;
  const auto fit = [&](int k_block_bytes, int blocks, int stages, bool run_on) {
    t.block_k = k_block_bytes / static_cast<int>(bytes_of(shape.a));
    const auto of_stages = static_cast<std::uint32_t>(stage_bytes(shape, t) * stages);
    const std::uint32_t bytes = run_on ? of_stages + staged : std::max(of_stages, staged);
    const std::uint32_t each = bytes + reserve;
    if (each > target.shared_per_block || each * static_cast<std::uint32_t>(blocks) > target.shared_per_sm)
      return false;
    t.stages = stages, t.blocks_per_sm = blocks, t.continuous = run_on, t.shared_bytes = bytes;
    return true;
  };
  // With block scales a k block is 128 elements, whatever the room.
  const bool blocks_of_k = shape.scales == Scales::blocks;
  const int shortest_k_block = blocks_of_k || shape.variant == Variant::plain ? f.k_block_bytes : 64;
  if (!target.async_copy) {
    for (int k_block_bytes = f.k_block_bytes; k_block_bytes >= shortest_k_block; k_block_bytes /= 2) {
      if (fit(k_block_bytes, 1, 1, false)) return t;
    }
    return {};
  }
  for (int k_block_bytes = f.k_block_bytes; k_block_bytes >= shortest_k_block; k_block_bytes /= 2) {
    for (int blocks = f.blocks_per_sm; blocks >= 1; --blocks) {
      for (int stages = f.most_stages; stages >= kPipeline; --stages) {
        if (fit(k_block_bytes, blocks, stages, may_run_on)) return t;
      }
    }
  }
  // Where room is scarce (sm_86, sm_89, sm_120) results are staged in the place of the stages, and with block scales,
  // whose k blocks cannot be shorter, two stages are enough.
  for (int stages = kPipeline; stages >= (blocks_of_k ? 2 : kPipeline); --stages) {
    if (fit(shortest_k_block, 1, stages, false)) return t;
  }
  return {};
}

}  // namespace quern::ops::gemm
