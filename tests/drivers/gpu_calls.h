// The few further calls of libcuda that a test on a GPU needs: memory, streams, graphs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "jit/cuda_api.h"
#include "jit/symbols.h"

namespace quern::jit::test {

using DevicePointer = unsigned long long;

#define QUERN_GPU_CALLS(X)                                                                                      \
  X(memory_allocate, cuMemAlloc_v2, (DevicePointer * pointer, std::size_t bytes))                               \
  X(memory_free, cuMemFree_v2, (DevicePointer pointer))                                                         \
  X(copy_in, cuMemcpyHtoD_v2, (DevicePointer to, const void* from, std::size_t bytes))                          \
  X(copy_out, cuMemcpyDtoH_v2, (void* to, DevicePointer from, std::size_t bytes))                               \
  X(stream_create, cuStreamCreate, (cuda::Stream * stream, unsigned flags))                                     \
  X(stream_destroy, cuStreamDestroy_v2, (cuda::Stream stream))                                                  \
  X(stream_synchronize, cuStreamSynchronize, (cuda::Stream stream))                                             \
  X(begin_capture, cuStreamBeginCapture_v2, (cuda::Stream stream, int mode))                                    \
  X(end_capture, cuStreamEndCapture, (cuda::Stream stream, void** graph))                                       \
  X(graph_instantiate, cuGraphInstantiateWithFlags, (void** executable, void* graph, unsigned long long flags)) \
  X(graph_launch, cuGraphLaunch, (void* executable, cuda::Stream stream))                                       \
  X(graph_destroy, cuGraphDestroy, (void* graph))                                                               \
  X(executable_destroy, cuGraphExecDestroy, (void* executable))

struct GpuCalls {
// NOLINTNEXTLINE(bugprone-macro-parentheses): a declaration, no expression
#define QUERN_GPU_MEMBER(member, symbol, parameters) cuda::Result(*member) parameters = nullptr;
  QUERN_GPU_CALLS(QUERN_GPU_MEMBER)
#undef QUERN_GPU_MEMBER

  explicit GpuCalls(const std::string& library) {
    Binder binder(dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL));
#define QUERN_GPU_BIND(member, symbol, parameters) binder.required(member, #symbol);
    QUERN_GPU_CALLS(QUERN_GPU_BIND)
#undef QUERN_GPU_BIND
    if (!binder.missing().empty()) throw std::runtime_error(library + " lacks " + binder.missing());
  }
};

// Floats on the device.
class DeviceFloats {
 public:
  DeviceFloats(const GpuCalls& calls, const std::vector<float>& values) : calls_(calls), count_(values.size()) {
    EXPECT_EQ(calls_.memory_allocate(&pointer_, count_ * sizeof(float)), 0);
    EXPECT_EQ(calls_.copy_in(pointer_, values.data(), count_ * sizeof(float)), 0);
  }
  ~DeviceFloats() { calls_.memory_free(pointer_); }
  DeviceFloats(const DeviceFloats&) = delete;
  DeviceFloats& operator=(const DeviceFloats&) = delete;
  std::vector<float> read() const {
    std::vector<float> values(count_);
    EXPECT_EQ(calls_.copy_out(values.data(), pointer_, count_ * sizeof(float)), 0);
    return values;
  }
  DevicePointer* pointer() { return &pointer_; }

 private:
  const GpuCalls& calls_;
  std::size_t count_;
  DevicePointer pointer_ = 0;
};

}  // namespace quern::jit::test
