// SPDX-License-Identifier: Apache-2.0
#include "sources/gemm/columns.h"

#include <algorithm>

#include "sources/gemm/plan/choose.h"
#include "sources/gemm/plan/maps.h"
#include "sources/gemm/problem.h"

namespace quern::ops::gemm {
namespace {

Problem with_columns(const Problem& problem, std::int64_t columns) {
  Problem other = problem;
  other.params.n = static_cast<std::int32_t>(columns);
  // The distance of a single column from the next is not known, and 0 would stand for one that all share.
  if (problem.params.n <= 1 && other.params.b_row == 0) other.params.b_row = problem.params.k;
  return other;
}

// Calls with(problem) for the largest of every class of columns that the product's own number does not exceed.
template <class With>
void each_class(const Problem& problem, With with) {
  for (std::int64_t columns = 1;; columns = row_class(columns) + 1) {
    with(with_columns(problem, row_class(columns)));
    if (row_class(columns) >= row_class(problem.params.n)) return;
  }
}

Choice choice_of(const Runtime& runtime, const Problem& problem) {
  const std::int64_t columns = problem.params.n;
  Choice choice = choose(runtime, with_columns(problem, row_class(columns)), sizes_of(problem));
  // What the class's largest number can have and this one may not.
  if (choice.variant == Variant::overlapped_128x256 && (columns % 8 != 0 || !takes_map_of_out(problem)))
    choice.variant = Variant::persistent_128x256;
  if (const std::optional<Tiling> t = tiling_of(problem, choice.variant)) {
    const std::int64_t width = t->out_tile_n(problem.shape.gate), tiles = (columns + width - 1) / width;
    choice.peers = static_cast<int>(std::clamp<std::int64_t>(tiles, 1, choice.peers));
  }
  return choice;
}

}  // namespace

std::uint64_t most_workspace(const Runtime& runtime, const quern_gemm_args& args) {
  const Problem problem = read_problem(args, runtime, true);
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < kVariants.size(); ++i)
    bytes = std::max(bytes, workspace_bytes(problem, static_cast<Variant>(i)));
  return bytes;
}

void columns_prepare(const Runtime& runtime, const quern_gemm_args& args) {
  each_class(read_problem(args, runtime, true), [&](const Problem& problem) { prepare_kernels(runtime, problem); });
}

void columns_run(const Runtime& runtime, const quern_gemm_args& args) {
  Problem problem = read_problem(args, runtime, false);
  launch_as(runtime, problem, choice_of(runtime, problem), args.workspace, args.workspace_size);
}

}  // namespace quern::ops::gemm
