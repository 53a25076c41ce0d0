// The reduce op: several reductions of one tensor over any of its axes, in one pass.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "sources/launch.h"
#include "sources/ops.h"
#include "sources/reduce/dims.h"
#include "sources/reduce/read.h"

namespace quern::ops::reduce {
namespace {

const jit::Kernel* kernel_of(const Shape& shape, const Runtime& runtime, const quern_reduce_args& args) {
  return kernel_for(runtime, to_spec(shape, runtime.driver->device().limits.target), args.flags, args.stream);
}

void launch_units(const Runtime& runtime, const jit::Kernel& kernel, const Shape& shape, std::int64_t units,
                  const quern_reduce_args& args, Problem& problem, bool later) {
  const std::int64_t room = std::int64_t{problem.sms} * blocks_per_sm(shape);
  jit::Launch launch;
  launch.grid[0] = static_cast<std::uint32_t>(std::min(units, args.max_sms > 0 ? room : kMost));
  launch.block[0] = shape.way == Way::few ? q::kReduceFewThreads : q::kReduceThreads;
  // What joins pieces waits for them by itself.
  launch.programmatic = later || (args.flags & QUERN_CALL_PROGRAMMATIC) != 0;
  launch.stream = args.stream;
  ops::launch(runtime, kernel, launch, "launching reduce", problem.params);
}

// What engines reduce is theirs to say.
void list(const quern_model&, const jit::TargetInfo&, std::vector<jit::Spec>*) {}

}  // namespace

const Op op{"reduce", to_unit, parse, list, to_constants};

std::uint64_t workspace(const Runtime& runtime, const quern_reduce_args& args) {
  return read_problem(args, runtime, true).workspace();
}

void prepare(const Runtime& runtime, const quern_reduce_args& args) {
  const Problem problem = read_problem(args, runtime, true);
  kernel_of(problem.shape, runtime, args);
  if (problem.params.pieces > 1) kernel_of(joining(problem.shape), runtime, args);
  for (const Shape& other : problem.others) kernel_of(other, runtime, args);
}

void run(const Runtime& runtime, const quern_reduce_args& args) {
  Problem problem = read_problem(args, runtime, false);
  const bool cut = problem.params.pieces > 1;
  if (cut) problem.params.partial = read_workspace(args.workspace, args.workspace_size, problem.workspace()).scratch;
  const jit::Kernel* kernel = kernel_of(problem.shape, runtime, args);
  const Shape join = joining(problem.shape);
  const jit::Kernel* joiner = cut ? kernel_of(join, runtime, args) : nullptr;
  if (problem.params.rows == 0) return;
  launch_units(runtime, *kernel, problem.shape, problem.units, args, problem, false);
  if (!cut) return;
  const std::int64_t warps = q::kReduceThreads / static_cast<int>(runtime.driver->device().limits.warp_size);
  const std::int64_t each = problem.params.pieces > q::kManyPieces  ? 1
                            : problem.params.pieces > q::kFewPieces ? warps
                                                                    : q::kReduceThreads;
  launch_units(runtime, *joiner, join, (problem.params.rows + each - 1) / each, args, problem, true);
}

}  // namespace quern::ops::reduce
