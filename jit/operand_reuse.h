// Which operands Hopper's machine code keeps from one instruction to the next while 8-bit products are added up.
//
// Between products of the tensor cores, kernels add their sums, times a scale, to those in registers: runs of FFMA that
// share the scale. The tensor cores read and write sums in the same register file all the while, so each operand that
// need not be read again is time for both. The compiler (NVRTC 13.0) keeps the scale for every second instruction
// alone, and has the others yield to another warp. This keeps it for five of six. Only hints change, which have no say
// in what is computed: on one H200 products with block scales take 2 to 3% less time
// (tests/bench/results/2026-11-23_gemm_log.md).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>

namespace quern::jit {

// Of a cubin for compute capability 9.0: how many instructions were given other hints. None in an image that is no
// whole ELF file of CUDA's, and none in code without 8-bit products of warpgroups (QGMMA) or without such runs.
std::size_t keep_shared_operands(std::string* cubin);

}  // namespace quern::jit
