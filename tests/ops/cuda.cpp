// SPDX-License-Identifier: Apache-2.0
#include "tests/ops/cuda.h"

#include <dlfcn.h>

#include <stdexcept>
#include <string>

namespace quern::test {
namespace {

constexpr unsigned kNonBlocking = 1;
constexpr int kThreadLocal = 1;  // capture mode

Cuda open_cuda() {
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw std::runtime_error(std::string("QUERN_TEST_DEVICE=cuda: ") + dlerror());
  Cuda calls;
#define QUERN_TEST_BIND(name, parameters)                                     \
  calls.name = reinterpret_cast<decltype(calls.name)>(dlsym(library, #name)); \
  if (calls.name == nullptr) throw std::runtime_error("libcuda.so.1 lacks " #name);
  QUERN_TEST_CUDA_CALLS(QUERN_TEST_BIND)
#undef QUERN_TEST_BIND
  int device = 0;
  check_cuda(calls.cuInit(0), "cuInit");
  check_cuda(calls.cuDeviceGet(&device, 0), "cuDeviceGet");
  check_cuda(calls.cuDevicePrimaryCtxRetain(&calls.context, device), "cuDevicePrimaryCtxRetain");
  check_cuda(calls.cuCtxSetCurrent(calls.context), "cuCtxSetCurrent");
  return calls;
}

}  // namespace

void check_cuda(int result, const char* call) {
  if (result != 0) throw std::runtime_error(std::string(call) + " returned " + std::to_string(result));
}

const Cuda& cuda() {
  static const Cuda calls = open_cuda();
  return calls;
}

Stream::Stream() { QUERN_TEST_CUDA(cuStreamCreate(&stream_, kNonBlocking)); }
Stream::~Stream() { cuda().cuStreamDestroy_v2(stream_); }
void Stream::synchronize() const { QUERN_TEST_CUDA(cuStreamSynchronize(stream_)); }

Graph::Graph(const Stream& stream, const std::function<void()>& work) {
  QUERN_TEST_CUDA(cuStreamBeginCapture_v2(stream.get(), kThreadLocal));
  work();
  QUERN_TEST_CUDA(cuStreamEndCapture(stream.get(), &graph_));
  QUERN_TEST_CUDA(cuGraphInstantiateWithFlags(&executable_, graph_, 0));
}
Graph::~Graph() {
  if (executable_ != nullptr) cuda().cuGraphExecDestroy(executable_);
  if (graph_ != nullptr) cuda().cuGraphDestroy(graph_);
}
void Graph::launch(const Stream& stream) const { QUERN_TEST_CUDA(cuGraphLaunch(executable_, stream.get())); }

}  // namespace quern::test
