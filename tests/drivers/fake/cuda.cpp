// A libcuda without a GPU: it answers as told and remembers what it was asked. Defines just what jit/cuda_api.h
// declares.
// SPDX-License-Identifier: Apache-2.0
#include "tests/drivers/fake/cuda.h"

#include <cstdio>
#include <cstring>

using namespace quern::jit::cuda;
using quern::jit::cuda::fake::context_of;

namespace {
fake::State state;
thread_local Context stack[16];
thread_local int depth = 0;
thread_local int capture_mode = 0;
}  // namespace

extern "C" {

fake::State* fake_cuda_state() { return &state; }
// What a host that uses CUDA itself has current.
void fake_cuda_set_current(Context context) {
  depth = 1;
  stack[0] = context;
}
Context fake_cuda_current() { return depth > 0 ? stack[depth - 1] : nullptr; }
int fake_cuda_capture_mode() { return capture_mode; }

Result cuInit(unsigned) { return state.init; }
Result cuDriverGetVersion(int* version) {
  *version = state.version;
  return kSuccess;
}
Result cuGetErrorName(Result code, const char** text) {
  *text = code == 700 ? "CUDA_ERROR_ILLEGAL_ADDRESS" : code == kNoDevice ? "CUDA_ERROR_NO_DEVICE" : "CUDA_ERROR_OTHER";
  return kSuccess;
}
Result cuGetErrorString(Result, const char** text) {
  *text = "as told by a test";
  return kSuccess;
}
Result cuDeviceGetCount(int* count) {
  *count = state.devices;
  return kSuccess;
}
Result cuDeviceGet(Device* device, int ordinal) {
  *device = ordinal;
  return kSuccess;
}
Result cuDeviceGetName(char* name, int size, Device device) {
  std::snprintf(name, static_cast<std::size_t>(size), "Fake GPU %d", device);
  return kSuccess;
}
Result cuDeviceGetAttribute(int* value, int attribute, Device) {
  switch (attribute) {
    case kWarpSize:
      *value = 32;
      return kSuccess;
    case kMultiprocessorCount:
      *value = 78;
      return kSuccess;
    case kL2CacheSize:
      *value = 50 << 20;
      return kSuccess;
    case kComputeCapabilityMajor:
      *value = state.major;
      return kSuccess;
    case kComputeCapabilityMinor:
      *value = state.minor;
      return kSuccess;
    case kSharedPerMultiprocessor:
      *value = 233472;
      return kSuccess;
    case kRegistersPerMultiprocessor:
      *value = 65536;
      return kSuccess;
    case kSharedPerBlockOptin:
      *value = 232448;
      return kSuccess;
    default:
      return kInvalidValue;
  }
}
Result cuDeviceTotalMem_v2(std::size_t* bytes, Device) {
  *bytes = std::size_t{80} << 30;
  return kSuccess;
}
Result cuDevicePrimaryCtxRetain(Context* context, Device device) {
  state.retained++;
  *context = context_of(device);
  return kSuccess;
}
Result cuDevicePrimaryCtxRelease_v2(Device) {
  state.released++;
  return kSuccess;
}
Result cuCtxGetCurrent(Context* context) {
  *context = fake_cuda_current();
  return kSuccess;
}
Result cuCtxPushCurrent_v2(Context context) {
  state.pushed++;
  stack[depth++] = context;
  return kSuccess;
}
Result cuCtxPopCurrent_v2(Context* context) {
  state.popped++;
  *context = stack[--depth];
  return kSuccess;
}
Result cuCtxGetDevice(Device* device) {
  *device = fake_cuda_current() == context_of(1) ? 1 : 0;
  return kSuccess;
}
#ifndef QUERN_FAKE_CUDA_11
Result cuLibraryLoadData(Library* library, const void*, int* options, void** values, unsigned count, int*, void**,
                         unsigned) {
  state.mode_at_load = capture_mode;
  if (state.library_load != kSuccess) {
    if (count == 2 && options[0] == kJitErrorLogBuffer)
      std::snprintf(static_cast<char*>(values[0]), 2047, "%s", state.jit_log);
    return state.library_load;
  }
  *library = reinterpret_cast<Library>(0x20);
  return kSuccess;
}
#endif
Result cuLibraryUnload(Library) {
  state.unloaded++;
  return kSuccess;
}
Result cuLibraryGetKernel(Kernel* kernel, Library, const char*) {
  *kernel = reinterpret_cast<Kernel>(0x30);
  return state.library_kernel;
}
Result cuKernelGetFunction(Function* function, Kernel) {
  *function = reinterpret_cast<Function>(0x40);
  return state.kernel_function;
}
Result cuFuncGetAttribute(int* value, int attribute, Function) {
  *value = attribute == kNumRegs ? 64 : attribute == kMaxThreadsPerBlock ? 1024 : 16 * attribute;
  return kSuccess;
}
Result cuFuncSetAttribute(Function, int attribute, int value) {
  if (attribute == kMaxDynamicSharedSizeBytes) state.dynamic_shared = value;
  return state.set_function_attribute;
}
// As the driver does: no kernel of a context runs in another device's stream.
Result launched_in(Stream stream) {
  return stream == fake::stream_of(1) && fake_cuda_current() != context_of(1) ? fake::kInvalidHandle : state.launch;
}
Result cuLaunchKernel(Function, unsigned grid_x, unsigned, unsigned, unsigned, unsigned, unsigned,
                      unsigned shared_bytes, Stream stream, void* const* parameters, void**) {
  state.launched++;
  state.grid_x = grid_x;
  state.shared_bytes = shared_bytes;
  state.parameters = parameters;
  return launched_in(stream);
}
Result cuLaunchKernelEx(const LaunchConfig* config, Function, void* const* parameters, void**) {
  state.launched_ex++;
  state.grid_x = config->grid_x;
  state.shared_bytes = config->shared_bytes;
  state.attribute_count = config->attribute_count;
  std::memcpy(state.attributes, config->attributes, config->attribute_count * sizeof(LaunchAttribute));
  state.parameters = parameters;
  return launched_in(static_cast<Stream>(config->stream));
}
Result cuStreamIsCapturing(Stream stream, int* status) {
  *status = stream != nullptr && stream == state.captured ? 1 : kCaptureStatusNone;
  return state.stream_is_capturing;
}
// What asks about a stream that is being captured ends its capture.
Result asked_about(Stream stream) {
  if (stream == nullptr || stream != state.captured) return kSuccess;
  state.captures_ended++;
  return 900;  // CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED
}
Result cuStreamGetCtx(Stream stream, Context* context) {
  if (const Result refused = asked_about(stream)) return refused;
  *context = context_of(stream == fake::stream_of(1) ? 1 : 0);
  return kSuccess;
}
Result cuThreadExchangeStreamCaptureMode(int* mode) {
  const int before = capture_mode;
  capture_mode = *mode;
  *mode = before;
  return kSuccess;
}
Result cuMemAlloc_v2(DevicePointer* pointer, std::size_t) {
  if (state.memory_allocate != kSuccess) return state.memory_allocate;
  *pointer = 0x10000u * static_cast<unsigned>(++state.blocks);
  return kSuccess;
}
Result cuMemFree_v2(DevicePointer) {
  state.blocks--;
  return kSuccess;
}
Result cuMemcpyHtoDAsync_v2(DevicePointer, const void*, std::size_t, Stream) {
  state.copied++;
  return kSuccess;
}
Result cuStreamCreate(Stream* stream, unsigned) {
  state.streams++;
  *stream = fake::stream_of(2);
  return kSuccess;
}
Result cuStreamDestroy_v2(Stream) {
  state.streams--;
  return kSuccess;
}
Result cuStreamSynchronize(Stream) {
  state.synchronized++;
  return kSuccess;
}
Result cuEventCreate(Event* event, unsigned) {
  *event = reinterpret_cast<Event>(0x60 + 8 * state.events++);
  return kSuccess;
}
Result cuEventDestroy_v2(Event) {
  state.events--;
  return kSuccess;
}
Result cuEventRecord(Event, Stream) { return kSuccess; }
Result cuEventSynchronize(Event) { return kSuccess; }
Result cuEventElapsedTime(float* milliseconds, Event, Event) {
  *milliseconds = state.elapsed;
  return kSuccess;
}
#ifndef QUERN_FAKE_CUDA_12_0
Result cuFuncLoad(Function) { return state.function_load; }
Result cuFuncGetParamInfo(Function, std::size_t index, std::size_t* offset, std::size_t* size) {
  state.parameters_asked++;
  if (index >= 3) return kInvalidValue;
  *offset = 8 * index, *size = 8;
  return kSuccess;
}
Result cuStreamGetDevice(Stream stream, Device* device) {
  if (const Result refused = asked_about(stream)) return refused;
  *device = stream == fake::stream_of(1) ? 1 : 0;
  return kSuccess;
}
Result cuTensorMapEncodeTiled(void* map, int, std::uint32_t rank, void*, const std::uint64_t*, const std::uint64_t*,
                              const std::uint32_t*, const std::uint32_t*, int, int, int, int) {
  state.map_rank = rank;
  if (fake_cuda_current() == nullptr) return 201;  // CUDA_ERROR_INVALID_CONTEXT
  if (state.encode == kSuccess) std::memset(map, 0xab, 128);
  return state.encode;
}
#endif

}  // extern "C"
