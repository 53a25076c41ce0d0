// What we call of libamdhip64, declared by ourselves from its documented interface (ROCm 5 to 7).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "jit/target.h"

namespace quern::jit::hip {

using Result = int;  // hipError_t
using Module = struct HipModuleTag*;
using Function = struct HipFunctionTag*;
using Event = struct HipEventTag*;
using DevicePointer = void*;
using Stream = void*;

// hipError_t
inline constexpr Result kSuccess = 0, kNoDevice = 100, kInvalidHandle = 400, kNotFound = 500, kNotSupported = 801;

// hipDeviceAttribute_t. Its values have been kept since ROCm 5.0; those from 10000 on are AMD's own.
enum Attribute : int {
  kL2CacheSize = 19,
  kMultiprocessorCount = 63,
  kMaxRegistersPerMultiprocessor = 72,
  kMaxSharedMemoryPerBlock = 74,
  kWarpSize = 87,
  kMaxSharedMemoryPerMultiprocessor = 10002
};

// hipFunction_attribute
enum FunctionAttribute : int { kMaxThreadsPerBlock = 0, kSharedSizeBytes = 1, kLocalSizeBytes = 3, kNumRegs = 4 };

// hipStreamCaptureStatus, hipStreamCaptureMode
inline constexpr int kCaptureStatusNone = 0, kCaptureModeRelaxed = 2;

// X(need, member, symbol, parameters); `need` is `required` or `optional`. All return Result.
#define QUERN_HIP_SYMBOLS(X)                                                                                       \
  X(required, init, hipInit, (unsigned flags))                                                                     \
  X(required, runtime_version, hipRuntimeGetVersion, (int* version))                                               \
  X(required, device_count, hipGetDeviceCount, (int* count))                                                       \
  X(required, get_device, hipGetDevice, (int* device))                                                             \
  X(required, set_device, hipSetDevice, (int device))                                                              \
  X(required, device_name, hipDeviceGetName, (char* name, int size, int device))                                   \
  X(required, device_memory, hipDeviceTotalMem, (std::size_t* bytes, int device))                                  \
  X(required, device_attribute, hipDeviceGetAttribute, (int* value, int attribute, int device))                    \
  X(optional, properties_r0600, hipGetDevicePropertiesR0600, (void* properties, int device))                       \
  X(optional, properties, hipGetDeviceProperties, (void* properties, int device))                                  \
  X(required, module_load, hipModuleLoadData, (Module * module, const void* image))                                \
  X(required, module_unload, hipModuleUnload, (Module module))                                                     \
  X(required, module_function, hipModuleGetFunction, (Function * function, Module module, const char* name))       \
  X(required, function_attribute, hipFuncGetAttribute, (int* value, int attribute, Function function))             \
  X(required, launch_kernel, hipModuleLaunchKernel,                                                                \
    (Function function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,     \
     unsigned block_z, unsigned shared_bytes, Stream stream, void* const* parameters, void** extra))               \
  X(required, stream_is_capturing, hipStreamIsCapturing, (Stream stream, int* status))                             \
  X(optional, stream_device, hipStreamGetDevice, (Stream stream, int* device))                                     \
  X(required, memory_allocate, hipMalloc, (DevicePointer * pointer, std::size_t bytes))                            \
  X(required, memory_free, hipFree, (DevicePointer pointer))                                                       \
  X(required, copy_in, hipMemcpyHtoDAsync, (DevicePointer to, const void* from, std::size_t bytes, Stream stream)) \
  X(optional, copy_out, hipMemcpyDtoHAsync, (void* to, DevicePointer from, std::size_t bytes, Stream stream))      \
  X(optional, host_allocate, hipHostMalloc, (void** pointer, std::size_t bytes, unsigned flags))                   \
  X(optional, host_free, hipHostFree, (void* pointer))                                                             \
  X(required, stream_create, hipStreamCreateWithFlags, (Stream * stream, unsigned flags))                          \
  X(required, stream_destroy, hipStreamDestroy, (Stream stream))                                                   \
  X(required, stream_synchronize, hipStreamSynchronize, (Stream stream))                                           \
  X(required, event_create, hipEventCreateWithFlags, (Event * event, unsigned flags))                              \
  X(required, event_destroy, hipEventDestroy, (Event event))                                                       \
  X(required, event_record, hipEventRecord, (Event event, Stream stream))                                          \
  X(required, event_synchronize, hipEventSynchronize, (Event event))                                               \
  X(required, event_elapsed, hipEventElapsedTime, (float* milliseconds, Event from, Event to))                     \
  X(optional, exchange_capture_mode, hipThreadExchangeStreamCaptureMode, (int* mode))

// What the calls for measuring take.
struct BenchTypes {
  using DevicePointer = hip::DevicePointer;
  using Stream = hip::Stream;
  using Event = hip::Event;
};

struct Api {
// NOLINTNEXTLINE(bugprone-macro-parentheses): a declaration, no expression
#define QUERN_HIP_MEMBER(need, member, symbol, parameters) Result(*member) parameters = nullptr;
  QUERN_HIP_SYMBOLS(QUERN_HIP_MEMBER)
#undef QUERN_HIP_MEMBER
  // The only ones that return text.
  const char* (*error_name)(Result code) = nullptr;
  const char* (*error_string)(Result code) = nullptr;

  std::string path;  // where libamdhip64 was found
  int version = 0;   // 50221153 for 5.2.21153
  int devices = 0;

  // "hipErrorNoDevice (100): no ROCm-capable device is detected"
  std::string text(Result code) const;
};

// Finds libamdhip64, binds it and initialises it. Throws Error(QUERN_NOT_FOUND): no library (says what was tried), one
// that is too old (names what it lacks), or one that finds no device (with its code).
Api open_api(const std::vector<std::string>& search_dirs);

// The target named in what hipGetDeviceProperties filled in ("gfx90a:sramecc+:xnack-"); Target() when there is none.
// Where the name stands differs between releases, so it is looked for: text between zero bytes that names a gfx target.
Target find_target(std::string_view properties);

}  // namespace quern::jit::hip
