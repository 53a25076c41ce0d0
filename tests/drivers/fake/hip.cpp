// A libamdhip64 without a GPU: it answers as told and remembers what it was asked. Defines just what jit/hip_api.h
// declares.
// SPDX-License-Identifier: Apache-2.0
#include "tests/drivers/fake/hip.h"

#include <cstdio>
#include <cstring>

using namespace quern::jit::hip;

namespace {
fake::State state;
thread_local int current = 0;
thread_local int capture_mode = 0;
}  // namespace

extern "C" {

fake::State* fake_hip_state() { return &state; }

const char* hipGetErrorName(Result code) { return code == kNoDevice ? "hipErrorNoDevice" : "hipErrorOther"; }
const char* hipGetErrorString(Result) { return "as told by a test"; }
Result hipInit(unsigned) { return state.init; }
Result hipRuntimeGetVersion(int* version) {
  *version = 60342134;
  return kSuccess;
}
Result hipGetDeviceCount(int* count) {
  *count = state.devices;
  return state.devices > 0 ? kSuccess : kNoDevice;
}
Result hipGetDevice(int* device) {
  *device = current;
  return kSuccess;
}
Result hipSetDevice(int device) {
  state.set_device++;
  current = device;
  return kSuccess;
}
Result hipDeviceGetName(char* name, int size, int device) {
  std::snprintf(name, static_cast<std::size_t>(size), "Fake Instinct %d", device);
  return kSuccess;
}
Result hipDeviceTotalMem(std::size_t* bytes, int) {
  *bytes = std::size_t{64} << 30;
  return kSuccess;
}
Result hipDeviceGetAttribute(int* value, int attribute, int) {
  switch (attribute) {
    case kL2CacheSize:
      *value = 8 << 20;
      return kSuccess;
    case kMultiprocessorCount:
      *value = 104;
      return kSuccess;
    case kMaxSharedMemoryPerBlock:
      *value = 65536;
      return kSuccess;
    case kWarpSize:
      *value = 64;
      return kSuccess;
    default:
      return 1;  // an older release, which does not know the others
  }
}
Result hipGetDevicePropertiesR0600(void* properties, int) {
  auto* bytes = static_cast<char*>(properties);
  std::memset(bytes, 0, 1472);
  std::snprintf(bytes, 256, "gfx is not an architecture");
  std::snprintf(bytes + 1160, 256, "%s", state.arch);
  return kSuccess;
}
Result hipModuleLoadData(Module* module, const void*) {
  state.mode_at_load = capture_mode;
  *module = reinterpret_cast<Module>(0x20);
  return state.module_load;
}
Result hipModuleUnload(Module) {
  state.unloaded++;
  return kSuccess;
}
Result hipModuleGetFunction(Function* function, Module, const char*) {
  *function = reinterpret_cast<Function>(0x30);
  return state.module_function;
}
Result hipFuncGetAttribute(int* value, int attribute, Function) {
  *value = attribute == kNumRegs ? 96 : 1024;
  return kSuccess;
}
Result hipModuleLaunchKernel(Function, unsigned grid_x, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                             Stream, void* const*, void**) {
  state.launched++;
  state.grid_x = grid_x;
  state.device_at_launch = current;
  return state.launch;
}
Result hipStreamIsCapturing(Stream stream, int* status) {
  *status = stream != nullptr && stream == state.captured ? 1 : kCaptureStatusNone;
  return kSuccess;
}
Result hipStreamGetDevice(Stream stream, int* device) {
  *device = stream == fake::stream_of(1) ? 1 : 0;
  return kSuccess;
}
Result hipThreadExchangeStreamCaptureMode(int* mode) {
  const int before = capture_mode;
  capture_mode = *mode;
  *mode = before;
  return kSuccess;
}
Result hipMalloc(DevicePointer* pointer, std::size_t) {
  if (state.memory_allocate != kSuccess) return state.memory_allocate;
  *pointer = reinterpret_cast<DevicePointer>(0x10000 * static_cast<std::intptr_t>(++state.blocks));
  return kSuccess;
}
Result hipFree(DevicePointer) {
  state.blocks--;
  return kSuccess;
}
Result hipMemcpyHtoDAsync(DevicePointer, const void*, std::size_t, Stream) {
  state.copied++;
  return kSuccess;
}
Result hipStreamCreateWithFlags(Stream* stream, unsigned) {
  state.streams++;
  *stream = fake::stream_of(2);
  return kSuccess;
}
Result hipStreamDestroy(Stream) {
  state.streams--;
  return kSuccess;
}
Result hipStreamSynchronize(Stream) {
  state.synchronized++;
  return kSuccess;
}
Result hipEventCreateWithFlags(Event* event, unsigned) {
  *event = reinterpret_cast<Event>(0x60 + 8 * state.events++);
  return kSuccess;
}
Result hipEventDestroy(Event) {
  state.events--;
  return kSuccess;
}
Result hipEventRecord(Event, Stream) { return kSuccess; }
Result hipEventSynchronize(Event) { return kSuccess; }
Result hipEventElapsedTime(float* milliseconds, Event, Event) {
  *milliseconds = state.elapsed;
  return kSuccess;
}

}  // extern "C"
