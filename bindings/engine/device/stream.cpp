// SPDX-License-Identifier: Apache-2.0
#include "bindings/engine/device/stream.h"

#include <chrono>
#include <cstring>
#include <map>
#include <vector>

#include "bindings/demo/cuda_library.h"

namespace quern::engine {
namespace {

using demo::check_cuda;
using demo::CudaPointer;
using demo::CudaResult;
using demo::CudaStream;

#define QUERN_ENGINE_CUDA(X)                                                                                 \
  X(stream_create, cuStreamCreate, (CudaStream * stream, unsigned flags))                                    \
  X(stream_destroy, cuStreamDestroy_v2, (CudaStream stream))                                                 \
  X(stream_wait, cuStreamSynchronize, (CudaStream stream))                                                   \
  X(host_allocate, cuMemHostAlloc, (void** memory, std::size_t bytes, unsigned flags))                       \
  X(host_free, cuMemFreeHost, (void* memory))                                                                \
  X(copy_in, cuMemcpyHtoDAsync_v2, (CudaPointer to, const void* from, std::size_t bytes, CudaStream stream)) \
  X(begin_capture, cuStreamBeginCapture_v2, (CudaStream stream, int mode))                                   \
  X(end_capture, cuStreamEndCapture, (CudaStream stream, void** graph))                                      \
  X(instantiate, cuGraphInstantiateWithFlags, (void** executable, void* graph, unsigned long long flags))    \
  X(upload_graph, cuGraphUpload, (void* executable, CudaStream stream))                                      \
  X(launch_graph, cuGraphLaunch, (void* executable, CudaStream stream))                                      \
  X(destroy_executable, cuGraphExecDestroy, (void* executable))                                              \
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

constexpr unsigned kWithTheDefaultStream = 0;  // the weights are loaded there, and no kernel runs before they are
constexpr int kThreadLocal = 1;                // other threads may do what they like while one captures

// In the current context of the CUDA driver, which is the device's primary one.
class CudaQueue final : public Stream {
 public:
  CudaQueue() { check_cuda(driver_.stream_create(&stream_, kWithTheDefaultStream), "making a stream"); }
  ~CudaQueue() override {
    for (const auto& [key, graph] : graphs_) driver_.destroy_executable(graph);
    driver_.stream_destroy(stream_);
    for (void* block : blocks_) driver_.host_free(block);
  }
  CudaQueue(const CudaQueue&) = delete;
  CudaQueue& operator=(const CudaQueue&) = delete;

  void* handle() const override { return stream_; }
  void* allocate_host(std::size_t bytes) override {
    void* block = nullptr;
    check_cuda(driver_.host_allocate(&block, bytes, 0), "allocating memory that the GPU can reach");
    blocks_.push_back(block);
    return std::memset(block, 0, bytes);
  }
  void copy_in(void* to, const void* from, std::size_t bytes) override {
    check_cuda(driver_.copy_in(reinterpret_cast<CudaPointer>(to), from, bytes, stream_), "copying to the GPU");
  }
  void wait() override { check_cuda(driver_.stream_wait(stream_), "waiting for the GPU"); }
  // A word in memory is seen some microseconds before the driver says that its kernel has ended. That is something to
  // a step of some ten microseconds alone; longer ones, and those that fail, are left to the driver.
  void wait_for(const std::int32_t* words, std::int64_t count, std::int32_t unset) override {
    using Clock = std::chrono::steady_clock;
    constexpr auto kLongest = std::chrono::microseconds(300);
    constexpr int kLooksAtOnce = 64;
    std::int64_t seen = 0;
    for (const auto begin = Clock::now(); Clock::now() - begin < kLongest;) {
      for (int i = 0; i < kLooksAtOnce; ++i) {
        while (seen < count && __atomic_load_n(words + seen, __ATOMIC_ACQUIRE) != unset) ++seen;
        if (seen == count) return;
      }
    }
    wait();
  }
  void replay(std::int64_t key, const std::function<void()>& launch, const std::function<void()>& captured) override {
    void*& graph = graphs_[key];
    if (graph == nullptr) {
      graph = capture(launch);
      // On the device before anybody launches it: neither capturing nor this meets a kernel that waits for another
      // rank.
      check_cuda(driver_.upload_graph(graph, stream_), "loading a step's graph");
      wait();
      captured();
    }
    check_cuda(driver_.launch_graph(graph, stream_), "launching a step's graph");
  }

 private:
  void* capture(const std::function<void()>& launch) {
    void *graph = nullptr, *executable = nullptr;
    check_cuda(driver_.begin_capture(stream_, kThreadLocal), "capturing a step");
    try {
      launch();
    } catch (...) {
      // The stream is of no use until its capture has ended; what was captured is not.
      if (driver_.end_capture(stream_, &graph) == 0 && graph != nullptr) driver_.destroy_graph(graph);
      throw;
    }
    check_cuda(driver_.end_capture(stream_, &graph), "capturing a step");
    const CudaResult code = driver_.instantiate(&executable, graph, 0);
    driver_.destroy_graph(graph);
    check_cuda(code, "making a step's graph");
    return executable;
  }

  const Driver driver_;
  void* stream_ = nullptr;
  std::vector<void*> blocks_;
  std::map<std::int64_t, void*> graphs_;  // executable
};

// A launch on the host returns when it is done.
class HostQueue final : public Stream {
 public:
  void* handle() const override { return nullptr; }
  void* allocate_host(std::size_t bytes) override {
    blocks_.emplace_back(bytes);
    return blocks_.back().data();
  }
  void copy_in(void* to, const void* from, std::size_t bytes) override { std::memcpy(to, from, bytes); }
  void wait() override {}
  void wait_for(const std::int32_t*, std::int64_t, std::int32_t) override {}
  void replay(std::int64_t, const std::function<void()>& launch, const std::function<void()>&) override { launch(); }

 private:
  std::vector<std::vector<std::byte>> blocks_;
};

}  // namespace

std::unique_ptr<Stream> stream_of(const quern_device_info& device) {
  if (device.device_type == kDLCUDA) return std::make_unique<CudaQueue>();
  return std::make_unique<HostQueue>();
}

}  // namespace quern::engine
