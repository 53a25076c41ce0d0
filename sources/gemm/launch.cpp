// From a problem to a kernel and its grid: which form for so many rows, who shares tiles, how much workspace that takes.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <string>

#include "jit/error.h"
#include "sources/gemm/problem.h"
#include "sources/gemm/tiling.h"
#include "sources/launch.h"
#include "sources/workspace.h"

namespace quern::ops::gemm {
namespace {

// A block of threads that shares a tile has at least so many steps of it: fewer cost more in sums that go through memory.
constexpr std::int64_t kFewestSteps = 4;
// Sharing pays where whole tiles would leave more than this part of the device idle.
constexpr double kWorthSharing = 0.9;

// Rows from which on each form is taken.
constexpr std::int64_t kMostTiny = 16, kMostSmall = 64;

std::int64_t div_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

Shape in_form(Shape shape, Form form) {
  shape.form = form;
  return shape;
}

struct Sizes {
  std::int64_t rows;  // of a group; where only the device knows, what may be expected
  std::int64_t groups;
};

Sizes sizes_of(const Problem& problem) {
  const q::GemmParams& p = problem.params;
  if (problem.shape.grouping == Grouping::contiguous) return {div_up(p.out_rows, std::max(p.groups, 1)), p.groups};
  return {p.m, p.groups};
}

std::int64_t columns_of(const Problem& problem) { return problem.shape.gate ? problem.params.n / 2 : problem.params.n; }

std::int64_t tiles_of(const Problem& problem, const Tiling& t, const Sizes& sizes) {
  return sizes.groups * div_up(sizes.rows, t.tile_m) * div_up(columns_of(problem), t.out_tile_n(problem.shape.gate));
}

std::optional<Tiling> tiling_of(const Problem& problem, Form form) {
  return tile(in_form(problem.shape, form), problem.call.device->limits);
}

int all_sms(const Problem& problem) { return std::max(static_cast<int>(problem.call.device->sm_count), 1); }

// Larger tiles, where there is a tile for every multiprocessor all the same. Never by max_sms: the set of kernels must not
// depend on it.
bool takes_large(const Problem& problem, const Sizes& sizes) {
  const std::optional<Tiling> t = tiling_of(problem, Form::large);
  return t && tiles_of(problem, *t, sizes) >= all_sms(problem);
}

Form form_of(const Problem& problem, const Sizes& sizes) {
  if (problem.precise) return Form::plain;
  if (sizes.rows <= kMostTiny) return Form::tiny;
  if (sizes.rows <= kMostSmall) return Form::small;
  return takes_large(problem, sizes) ? Form::large : Form::medium;
}

// Calls visit(form) for every form that a product with no more rows and groups can take.
template <class Visit>
void for_each_reachable(const Problem& problem, Visit visit) {
  if (problem.precise) return visit(Form::plain);
  const Sizes sizes = sizes_of(problem);
  visit(Form::tiny);
  if (sizes.rows > kMostTiny) visit(Form::small);
  if (sizes.rows <= kMostSmall) return;
  const Sizes least{kMostSmall + 1, problem.shape.grouping == Grouping::dense ? 1 : sizes.groups};
  if (!takes_large(problem, least)) visit(Form::medium);
  if (takes_large(problem, sizes)) visit(Form::large);
}

bool may_share(const Problem& problem, const Tiling& t) { return t.shared && (problem.flags & QUERN_CALL_BATCH_INVARIANT) == 0; }

struct Plan {
  Tiling tiling;
  std::int64_t grid;
  bool shared;
  std::uint64_t workspace;
};

[[noreturn]] void refuse_room(const Problem& problem) {
  throw Error(QUERN_UNSUPPORTED, "a matrix product of " + std::string(name_of(problem.shape.a)) + " does not fit the shared memory of " +
                                     problem.call.device->limits.target.name());
}

std::uint64_t workspace_for(const Problem& problem, const Tiling& t, std::int64_t blocks) {
  return may_share(problem, t) ? kCounterBytes + 2 * static_cast<std::uint64_t>(blocks) * t.sums_bytes() : 0;
}

Plan plan(const Problem& problem, Form form, const Sizes& sizes) {
  const std::optional<Tiling> t = tiling_of(problem, form);
  if (!t) refuse_room(problem);
  Plan plan{*t, 0, false, 0};
  const std::int64_t tiles = tiles_of(problem, *t, sizes);
  if (tiles > INT32_MAX) {
    throw Error(QUERN_INVALID, "out has " + std::to_string(tiles) + " tiles of " + std::to_string(t->tile_m) + " x " +
                                   std::to_string(t->out_tile_n(problem.shape.gate)) + "; allowed: fewer than 2^31");
  }
  const std::int64_t slots = std::int64_t{problem.call.sms} * t->blocks_per_sm;
  if (problem.shape.grouping != Grouping::dense) {
    // Persistent: only the device knows how many tiles there are.
    plan.grid = slots;
    return plan;
  }
  plan.grid = problem.call.sms < all_sms(problem) ? std::min(tiles, slots) : tiles;
  if (!may_share(problem, *t) || tiles == 0 || tiles > kCounters) return plan;
  const double busy = static_cast<double>(tiles) / static_cast<double>(div_up(tiles, slots) * slots);
  const std::int64_t steps = div_up(problem.params.k, t->step_k);
  const std::int64_t sharers = std::min(slots, tiles * steps / kFewestSteps);
  if (busy >= kWorthSharing || sharers <= tiles) {
    // More tiles than slots in an uneven number of waves: the last one may be shared all the same.
    if (busy >= kWorthSharing || tiles < slots) return plan;
  }
  plan.shared = true;
  plan.grid = std::max<std::int64_t>(sharers, 1);
  plan.workspace = workspace_for(problem, *t, plan.grid);
  return plan;
}

}  // namespace

std::uint64_t workspace_bytes(const Problem& problem) {
  std::uint64_t bytes = 0;
  for_each_reachable(problem, [&](Form form) {
    if (const std::optional<Tiling> t = tiling_of(problem, form)) {
      bytes = std::max(bytes, workspace_for(problem, *t, std::int64_t{all_sms(problem)} * t->blocks_per_sm));
    }
  });
  return bytes;
}

void prepare_kernels(const Runtime& runtime, const Problem& problem) {
  for_each_reachable(problem, [&](Form form) {
    if (!tiling_of(problem, form)) refuse_room(problem);
    kernel_for(runtime, to_spec(in_form(problem.shape, form), problem.op, problem.call.device->limits.target), problem.flags, problem.stream);
  });
}

void launch_product(const Runtime& runtime, Problem& problem, void* workspace, std::uint64_t workspace_size) {
  q::GemmParams& p = problem.params;
  const Sizes sizes = sizes_of(problem);
  problem.shape.form = form_of(problem, sizes);
  const Plan how = plan(problem, problem.shape.form, sizes);
  const Tiling& t = how.tiling;
  if (how.shared) {
    const Workspace space = read_workspace(workspace, workspace_size, how.workspace);
    p.arrived = space.counters;
    p.partials = static_cast<float*>(space.scratch);
  }
  const jit::Kernel* kernel =
      kernel_for(runtime, to_spec(problem.shape, problem.op, problem.call.device->limits.target), problem.flags, problem.stream);
  if (how.grid == 0 || p.groups == 0 || p.n == 0) return;

  p.tiles_m = static_cast<std::int32_t>(div_up(sizes.rows, t.tile_m));
  p.tiles_n = static_cast<std::int32_t>(div_up(columns_of(problem), t.out_tile_n(problem.shape.gate)));
  const double together = static_cast<double>(all_sms(problem) * t.blocks_per_sm);
  p.panel = std::max(1, static_cast<int>(std::lround(std::sqrt(together * t.tile_n / t.tile_m))));
  p.whole_tiles = how.shared ? 0 : 1;
  jit::Launch launch;
  launch.grid[0] = static_cast<std::uint32_t>(how.grid);
  launch.block[0] = static_cast<std::uint32_t>(t.threads);
  launch.shared_bytes = t.shared_bytes;
  launch.programmatic = (problem.flags & QUERN_CALL_PROGRAMMATIC) != 0;
  launch.stream = problem.stream;
  ops::launch(runtime, *kernel, launch, p, "launching a matrix product");
}

}  // namespace quern::ops::gemm
