// Products of the gemm op whose columns vary from call to call as rows do: a convolution's places where they lie side
// by side. What is chosen follows the class of their number (row_class), so that what was readied for the most of them
// serves every number below.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "sources/op.h"

namespace quern::ops::gemm {

// The bytes of workspace that a product needs at most, whatever its rows and columns are.
std::uint64_t most_workspace(const Runtime& runtime, const quern_gemm_args& args);
// As the op's own.
void columns_prepare(const Runtime& runtime, const quern_gemm_args& args);
void columns_run(const Runtime& runtime, const quern_gemm_args& args);

}  // namespace quern::ops::gemm
