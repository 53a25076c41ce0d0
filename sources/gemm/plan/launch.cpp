// From a problem to a kernel and its grid: which blocks contribute to a tile, and how much workspace that takes.
// SPDX-License-Identifier: Apache-2.0
#include "sources/launch.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>

#include "jit/error.h"
#include "sources/divisor.h"
#include "sources/gemm/plan/choose.h"
#include "sources/gemm/plan/maps.h"
#include "sources/workspace.h"

namespace quern::ops::gemm {
namespace {

// GemmParams keeps to the lines of 64 bytes in which Hopper reads parameters.
constexpr std::size_t kFirstLine = 48, kLine = 64;
static_assert(offsetof(q::GemmParams, last_panel_height) == kFirstLine);
static_assert(offsetof(q::GemmParams, scale_a) == kFirstLine + kLine);
static_assert(offsetof(q::GemmParams, out) == kFirstLine + 2 * kLine);
static_assert(offsetof(q::GemmParams, out_scale_column) == kFirstLine + 3 * kLine);

// With stream-K a block has at least so many k blocks: fewer cost more in partial sums that go through memory.
constexpr std::int64_t kFewestKBlocks = 4;
// Kernels count the k blocks of all divided tiles in 32 bits.
constexpr std::int64_t kMostUnits = INT32_MAX;
// Stream-K pays where whole tiles would keep less than this part of the device busy.
constexpr double kWorthStreamK = 0.9;

std::int64_t div_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

Shape with_variant(Shape shape, Variant variant) {
  shape.variant = variant;
  return shape;
}

bool may_stream_k(const Problem& problem, const Tiling& t) {
  return t.stream_k && (problem.flags & QUERN_CALL_BATCH_INVARIANT) == 0;
}

struct Plan {
  Tiling tiling;
  int peers;
  std::int64_t grid;
  bool stream_k;
  std::uint64_t workspace;
  Split split;  // of few rows: split-K, which needs no workspace within a cluster
};

[[noreturn]] void refuse_room(const Problem& problem) {
  throw Error(QUERN_UNSUPPORTED, "a matrix product of " + std::string(name_of(problem.shape.a)) +
                                     " does not fit the shared memory of " + problem.call.device->limits.target.name());
}

std::uint64_t workspace_for(const Problem& problem, const Tiling& t, std::int64_t blocks) {
  return may_stream_k(problem, t) ? kCounterBytes + 2 * static_cast<std::uint64_t>(blocks) * t.sums_bytes() : 0;
}

Plan plan(const Problem& problem, const Choice& choice, const Sizes& sizes) {
  const Variant variant = choice.variant;
  std::optional<Tiling> t = tiling_of(problem, variant);
  if (!t) refuse_room(problem);
  t = fitted_to(*t, choice, sizes.rows);
  const int peers = may_pair(problem, variant) ? choice.peers : 1;
  Plan plan{*t, peers, 0, false, 0, {}};
  const std::int64_t tiles = tiles_of(problem, *t, sizes);
  if (tiles > INT32_MAX) {
    throw Error(QUERN_INVALID, "out has " + std::to_string(tiles) + " tiles of " + std::to_string(t->tile_m) + " x " +
                                   std::to_string(t->out_tile_n(problem.shape.gate)) + "; allowed: fewer than 2^31");
  }
  const std::int64_t slots = std::int64_t{problem.call.sms} * t->blocks_per_sm;
  if (is_a(Family::swap_ab, variant) && problem.shape.grouping == Grouping::dense) {
    // A choice fits the device; a product without columns has none.
    plan.split = split_into(choice.parts, choice.peers, tiles_to_split(problem, *t, sizes), machine_of(problem, *t))
                     .value_or(Split{});
    plan.grid = plan.split.clusters;
    return plan;
  }
  if (problem.shape.grouping != Grouping::dense) {
    // The grid fills the device, since only the device knows how many tiles there are.
    plan.grid = is_a(Family::swap_ab, variant) ? problem.call.sms : slots / peers * peers;
    return plan;
  }
  if (is_a(Family::fitted, variant)) {
    // With split-K a cluster for each tile, otherwise as many as there is room for.
    const std::int64_t all = clusters_of(problem, *t, choice, sizes), k_blocks = div_up(problem.params.k, t->block_k);
    const std::int64_t room =
        std::max<std::int64_t>(most_clusters_of(choice.peers * choice.twins, machine_of(problem, *t)), 1);
    // Each part has a k block.
    const int parts = static_cast<int>(std::clamp<std::int64_t>(k_blocks, 1, choice.parts));
    plan.split = {parts, choice.peers, parts > 1 ? all : std::min(all, room)};
    plan.grid = plan.split.clusters;
    return plan;
  }
  if (is_a(Family::split_k, variant)) {
    // A cluster for each tile, of as many blocks as there is shared memory for their sums.
    plan.split = {std::clamp(choice.parts, 2, t->most_parts), 1, tiles};
    plan.grid = tiles;
    return plan;
  }
  const std::int64_t k_blocks = div_up(problem.params.k, t->block_k);
  if (variant == Variant::sliced_k) {
    const int parts = may_stream_k(problem, *t) ? parts_of_sliced(*t, tiles, k_blocks, problem.call.sms) : 1;
    plan.split = {parts, 1, tiles * parts};
    plan.grid = std::min(tiles * parts, slots);
    plan.stream_k = parts > 1;
    if (plan.stream_k) plan.workspace = workspace_for(problem, *t, plan.grid);
    return plan;
  }
  if (is_a(Family::tma_mma, variant)) {
    plan.grid = std::min(tiles, slots);
    plan.stream_k = choice.parts == kLastWave && may_stream_k(problem, *t) && tiles % slots != 0 &&
                    tiles % slots * k_blocks <= kMostUnits;
    if (plan.stream_k) plan.grid = slots, plan.workspace = workspace_for(problem, *t, slots);
    return plan;
  }
  const bool persistent =
      is_a(Family::persistent, variant) || is_a(Family::small_m, variant) || problem.call.sms < all_sms(problem);
  plan.grid = persistent ? std::min(div_up(tiles, peers), slots / peers) * peers : tiles;
  if (is_a(Family::small_m, variant)) plan.grid = std::min(runs_of(problem, *t, sizes), slots);
  if (!may_stream_k(problem, *t) || tiles == 0 || tiles > kCounters || tiles * k_blocks > kMostUnits) return plan;
  const double busy = static_cast<double>(tiles) / static_cast<double>(div_up(tiles, slots) * slots);
  const std::int64_t contributors = std::min(slots, tiles * k_blocks / kFewestKBlocks);
  if (busy >= kWorthStreamK || contributors <= tiles) {
    // With more tiles than slots the incomplete last wave may be divided all the same.
    if (busy >= kWorthStreamK || tiles < slots) return plan;
  }
  plan.stream_k = true;
  plan.grid = std::max<std::int64_t>(contributors, 1);
  plan.workspace = workspace_for(problem, *t, plan.grid);
  return plan;
}

}  // namespace

void set_panels(q::GemmParams& p, double area, int peers) {
  // Groups without rows have no tiles, and the divisors are not used.
  const std::int32_t tiles_m = std::max(p.tiles_m, 1);
  const auto height = static_cast<std::int32_t>(std::clamp<long>(std::lround(std::sqrt(area) / peers), 1, tiles_m));
  const std::int32_t last = tiles_m % height;
  p.panel_height = divisor(height);
  p.last_panel_height = divisor(last != 0 ? last : height);
  p.panel_tiles = divisor(height * p.tiles_n);
  p.group_tiles = divisor(tiles_m * p.tiles_n);
  p.row_tiles = divisor(p.tiles_n);
}

std::uint64_t workspace_bytes(const Problem& problem, Variant variant) {
  const std::optional<Tiling> t = tiling_of(problem, variant);
  return t ? workspace_for(problem, *t, std::int64_t{all_sms(problem)} * t->blocks_per_sm) : 0;
}

std::uint64_t workspace_bytes(const Runtime& runtime, const Problem& problem) {
  std::uint64_t bytes = 0;
  for (const Variant variant : reachable(runtime, problem)) bytes = std::max(bytes, workspace_bytes(problem, variant));
  return bytes;
}

const jit::Kernel* kernel_of(const Runtime& runtime, const Problem& problem, Variant variant) {
  if (!tiling_of(problem, variant)) refuse_room(problem);
  return kernel_for(runtime,
                    to_spec(with_variant(problem.shape, variant), problem.op, problem.call.device->limits.target),
                    problem.flags, problem.stream);
}

void prepare_kernels(const Runtime& runtime, const Problem& problem) {
  for (const Variant variant : reachable(runtime, problem)) kernel_of(runtime, problem, variant);
}

void launch_product(const Runtime& runtime, Problem& problem, void* workspace, std::uint64_t workspace_size) {
  launch_as(runtime, problem, choose(runtime, problem, sizes_of(problem)), workspace, workspace_size);
}

std::uint64_t workspace_bytes_as(const Runtime& runtime, const Problem& problem, Variant variant) {
  const std::uint64_t otherwise = workspace_bytes(runtime, problem);
  const bool can = choice_as(problem, sizes_of(problem), variant).has_value();
  return can ? std::max(otherwise, workspace_bytes(problem, variant)) : otherwise;
}

void launch_product_as(const Runtime& runtime, Problem& problem, Variant variant, void* workspace,
                       std::uint64_t workspace_size) {
  const std::optional<Choice> choice = choice_as(problem, sizes_of(problem), variant);
  if (!choice) return launch_product(runtime, problem, workspace, workspace_size);
  launch_as(runtime, problem, *choice, workspace, workspace_size);
}

void launch_as(const Runtime& runtime, Problem& problem, const Choice& choice, void* workspace,
               std::uint64_t workspace_size) {
  q::GemmParams& p = problem.params;
  const Sizes sizes = sizes_of(problem);
  problem.shape.variant = choice.variant;
  const Plan how = plan(problem, choice, sizes);
  const Tiling& t = how.tiling;
  if (how.stream_k) {
    const Workspace space = read_workspace(workspace, workspace_size, how.workspace);
    p.arrived = space.counters;
    p.partials = static_cast<float*>(space.scratch);
  }
  const jit::Kernel* kernel = kernel_for(
      runtime, to_spec(problem.shape, problem.op, problem.call.device->limits.target), problem.flags, problem.stream);
  if (how.grid == 0 || p.groups == 0 || p.n == 0) return;

  p.tiles_m = static_cast<std::int32_t>(div_up(sizes.rows, t.tile_m * how.peers));
  p.tiles_n = static_cast<std::int32_t>(div_up(columns_of(problem), t.out_tile_n(problem.shape.gate)));
  // To the kernel of fitted b is the first operand.
  const bool fitted = is_a(Family::fitted, problem.shape.variant);
  if (fitted) std::swap(p.tiles_m, p.tiles_n);
  p.whole_tiles = how.stream_k ? 0 : 1;
  p.parts = divisor(how.split.parts);
  p.flags = ((problem.flags & QUERN_GEMM_CONSTANT_B) != 0 ? q::kConstantB : 0) | (p.a_group != 0 ? q::kGroupsOfA : 0) |
            (p.b_group != 0 ? q::kGroupsOfB : 0) |
            (fitted ? q::fitted_flags(t.tile_m, t.stages, how.split.peers, choice.twins) : 0);
  jit::Launch launch;
  launch.grid[0] = static_cast<std::uint32_t>(how.grid);
  const bool clustered =
      is_a(Family::swap_ab, problem.shape.variant) || is_a(Family::split_k, problem.shape.variant) || fitted;
  p.peers = clustered ? how.split.peers : how.peers;
  if (clustered) {
    std::int32_t& columns = fitted ? p.tiles_m : p.tiles_n;
    columns = static_cast<std::int32_t>(div_up(columns, how.split.peers));
    if (fitted) p.tiles_n = static_cast<std::int32_t>(div_up(p.tiles_n, choice.twins));
    launch.grid[0] = launch.cluster[0] = static_cast<std::uint32_t>(how.split.parts * how.split.peers * choice.twins);
    launch.grid[1] = static_cast<std::uint32_t>(how.grid);
  }
  p.tiles = static_cast<std::int32_t>(std::int64_t{p.groups} * p.tiles_m * p.tiles_n);
  const double shape = fitted ? static_cast<double>(t.tile_m) / t.tile_n : static_cast<double>(t.tile_n) / t.tile_m;
  set_panels(p, all_sms(problem) * t.blocks_per_sm * shape, fitted ? how.split.peers : how.peers);
  launch.block[0] = static_cast<std::uint32_t>(t.threads);
  launch.shared_bytes = t.shared_bytes;
  launch.programmatic = (problem.flags & QUERN_CALL_PROGRAMMATIC) != 0;
  launch.stream = problem.stream;
  constexpr const char* kWhat = "launching a matrix product";
  const bool two_maps =
      is_a(Family::small_m, problem.shape.variant) || is_a(Family::tma_mma, problem.shape.variant) || clustered;
  if (!is_a(Family::persistent, problem.shape.variant) && !two_maps)
    return ops::launch(runtime, *kernel, launch, kWhat, p);
  jit::TensorMap a = map_of_a(runtime, problem, t, how.split.peers), b = map_of_b(runtime, problem, t, choice.twins);
  if (fitted) return ops::launch(runtime, *kernel, launch, kWhat, p, b, a);
  if (two_maps) return ops::launch(runtime, *kernel, launch, kWhat, p, a, b);
  launch.cluster[0] = static_cast<std::uint32_t>(how.peers);
  p.out_mapped = takes_map_of_out(problem);
  // The overlapped epilogue can store by TMA only; choose() does not take it without a tensor map of out.
  if (problem.shape.variant == Variant::overlapped_128x256 && p.out_mapped == 0) {
    throw Error(QUERN_INVALID,
                "out cannot be described by a tensor map, which the variant overlapped_128x256 needs: its data and "
                "rows must be "
                "aligned to 16 bytes and its columns a multiple of 8");
  }
  // The kernel has this parameter even if out has no tensor map; then any map will do.
  jit::TensorMap out = p.out_mapped != 0 ? map_of_out(runtime, problem) : a;
  ops::launch(runtime, *kernel, launch, kWhat, p, a, b, out);
}

}  // namespace quern::ops::gemm
