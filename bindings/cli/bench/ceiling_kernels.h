// The kernels that ceilings are measured with, as CUDA C++ for quern_kernel_prepare.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace quern::cli {

inline constexpr unsigned kCeilingThreads = 256;

// copy_memory(const uint4 *from, uint4 *to, size_t count) and sum_memory(likewise): a part of the memory a block.
extern const char* const kMemoryKernels;
// multiply(const uint4 *data, float *out, int steps): every step is so many operations a block.
struct ProductKernel {
  std::string source;
  std::string how;
  double operations_per_step = 0;  // of a block
  unsigned blocks_per_sm = 1;
  unsigned shared_bytes = 0;
};
// `type` is "bf16", "f16", "e4m3" or "e5m2" (on Hopper by wgmma, elsewhere by mma.sync) or "f32".
ProductKernel product_kernel(const std::string& type, const std::string& target);

}  // namespace quern::cli
