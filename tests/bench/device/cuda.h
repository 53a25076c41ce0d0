// The calls of libcuda that measuring needs: events, streams, graphs and bare launches.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>

#include "bindings/demo/cuda_library.h"

namespace quern::bench {

using demo::CudaPointer;
using demo::CudaResult;
using demo::CudaStream;

struct KernelNode {  // CUDA_KERNEL_NODE_PARAMS_v2
  void* function;
  unsigned grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes;
  void** parameters;
  void** extra;
  void* kernel;  // where `function` is null
  void* context;
};

inline constexpr int kCaptureThreadLocal = 1;  // CU_STREAM_CAPTURE_MODE_THREAD_LOCAL

// X(member, symbol, parameters). Each returns a CUresult.
#define QUERN_BENCH_CUDA(X)                                                                                     \
  X(event_create, cuEventCreate, (void** event, unsigned flags))                                                \
  X(event_record, cuEventRecord, (void* event, CudaStream stream))                                              \
  X(event_synchronise, cuEventSynchronize, (void* event))                                                       \
  X(event_elapsed, cuEventElapsedTime, (float* milliseconds, void* from, void* to))                             \
  X(event_destroy, cuEventDestroy_v2, (void* event))                                                            \
  X(stream_create, cuStreamCreate, (CudaStream * stream, unsigned flags))                                       \
  X(stream_synchronise, cuStreamSynchronize, (CudaStream stream))                                               \
  X(set_async, cuMemsetD8Async, (CudaPointer to, unsigned char value, std::size_t bytes, CudaStream stream))    \
  X(begin_capture, cuStreamBeginCapture_v2, (CudaStream stream, int mode))                                      \
  X(end_capture, cuStreamEndCapture, (CudaStream stream, void** graph))                                         \
  X(graph_instantiate, cuGraphInstantiateWithFlags, (void** executable, void* graph, unsigned long long flags)) \
  X(graph_launch, cuGraphLaunch, (void* executable, CudaStream stream))                                         \
  X(graph_nodes, cuGraphGetNodes, (void* graph, void** nodes, std::size_t* count))                              \
  X(graph_destroy, cuGraphDestroy, (void* graph))                                                               \
  X(executable_destroy, cuGraphExecDestroy, (void* executable))                                                 \
  X(kernel_node, cuGraphKernelNodeGetParams_v2, (void* node, KernelNode* parameters))                           \
  X(kernel_function, cuKernelGetFunction, (void** function, void* kernel))                                      \
  X(launch_kernel, cuLaunchKernel,                                                                              \
    (void* function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,     \
     unsigned block_z, unsigned shared_bytes, CudaStream stream, void** parameters, void** extra))

struct Cuda {
// NOLINTNEXTLINE(bugprone-macro-parentheses): a declarator and a parameter list
#define QUERN_BENCH_MEMBER(member, symbol, parameters) CudaResult(*member) parameters = nullptr;
  QUERN_BENCH_CUDA(QUERN_BENCH_MEMBER)
#undef QUERN_BENCH_MEMBER

  Cuda() {
#define QUERN_BENCH_BIND(member, symbol, parameters) demo::bind_cuda(member, #symbol);
    QUERN_BENCH_CUDA(QUERN_BENCH_BIND)
#undef QUERN_BENCH_BIND
  }
};

// A captured graph. Throws std::runtime_error.
class Graph {
 public:
  // Captures what `enqueue` puts into the stream.
  template <class Enqueue>
  Graph(const Cuda& cuda, CudaStream stream, Enqueue&& enqueue) : cuda_(cuda), stream_(stream) {
    demo::check_cuda(cuda_.begin_capture(stream, kCaptureThreadLocal), "beginning a capture");
    enqueue();
    demo::check_cuda(cuda_.end_capture(stream, &graph_), "ending a capture");
    demo::check_cuda(cuda_.graph_instantiate(&executable_, graph_, 0), "instantiating a graph");
  }
  ~Graph() {
    if (executable_ != nullptr) cuda_.executable_destroy(executable_);
    if (graph_ != nullptr) cuda_.graph_destroy(graph_);
  }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  void launch() const { demo::check_cuda(cuda_.graph_launch(executable_, stream_), "launching a graph"); }
  // The launch of the only node. Its parameters live as long as this object.
  KernelNode only_kernel() const;

 private:
  const Cuda& cuda_;
  CudaStream stream_;
  void* graph_ = nullptr;
  void* executable_ = nullptr;
};

}  // namespace quern::bench
