// The tensor maps for TMA copies of the operands' tiles and TMA stores of results.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "sources/gemm/plan/tiling.h"
#include "sources/gemm/problem.h"

namespace quern::ops::gemm {

// For the problem's variant, whose tiling is given. With cluster multicast `peers` blocks of threads share the copies
// of a.
jit::TensorMap map_of_a(const Runtime& runtime, const Problem& problem, const Tiling& tiling, int peers);
jit::TensorMap map_of_b(const Runtime& runtime, const Problem& problem, const Tiling& tiling, int twins);
// For the persistent kernel: whether out can have a tensor map, which needs elements of 16 bits; and that map, whose
// boxes are a warp's 16 rows of 64 columns.
bool takes_map_of_out(const Problem& problem);
jit::TensorMap map_of_out(const Runtime& runtime, const Problem& problem);

}  // namespace quern::ops::gemm
