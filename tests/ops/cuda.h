// The calls of libcuda that the tests make, found at run time; their declarations are our own.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

namespace quern::test {

using DevicePointer = unsigned long long;

#define QUERN_TEST_CUDA_CALLS(X)                                                             \
  X(cuInit, (unsigned flags))                                                                \
  X(cuDeviceGet, (int* device, int ordinal))                                                 \
  X(cuDeviceGetCount, (int* count))                                                          \
  X(cuDevicePrimaryCtxRetain, (void** context, int device))                                  \
  X(cuCtxSetCurrent, (void* context))                                                        \
  X(cuCtxSynchronize, ())                                                                    \
  X(cuMemAlloc_v2, (DevicePointer * pointer, std::size_t bytes))                             \
  X(cuMemFree_v2, (DevicePointer pointer))                                                   \
  X(cuMemcpyHtoD_v2, (DevicePointer to, const void* from, std::size_t bytes))                \
  X(cuMemcpyDtoH_v2, (void* to, DevicePointer from, std::size_t bytes))                      \
  X(cuMemsetD8_v2, (DevicePointer to, unsigned char value, std::size_t bytes))               \
  X(cuStreamCreate, (void** stream, unsigned flags))                                         \
  X(cuStreamDestroy_v2, (void* stream))                                                      \
  X(cuStreamSynchronize, (void* stream))                                                     \
  X(cuStreamBeginCapture_v2, (void* stream, int mode))                                       \
  X(cuStreamEndCapture, (void* stream, void** graph))                                        \
  X(cuGraphInstantiateWithFlags, (void** executable, void* graph, unsigned long long flags)) \
  X(cuGraphLaunch, (void* executable, void* stream))                                         \
  X(cuGraphDestroy, (void* graph))                                                           \
  X(cuGraphExecDestroy, (void* executable))

// Throws std::runtime_error naming the call when one does not return 0.
void check_cuda(int result, const char* call);
#define QUERN_TEST_CUDA(call) ::quern::test::check_cuda(::quern::test::cuda().call, #call)

struct Cuda {
#define QUERN_TEST_MEMBER(name, parameters) int(*name) parameters = nullptr;
  QUERN_TEST_CUDA_CALLS(QUERN_TEST_MEMBER)
#undef QUERN_TEST_MEMBER
  void* context = nullptr;  // the device's primary one, current in the thread that asked first
};
// Opens the library on first use; throws std::runtime_error where there is none.
const Cuda& cuda();

class Stream {
 public:
  Stream();
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  void* get() const { return stream_; }
  void synchronize() const;

 private:
  void* stream_ = nullptr;
};

// What `work` puts into the stream, to be launched again and again.
class Graph {
 public:
  Graph(const Stream& stream, const std::function<void()>& work);
  ~Graph();
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  void launch(const Stream& stream) const;

 private:
  void* graph_ = nullptr;
  void* executable_ = nullptr;
};

}  // namespace quern::test
