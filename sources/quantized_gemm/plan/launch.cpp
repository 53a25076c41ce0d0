// The calls of quantized_gemm: which blocks of threads contribute to a tile, the workspace, the launch.
// SPDX-License-Identifier: Apache-2.0
#include "sources/launch.h"

#include <algorithm>
#include <cmath>

#include "jit/error.h"
#include "sources/divisor.h"
#include "sources/ops.h"
#include "sources/quantized_gemm/plan/shape.h"
#include "sources/workspace.h"

namespace quern::ops::quantized_gemm {
namespace {

// With stream-K a block of threads has at least so many k blocks: fewer cost more in partial sums.
constexpr std::int64_t kFewestKBlocks = 4;
// Stream-K pays where whole tiles would keep less than this part of the device busy.
constexpr double kWorthStreamK = 0.9;
// Of Variant::warpgroups: where it saves each block of threads as many k blocks as partial sums take the time of.
constexpr std::int64_t kKBlocksOfSums = 12;

// Few rows are bound by memory, which so large a part of the device nearly exhausts.
constexpr double kWorthEqual = 0.8;

std::int64_t div_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

bool is_invariant(const Problem& problem) { return (problem.product.flags & QUERN_CALL_BATCH_INVARIANT) != 0; }

std::uint64_t workspace_for(const Tiling& t, std::int64_t blocks) {
  return kCounterBytes + 2 * static_cast<std::uint64_t>(blocks) * t.sums_bytes();
}

struct Plan {
  std::int64_t tiles_m, tiles_n, grid;
  bool stream_k;
};
Plan plan(const Problem& problem, const Tiling& t) {
  const q::GemmParams& g = problem.product.params;
  const std::int64_t columns = problem.shape.gate ? g.n / 2 : g.n, width = problem.shape.gate ? t.tile_n / 2 : t.tile_n;
  Plan plan{div_up(g.m, t.tile_m), div_up(columns, width), 0, false};
  const std::int64_t tiles = plan.tiles_m * plan.tiles_n, k_blocks = div_up(g.k, t.block_k);
  if (tiles > INT32_MAX) {
    throw Error(QUERN_INVALID, "out has " + std::to_string(tiles) + " tiles of " + std::to_string(t.tile_m) + " x " +
                                   std::to_string(width) + "; allowed: fewer than 2^31");
  }
  const std::int64_t slots = std::int64_t{problem.product.call.sms} * t.blocks_per_sm;
  plan.grid = std::min(tiles, slots);
  // Two warpgroups have a counter each.
  const bool warpgroups = problem.shape.rows == Variant::warpgroups;
  const std::int64_t counters = warpgroups ? 2 * tiles : tiles;
  if (problem.shape.rows == Variant::integers || is_invariant(problem) || tiles == 0 || counters > kCounters ||
      tiles * k_blocks > INT32_MAX)
    return plan;
  if (is_few(problem.shape.rows)) {
    Extents call = problem.extents();
    call.sms = problem.product.call.sms;
    if (!pays_to_divide(problem.shape, call)) return plan;
    std::int64_t contributors = std::min(slots, tiles * k_blocks);
    // Equal parts of each tile, where they keep nearly as many multiprocessors busy: then no block has two to finish.
    const std::int64_t equal = contributors / tiles * tiles;
    if (static_cast<double>(equal) >= kWorthEqual * static_cast<double>(contributors)) contributors = equal;
    if (contributors <= tiles) return plan;
    plan.stream_k = true;
    plan.grid = contributors;
    return plan;
  }
  const std::int64_t waves = div_up(tiles, slots);
  const double busy = static_cast<double>(tiles) / static_cast<double>(waves * slots);
  const std::int64_t contributors = std::max<std::int64_t>(std::min(slots, tiles * k_blocks / kFewestKBlocks), 1);
  const bool whole =
      warpgroups ? waves * k_blocks - div_up(tiles * k_blocks, contributors) < kKBlocksOfSums : busy >= kWorthStreamK;
  if (whole || (contributors <= tiles && tiles < slots)) return plan;
  plan.stream_k = true;
  plan.grid = contributors;
  return plan;
}

// Calls with(shape, tiling) for each variant that calls of no more rows take.
template <class With>
void each_variant(const Problem& problem, With with) {
  const jit::TargetInfo& target = problem.product.call.device->limits;
  Extents call = problem.extents();
  const std::int64_t most = call.rows;
  Shape shape = problem.shape;
  for (std::int64_t rows = 8, before = 0; before == 0 || (before < most && before < 128); before = rows, rows *= 2) {
    call.rows = std::min(rows, most);
    const Shape next = choose(shape, call, target);
    if (before > 0 && next.rows == shape.rows && next.columns == shape.columns) continue;
    shape = next;
    with(shape, *tile(shape, target));
  }
  // Of Variant::integers the width of tiles hangs on more rows, too, and few tiles have the first kernel divide k.
  if (most <= 128 || !takes_integers(shape, target)) return;
  std::uint32_t seen = 0;  // a bit for each 16 columns, the first for the first kernel
  for (std::int64_t rows = 128; rows < most;) {
    rows = std::min(gemm::row_class(rows + 1), most);
    call.rows = rows;
    const Shape next = choose(shape, call, target);
    const std::uint32_t own = 1U << (next.rows == Variant::integers ? next.columns / 16 : 0);
    if ((seen & own) == 0) with(next, *tile(next, target));
    seen |= own;
    if (rows == gemm::row_class(INT64_MAX)) break;
  }
}

// The problem with the variant that a trial asks for, where that can compute it.
Problem as(Problem problem, Variant variant, int columns) {
  Shape shape = problem.shape;
  shape.rows = variant, shape.columns = columns;
  const bool exact = variant != Variant::warpgroups || !is_invariant(problem);
  if (!is_few(variant) && exact && tile(shape, problem.product.call.device->limits)) problem.shape = shape;
  return problem;
}

void launch_problem(const Runtime& runtime, const quern_quantized_gemm_args& args, Problem& problem);

}  // namespace

std::uint64_t workspace(const Runtime& runtime, const quern_quantized_gemm_args& args) {
  const Problem problem = read_problem(runtime, args, true);
  if (is_invariant(problem)) return 0;
  const int sms = std::max(static_cast<int>(problem.product.call.device->sm_count), 1);
  std::uint64_t bytes = 0;
  each_variant(problem, [&](const Shape& shape, const Tiling& t) {
    if (shape.rows == Variant::integers) return;  // it divides nothing
    bytes = std::max(bytes, workspace_for(t, std::int64_t{sms} * t.blocks_per_sm));
  });
  return bytes;
}

void prepare(const Runtime& runtime, const quern_quantized_gemm_args& args) {
  const Problem problem = read_problem(runtime, args, true);
  const jit::Target target = problem.product.call.device->limits.target;
  each_variant(problem, [&](const Shape& shape, const Tiling&) {
    kernel_for(runtime, to_spec(shape, target), args.flags, args.stream);
  });
}

void run(const Runtime& runtime, const quern_quantized_gemm_args& args) {
  Problem problem = read_problem(runtime, args, false);
  launch_problem(runtime, args, problem);
}

std::uint64_t workspace_as(const Runtime& runtime, const quern_quantized_gemm_args& args, Variant variant,
                           int columns) {
  const Problem problem = as(read_problem(runtime, args, true), variant, columns);
  const Tiling t = *tile(problem.shape, problem.product.call.device->limits);
  const int sms = std::max(static_cast<int>(problem.product.call.device->sm_count), 1);
  return std::max(workspace(runtime, args),
                  is_invariant(problem) ? 0 : workspace_for(t, std::int64_t{sms} * t.blocks_per_sm));
}

void run_as(const Runtime& runtime, const quern_quantized_gemm_args& args, Variant variant, int columns) {
  Problem problem = as(read_problem(runtime, args, false), variant, columns);
  launch_problem(runtime, args, problem);
}

namespace {

void launch_problem(const Runtime& runtime, const quern_quantized_gemm_args& args, Problem& problem) {
  const jit::TargetInfo& limits = problem.product.call.device->limits;
  const Tiling t = *tile(problem.shape, limits);
  const Plan how = plan(problem, t);
  q::GemmParams& g = problem.product.params;
  if (how.stream_k) {
    const Workspace space = read_workspace(args.workspace, args.workspace_size, workspace_for(t, how.grid));
    g.arrived = space.counters;
    g.partials = static_cast<float*>(space.scratch);
  }
  const jit::Kernel* kernel = kernel_for(runtime, to_spec(problem.shape, limits.target), args.flags, args.stream);
  if (how.grid == 0) return;
  g.tiles_m = static_cast<std::int32_t>(how.tiles_m), g.tiles_n = static_cast<std::int32_t>(how.tiles_n);
  g.tiles = g.tiles_m * g.tiles_n;
  g.whole_tiles = how.stream_k ? 0 : 1;
  g.flags = (args.flags & QUERN_GEMM_CONSTANT_B) != 0 ? q::kConstantB : 0;
  g.peers = 1, g.parts = divisor(1);
  // Blocks that run at the same time read the least of a and b where their tiles form a square.
  const double square =
      std::sqrt(static_cast<double>(problem.product.call.sms) * t.blocks_per_sm * t.tile_n / t.tile_m);
  const auto height = static_cast<std::int32_t>(std::clamp<long>(std::lround(square), 1, g.tiles_m));
  const std::int32_t last = g.tiles_m % height;
  g.panel_height = divisor(height), g.last_panel_height = divisor(last != 0 ? last : height);
  g.panel_tiles = divisor(height * g.tiles_n);
  g.group_tiles = divisor(g.tiles), g.row_tiles = divisor(g.tiles_n);
  problem.params.product = g;
  jit::Launch launch;
  launch.grid[0] = static_cast<std::uint32_t>(how.grid);
  launch.block[0] = static_cast<std::uint32_t>(t.threads);
  launch.shared_bytes = t.shared_bytes;
  launch.programmatic = (args.flags & QUERN_CALL_PROGRAMMATIC) != 0;
  launch.stream = args.stream;
  if (problem.shape.rows == Variant::warpgroups) return launch_warpgroups(runtime, problem, *kernel, launch);
  if (problem.shape.rows == Variant::integers) return launch_integers(runtime, problem, *kernel, launch);
  ops::launch(runtime, *kernel, launch, "launching quantized_gemm", problem.params);
}

}  // namespace

}  // namespace quern::ops::quantized_gemm
