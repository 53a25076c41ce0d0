// SPDX-License-Identifier: Apache-2.0
#include "bindings/engine/graph.h"

#include "bindings/demo/cuda_library.h"

namespace quern::engine {
namespace {

using demo::check_cuda;
using demo::CudaResult;
using demo::CudaStream;

#define QUERN_ENGINE_CUDA(X)                                                                              \
  X(stream_create, cuStreamCreate, (CudaStream * stream, unsigned flags))                                 \
  X(stream_destroy, cuStreamDestroy_v2, (CudaStream stream))                                              \
  X(begin_capture, cuStreamBeginCapture_v2, (CudaStream stream, int mode))                                \
  X(end_capture, cuStreamEndCapture, (CudaStream stream, void** graph))                                   \
  X(instantiate, cuGraphInstantiateWithFlags, (void** executable, void* graph, unsigned long long flags)) \
  X(launch_graph, cuGraphLaunch, (void* executable, CudaStream stream))                                   \
  X(destroy_executable, cuGraphExecDestroy, (void* executable))                                           \
  X(destroy_graph, cuGraphDestroy, (void* graph))

struct Driver {
// NOLINTNEXTLINE(bugprone-macro-parentheses): a declarator and a parameter list
#define QUERN_ENGINE_MEMBER(member, symbol, parameters) CudaResult(*member) parameters = nullptr;
  QUERN_ENGINE_CUDA(QUERN_ENGINE_MEMBER)
#undef QUERN_ENGINE_MEMBER
  Driver() {
#define QUERN_ENGINE_BIND(member, symbol, parameters) demo::bind_cuda(member, #symbol);
    QUERN_ENGINE_CUDA(QUERN_ENGINE_BIND)
#undef QUERN_ENGINE_BIND
  }
};
const Driver& driver() {
  static const Driver bound;
  return bound;
}

constexpr unsigned kWithTheDefaultStream = 0;
constexpr int kThreadLocal = 1;  // other threads may do what they like meanwhile

}  // namespace

Graphs::Graphs() { check_cuda(driver().stream_create(&stream_, kWithTheDefaultStream), "making a stream"); }

Graphs::~Graphs() {
  for (const auto& [sequences, graph] : graphs_) driver().destroy_executable(graph);
  driver().stream_destroy(stream_);
}

void Graphs::run(std::int64_t sequences, const std::function<void()>& launch) {
  void*& graph = graphs_[sequences];
  if (graph == nullptr) graph = capture(launch);
  check_cuda(driver().launch_graph(graph, stream_), "launching a step's graph");
}

void* Graphs::capture(const std::function<void()>& launch) {
  void *graph = nullptr, *executable = nullptr;
  check_cuda(driver().begin_capture(stream_, kThreadLocal), "capturing a step");
  try {
    launch();
  } catch (...) {
    // The stream is of no use until its capture has ended; what was captured is not.
    if (driver().end_capture(stream_, &graph) == 0 && graph != nullptr) driver().destroy_graph(graph);
    throw;
  }
  check_cuda(driver().end_capture(stream_, &graph), "capturing a step");
  const CudaResult code = driver().instantiate(&executable, graph, 0);
  driver().destroy_graph(graph);
  check_cuda(code, "making a step's graph");
  return executable;
}

}  // namespace quern::engine
