// Our declarations of libcuda against the real cuda.h, and our symbols against the toolkit's stub.
// SPDX-License-Identifier: Apache-2.0
#include <cuda.h>
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <array>
#include <cstddef>

#include "jit/cuda_api.h"
#include "jit/driver.h"
#include "jit/gpu_error.h"

namespace quern::jit::cuda {
namespace {

static_assert(kSuccess == CUDA_SUCCESS && kInvalidValue == CUDA_ERROR_INVALID_VALUE);
static_assert(kNotInitialized == CUDA_ERROR_NOT_INITIALIZED && kStubLibrary == CUDA_ERROR_STUB_LIBRARY);
static_assert(kNoDevice == CUDA_ERROR_NO_DEVICE && kNotFound == CUDA_ERROR_NOT_FOUND);
static_assert(kNotSupported == CUDA_ERROR_NOT_SUPPORTED && kCaptureImplicit == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
static_assert(kNotFoundCode == CUDA_ERROR_NOT_FOUND);

static_assert(is_sticky(CUDA_ERROR_ECC_UNCORRECTABLE) && is_sticky(CUDA_ERROR_NVLINK_UNCORRECTABLE));
static_assert(is_sticky(CUDA_ERROR_ILLEGAL_ADDRESS) && is_sticky(CUDA_ERROR_LAUNCH_TIMEOUT));
static_assert(is_sticky(CUDA_ERROR_CONTEXT_IS_DESTROYED) && is_sticky(CUDA_ERROR_ASSERT));
static_assert(is_sticky(CUDA_ERROR_HARDWARE_STACK_ERROR) && is_sticky(CUDA_ERROR_ILLEGAL_INSTRUCTION));
static_assert(is_sticky(CUDA_ERROR_MISALIGNED_ADDRESS) && is_sticky(CUDA_ERROR_INVALID_ADDRESS_SPACE));
static_assert(is_sticky(CUDA_ERROR_INVALID_PC) && is_sticky(CUDA_ERROR_LAUNCH_FAILED));
static_assert(!is_sticky(CUDA_ERROR_INVALID_VALUE) && !is_sticky(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES));
static_assert(refuses_image(CUDA_ERROR_INVALID_IMAGE) && refuses_image(CUDA_ERROR_NO_BINARY_FOR_GPU));
static_assert(refuses_image(CUDA_ERROR_INVALID_PTX) && refuses_image(CUDA_ERROR_UNSUPPORTED_PTX_VERSION));
static_assert(!refuses_image(CUDA_ERROR_OUT_OF_MEMORY));

static_assert(int{kWarpSize} == int{CU_DEVICE_ATTRIBUTE_WARP_SIZE});
static_assert(int{kMultiprocessorCount} == int{CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT});
static_assert(int{kL2CacheSize} == int{CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE});
static_assert(int{kComputeCapabilityMajor} == int{CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR});
static_assert(int{kComputeCapabilityMinor} == int{CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR});
static_assert(int{kSharedPerMultiprocessor} == int{CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR});
static_assert(int{kRegistersPerMultiprocessor} == int{CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR});
static_assert(int{kSharedPerBlockOptin} == int{CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN});

static_assert(int{kMaxThreadsPerBlock} == int{CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK});
static_assert(int{kSharedSizeBytes} == int{CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES});
static_assert(int{kLocalSizeBytes} == int{CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES} &&
              int{kNumRegs} == int{CU_FUNC_ATTRIBUTE_NUM_REGS});
static_assert(int{kMaxDynamicSharedSizeBytes} == int{CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES});
static_assert(int{kJitErrorLogBuffer} == int{CU_JIT_ERROR_LOG_BUFFER});
static_assert(int{kJitErrorLogBufferSizeBytes} == int{CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES});
static_assert(kCaptureStatusNone == CU_STREAM_CAPTURE_STATUS_NONE);
static_assert(kCaptureModeRelaxed == CU_STREAM_CAPTURE_MODE_RELAXED);
static_assert(int{kClusterDimension} == int{CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION});
static_assert(int{kProgrammaticStreamSerialization} == int{CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION});

static_assert(sizeof(LaunchAttribute) == sizeof(CUlaunchAttribute) && alignof(CUlaunchAttribute) <= 8);
static_assert(offsetof(LaunchAttribute, value) == offsetof(CUlaunchAttribute, value));
static_assert(sizeof(LaunchConfig) == sizeof(CUlaunchConfig));
static_assert(offsetof(LaunchConfig, shared_bytes) == offsetof(CUlaunchConfig, sharedMemBytes));
static_assert(offsetof(LaunchConfig, stream) == offsetof(CUlaunchConfig, hStream));
static_assert(offsetof(LaunchConfig, attributes) == offsetof(CUlaunchConfig, attrs));
static_assert(offsetof(LaunchConfig, attribute_count) == offsetof(CUlaunchConfig, numAttrs));
// The header of 12.x aligns it to 64 bytes, that of 13.0 to 128; what cuTensorMapEncodeTiled asks for is 64 in both.
static_assert(sizeof(TensorMap) == sizeof(CUtensorMap) && alignof(TensorMap) == 64 && alignof(CUtensorMap) % 64 == 0);
static_assert(sizeof(Device) == sizeof(CUdevice) && sizeof(Result) == sizeof(CUresult));
static_assert(sizeof(int) == sizeof(CUtensorMapDataType) && sizeof(int) == sizeof(CUjit_option));

// The sizes of the parameters, in order: what the calling convention sees.
template <class Return, class... Parameters>
constexpr std::array<std::size_t, sizeof...(Parameters)> sizes(Return (*)(Parameters...)) {
  return {sizeof(Parameters)...};  // NOLINT(bugprone-sizeof-expression): of pointers, indeed
}

TEST(CudaHeader, EveryFunctionTakesWhatTheHeaderSays) {
#define QUERN_COMPARE(need, member, symbol, parameters) \
  EXPECT_EQ(sizes(decltype(Api::member)()), sizes(static_cast<decltype(&::symbol)>(nullptr))) << #symbol;
  QUERN_CUDA_SYMBOLS(QUERN_COMPARE)
#undef QUERN_COMPARE
}

#ifdef QUERN_CUDA_STUB
TEST(CudaHeader, EverySymbolIsExported) {
  void* stub = dlopen(QUERN_CUDA_STUB, RTLD_LAZY | RTLD_LOCAL);
  ASSERT_NE(stub, nullptr) << dlerror();
#define QUERN_LOOK(need, member, symbol, parameters) EXPECT_NE(dlsym(stub, #symbol), nullptr) << #symbol;
  QUERN_CUDA_SYMBOLS(QUERN_LOOK)
#undef QUERN_LOOK
}
#endif

}  // namespace
}  // namespace quern::jit::cuda
