// The declarations of libcuda that the demo and the benchmarks make themselves, against the real cuda.h: compiling is
// the test.
// SPDX-License-Identifier: Apache-2.0
#include <cuda.h>

#include <array>
#include <cstddef>

#include "tests/bench/device/cuda.h"

namespace quern::bench {
namespace {

// The sizes of the parameters, in order: what the calling convention sees.
template <class Return, class... Parameters>
constexpr std::array<std::size_t, sizeof...(Parameters)> sizes(Return (*)(Parameters...)) {
  static_assert(sizeof(Return) == sizeof(CudaResult));
  return {sizeof(Parameters)...};
}
template <class A, class B>
constexpr bool agree(A ours, B theirs) {
  return sizes(ours) == sizes(theirs);
}

#define QUERN_COMPARE(member, symbol, parameters)                                                                 \
  static_assert(agree(static_cast<CudaResult(*) parameters>(nullptr), static_cast<decltype(&::symbol)>(nullptr)), \
                #symbol);
QUERN_DEMO_CUDA(QUERN_COMPARE)
QUERN_BENCH_CUDA(QUERN_COMPARE)

static_assert(sizeof(KernelNode) == sizeof(CUDA_KERNEL_NODE_PARAMS_v2));
static_assert(offsetof(KernelNode, function) == offsetof(CUDA_KERNEL_NODE_PARAMS_v2, func));
static_assert(offsetof(KernelNode, grid_x) == offsetof(CUDA_KERNEL_NODE_PARAMS_v2, gridDimX));
static_assert(offsetof(KernelNode, block_x) == offsetof(CUDA_KERNEL_NODE_PARAMS_v2, blockDimX));
static_assert(offsetof(KernelNode, shared_bytes) == offsetof(CUDA_KERNEL_NODE_PARAMS_v2, sharedMemBytes));
static_assert(offsetof(KernelNode, parameters) == offsetof(CUDA_KERNEL_NODE_PARAMS_v2, kernelParams));
static_assert(offsetof(KernelNode, extra) == offsetof(CUDA_KERNEL_NODE_PARAMS_v2, extra));
static_assert(offsetof(KernelNode, kernel) == offsetof(CUDA_KERNEL_NODE_PARAMS_v2, kern));
static_assert(offsetof(KernelNode, context) == offsetof(CUDA_KERNEL_NODE_PARAMS_v2, ctx));
static_assert(int{kCaptureThreadLocal} == int{CU_STREAM_CAPTURE_MODE_THREAD_LOCAL});

}  // namespace
}  // namespace quern::bench
