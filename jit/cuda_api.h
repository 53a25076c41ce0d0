// What we call of libcuda, declared by ourselves, so that building needs no CUDA header. A test holds it against
// cuda.h.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "jit/target.h"

namespace quern::jit::cuda {

using Result = int;  // CUresult
using Device = int;
using Context = struct CudaContextTag*;
using Stream = void*;
using Library = struct CudaLibraryTag*;
using Kernel = struct CudaKernelTag*;
using Function = struct CudaFunctionTag*;
using Event = struct CudaEventTag*;
using DevicePointer = unsigned long long;

// CUresult
inline constexpr Result kSuccess = 0, kInvalidValue = 1, kNotInitialized = 3, kStubLibrary = 34, kNoDevice = 100,
                        kNotFound = 500, kNotSupported = 801, kCaptureImplicit = 906;

// CUdevice_attribute
enum Attribute : int {
  kWarpSize = 10,
  kMultiprocessorCount = 16,
  kL2CacheSize = 38,
  kComputeCapabilityMajor = 75,
  kComputeCapabilityMinor = 76,
  kSharedPerMultiprocessor = 81,
  kRegistersPerMultiprocessor = 82,
  kSharedPerBlockOptin = 97
};

// CUfunction_attribute
enum FunctionAttribute : int {
  kMaxThreadsPerBlock = 0,
  kSharedSizeBytes = 1,
  kLocalSizeBytes = 3,
  kNumRegs = 4,
  kMaxDynamicSharedSizeBytes = 8
};

// CUjit_option
enum JitOption : int { kJitErrorLogBuffer = 5, kJitErrorLogBufferSizeBytes = 6 };

// CUstreamCaptureStatus, CUstreamCaptureMode
inline constexpr int kCaptureStatusNone = 0, kCaptureModeRelaxed = 2;

// CU_STREAM_LEGACY, CU_STREAM_PER_THREAD: like NULL, they mean a stream of whatever context is current.
inline constexpr std::uintptr_t kStreamLegacy = 1, kStreamPerThread = 2;

// CUlaunchAttributeID
enum LaunchAttributeId : int { kClusterDimension = 4, kProgrammaticStreamSerialization = 6 };

struct LaunchAttribute {  // CUlaunchAttribute
  LaunchAttributeId id;
  char pad[4];
  union Value {
    char pad[64];
    struct {
      unsigned x, y, z;
    } cluster;
    int programmatic;
  } value;
};

struct LaunchConfig {  // CUlaunchConfig
  unsigned grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes;
  Stream stream;
  LaunchAttribute* attributes;
  unsigned attribute_count;
};

// X(need, member, symbol, parameters); `need` is `required` or `optional`. All return Result.
#define QUERN_CUDA_SYMBOLS(X)                                                                                        \
  X(required, init, cuInit, (unsigned flags))                                                                        \
  X(required, driver_version, cuDriverGetVersion, (int* version))                                                    \
  X(required, error_name, cuGetErrorName, (Result code, const char** text))                                          \
  X(required, error_string, cuGetErrorString, (Result code, const char** text))                                      \
  X(required, device_count, cuDeviceGetCount, (int* count))                                                          \
  X(required, device_get, cuDeviceGet, (Device * device, int ordinal))                                               \
  X(required, device_name, cuDeviceGetName, (char* name, int size, Device device))                                   \
  X(required, device_attribute, cuDeviceGetAttribute, (int* value, int attribute, Device device))                    \
  X(required, device_memory, cuDeviceTotalMem_v2, (std::size_t* bytes, Device device))                               \
  X(required, primary_retain, cuDevicePrimaryCtxRetain, (Context * context, Device device))                          \
  X(required, primary_release, cuDevicePrimaryCtxRelease_v2, (Device device))                                        \
  X(required, context_current, cuCtxGetCurrent, (Context * context))                                                 \
  X(required, context_push, cuCtxPushCurrent_v2, (Context context))                                                  \
  X(required, context_pop, cuCtxPopCurrent_v2, (Context * context))                                                  \
  X(required, context_device, cuCtxGetDevice, (Device * device))                                                     \
  X(required, library_load, cuLibraryLoadData,                                                                       \
    (Library * library, const void* image, int* jit_options, void** jit_values, unsigned jit_count,                  \
     int* library_options, void** library_values, unsigned library_count))                                           \
  X(required, library_unload, cuLibraryUnload, (Library library))                                                    \
  X(required, library_kernel, cuLibraryGetKernel, (Kernel * kernel, Library library, const char* name))              \
  X(required, kernel_function, cuKernelGetFunction, (Function * function, Kernel kernel))                            \
  X(optional, function_load, cuFuncLoad, (Function function))                                                        \
  X(optional, function_parameter, cuFuncGetParamInfo,                                                                \
    (Function function, std::size_t index, std::size_t* offset, std::size_t* size))                                  \
  X(required, function_attribute, cuFuncGetAttribute, (int* value, int attribute, Function function))                \
  X(required, set_function_attribute, cuFuncSetAttribute, (Function function, int attribute, int value))             \
  X(required, launch_kernel, cuLaunchKernel,                                                                         \
    (Function function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,       \
     unsigned block_z, unsigned shared_bytes, Stream stream, void* const* parameters, void** extra))                 \
  X(required, launch_kernel_ex, cuLaunchKernelEx,                                                                    \
    (const LaunchConfig* config, Function function, void* const* parameters, void** extra))                          \
  X(required, stream_is_capturing, cuStreamIsCapturing, (Stream stream, int* status))                                \
  X(optional, stream_device, cuStreamGetDevice, (Stream stream, Device * device))                                    \
  X(required, stream_context, cuStreamGetCtx, (Stream stream, Context * context))                                    \
  X(required, exchange_capture_mode, cuThreadExchangeStreamCaptureMode, (int* mode))                                 \
  X(required, memory_allocate, cuMemAlloc_v2, (DevicePointer * pointer, std::size_t bytes))                          \
  X(required, memory_free, cuMemFree_v2, (DevicePointer pointer))                                                    \
  X(required, copy_in, cuMemcpyHtoDAsync_v2, (DevicePointer to, const void* from, std::size_t bytes, Stream stream)) \
  X(optional, copy_out, cuMemcpyDtoHAsync_v2, (void* to, DevicePointer from, std::size_t bytes, Stream stream))      \
  X(optional, host_allocate, cuMemHostAlloc, (void** pointer, std::size_t bytes, unsigned flags))                    \
  X(optional, host_free, cuMemFreeHost, (void* pointer))                                                             \
  X(required, stream_create, cuStreamCreate, (Stream * stream, unsigned flags))                                      \
  X(required, stream_destroy, cuStreamDestroy_v2, (Stream stream))                                                   \
  X(required, stream_synchronize, cuStreamSynchronize, (Stream stream))                                              \
  X(required, event_create, cuEventCreate, (Event * event, unsigned flags))                                          \
  X(required, event_destroy, cuEventDestroy_v2, (Event event))                                                       \
  X(required, event_record, cuEventRecord, (Event event, Stream stream))                                             \
  X(required, event_synchronize, cuEventSynchronize, (Event event))                                                  \
  X(required, event_elapsed, cuEventElapsedTime, (float* milliseconds, Event from, Event to))                        \
  X(optional, encode_tiled, cuTensorMapEncodeTiled,                                                                  \
    (void* map, int data_type, std::uint32_t rank, void* address, const std::uint64_t* extent,                       \
     const std::uint64_t* stride, const std::uint32_t* box, const std::uint32_t* element_stride, int interleave,     \
     int swizzle, int l2_promotion, int fill))

// What the calls for measuring take.
struct BenchTypes {
  using DevicePointer = cuda::DevicePointer;
  using Stream = cuda::Stream;
  using Event = cuda::Event;
};

struct Api {
// NOLINTNEXTLINE(bugprone-macro-parentheses): a declaration, no expression
#define QUERN_CUDA_MEMBER(need, member, symbol, parameters) Result(*member) parameters = nullptr;
  QUERN_CUDA_SYMBOLS(QUERN_CUDA_MEMBER)
#undef QUERN_CUDA_MEMBER

  std::string path;  // where libcuda was found
  int version = 0;   // 13000 for 13.0
  int devices = 0;

  // "CUDA_ERROR_NO_DEVICE (100): no CUDA-capable device is detected"
  std::string text(Result code) const;
};

// Finds libcuda, binds it and initialises it. Throws Error(QUERN_NOT_FOUND): no library (says what was tried), one that
// is too old (names what it lacks), or one that finds no device (with its code).
Api open_api(const std::vector<std::string>& search_dirs);

// sm_90a for compute capability 9.0: from 9.0 on the suffix is 'a', which unlocks what that generation alone has.
// Throws Error(QUERN_INVALID) for a device older than any target.
Target target_of(int major, int minor);

}  // namespace quern::jit::cuda
