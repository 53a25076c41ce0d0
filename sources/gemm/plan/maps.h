// The tensor maps by which Hopper's kernels copy a tile's operands and store its results.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "sources/gemm/plan/tiling.h"
#include "sources/gemm/problem.h"

namespace quern::ops::gemm {

// Of the problem's variant, whose tiling is given. Of few rows `peers` blocks of threads share the copies of a.
jit::TensorMap map_of_a(const Runtime& runtime, const Problem& problem, const Tiling& tiling, int peers);
jit::TensorMap map_of_b(const Runtime& runtime, const Problem& problem, const Tiling& tiling);
// Of warpgroups: whether out, which has elements of 16 bits, can be described; and its map, which takes a warp's rows
// of 64 columns.
bool takes_map_of_out(const Problem& problem);
jit::TensorMap map_of_out(const Runtime& runtime, const Problem& problem);

}  // namespace quern::ops::gemm
