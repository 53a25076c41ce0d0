// SPDX-License-Identifier: Apache-2.0
#include "bindings/cli/bench/machine.h"

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <string>

#include "bindings/cli/failure.h"
#include "bindings/demo/cuda_library.h"

namespace quern::cli {
namespace {

using demo::CudaPointer;
using demo::CudaResult;
using demo::CudaStream;

// ---- The host target: its calls return when they are done.

class Host final : public Machine {
 public:
  std::shared_ptr<void> allocate(std::size_t bytes) override {
    void* memory = nullptr;
    if (posix_memalign(&memory, 256, bytes == 0 ? 256 : bytes) != 0) {
      throw Failure(QUERN_NO_MEMORY, std::to_string(bytes) + " bytes are not to be had");
    }
    std::memset(memory, 0, bytes);
    return {memory, std::free};
  }
  void upload(void* to, const void* from, std::size_t bytes) override { std::memcpy(to, from, bytes); }
  void copy(void* to, const void* from, std::size_t bytes) override { std::memcpy(to, from, bytes); }
  void repeat(void* to, std::size_t length, std::size_t bytes) override {
    auto* const bytes_of = static_cast<unsigned char*>(to);
    for (std::size_t at = length; at < bytes; at += length) {
      std::memcpy(bytes_of + at, bytes_of, std::min(length, bytes - at));
    }
  }
  void synchronise() override {}
  void* stream() const override { return nullptr; }
  std::vector<double> time_runs(const std::function<void()>& run, int count, bool) override {
    std::vector<double> times;
    for (int i = 0; i < count; ++i) {
      const auto begin = std::chrono::steady_clock::now();
      run();
      times.push_back(std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count());
    }
    return times;
  }
  std::vector<double> time_graph(const std::function<void()>&, int) override { return {}; }
};

// ---- NVIDIA's driver, looked up when it is needed.

#define QUERN_BENCH_CUDA(X)                                                                               \
  X(init, cuInit, (unsigned flags))                                                                       \
  X(device_get, cuDeviceGet, (int* device, int ordinal))                                                  \
  X(primary_retain, cuDevicePrimaryCtxRetain, (void** context, int device))                               \
  X(primary_release, cuDevicePrimaryCtxRelease_v2, (int device))                                          \
  X(set_current, cuCtxSetCurrent, (void* context))                                                        \
  X(cuda_synchronise, cuCtxSynchronize, ())                                                               \
  X(cuda_allocate, cuMemAlloc_v2, (CudaPointer * pointer, std::size_t bytes))                             \
  X(release, cuMemFree_v2, (CudaPointer pointer))                                                         \
  X(set, cuMemsetD8_v2, (CudaPointer to, unsigned char value, std::size_t bytes))                         \
  X(set_later, cuMemsetD8Async, (CudaPointer to, unsigned char value, std::size_t bytes, CudaStream))     \
  X(copy_in, cuMemcpyHtoD_v2, (CudaPointer to, const void* from, std::size_t bytes))                      \
  X(copy_within, cuMemcpyDtoD_v2, (CudaPointer to, CudaPointer from, std::size_t bytes))                  \
  X(stream_create, cuStreamCreate, (CudaStream * stream, unsigned flags))                                 \
  X(stream_destroy, cuStreamDestroy_v2, (CudaStream stream))                                              \
  X(begin_capture, cuStreamBeginCapture_v2, (CudaStream stream, int mode))                                \
  X(end_capture, cuStreamEndCapture, (CudaStream stream, void** graph))                                   \
  X(instantiate, cuGraphInstantiateWithFlags, (void** executable, void* graph, unsigned long long flags)) \
  X(launch_graph, cuGraphLaunch, (void* executable, CudaStream stream))                                   \
  X(destroy_executable, cuGraphExecDestroy, (void* executable))                                           \
  X(destroy_graph, cuGraphDestroy, (void* graph))                                                         \
  X(event_create, cuEventCreate, (void** event, unsigned flags))                                          \
  X(event_record, cuEventRecord, (void* event, CudaStream stream))                                        \
  X(event_wait, cuEventSynchronize, (void* event))                                                        \
  X(event_elapsed, cuEventElapsedTime, (float* milliseconds, void* begin, void* end))                     \
  X(event_destroy, cuEventDestroy_v2, (void* event))

struct Driver {
// NOLINTNEXTLINE(bugprone-macro-parentheses): a declarator and a parameter list
#define QUERN_BENCH_MEMBER(member, symbol, parameters) CudaResult(*member) parameters = nullptr;
  QUERN_BENCH_CUDA(QUERN_BENCH_MEMBER)
#undef QUERN_BENCH_MEMBER
  Driver() {
#define QUERN_BENCH_BIND(member, symbol, parameters) demo::bind_cuda(member, #symbol);
    QUERN_BENCH_CUDA(QUERN_BENCH_BIND)
#undef QUERN_BENCH_BIND
  }
};

constexpr int kThreadLocal = 1;  // capture: other threads may do what they like meanwhile
constexpr int kCudaNoMemory = 2;

class Cuda final : public Machine {
 public:
  explicit Cuda(const quern_device_info& device) : ordinal_(device.device_id), flushed_(2 * device.l2_bytes) {
    check(driver_.init(0), "starting CUDA");
    check(driver_.device_get(&device_, ordinal_), "finding the device");
    void* primary = nullptr;
    check(driver_.primary_retain(&primary, device_), "taking the device's context");
    check(driver_.set_current(primary), "using the device's context");
    check(driver_.stream_create(&stream_, 1), "making a stream");
    for (void*& event : events_) check(driver_.event_create(&event, 0), "making an event");
    flush_ = allocate(flushed_);
  }
  ~Cuda() override {
    flush_.reset();
    for (void* event : events_) driver_.event_destroy(event);
    driver_.stream_destroy(stream_);
    driver_.primary_release(device_);
  }

  std::shared_ptr<void> allocate(std::size_t bytes) override {
    CudaPointer memory = 0;
    const std::size_t wanted = bytes == 0 ? 256 : bytes;
    const CudaResult code = driver_.cuda_allocate(&memory, wanted);
    if (code == kCudaNoMemory) {
      throw Failure(QUERN_NO_MEMORY, std::to_string(wanted) + " bytes are not to be had on the device", code);
    }
    check(code, "allocating memory");
    check(driver_.set(memory, 0, wanted), "clearing memory");
    return {reinterpret_cast<void*>(memory),
            [this](void* given) { driver_.release(reinterpret_cast<CudaPointer>(given)); }};
  }
  void upload(void* to, const void* from, std::size_t bytes) override {
    check(driver_.copy_in(reinterpret_cast<CudaPointer>(to), from, bytes), "copying to the device");
  }
  void copy(void* to, const void* from, std::size_t bytes) override {
    if (bytes == 0) return;
    check(driver_.copy_within(reinterpret_cast<CudaPointer>(to), reinterpret_cast<CudaPointer>(from), bytes),
          "copying on the device");
  }
  void repeat(void* to, std::size_t length, std::size_t bytes) override {
    const auto begin = reinterpret_cast<CudaPointer>(to);
    for (std::size_t at = length; at < bytes; at *= 2) {
      check(driver_.copy_within(begin + at, begin, std::min(at, bytes - at)), "filling memory");
    }
  }
  void synchronise() override { check(driver_.cuda_synchronise(), "waiting for the device"); }
  void* stream() const override { return stream_; }

  std::vector<double> time_runs(const std::function<void()>& run, int count, bool flush) override {
    std::vector<double> times;
    for (int i = 0; i < count; ++i) {
      // What the L2 holds then is nothing that the run reads; and the launch is made while this goes on.
      if (flush) {
        check(driver_.set_later(reinterpret_cast<CudaPointer>(flush_.get()), static_cast<unsigned char>(i), flushed_,
                                stream_),
              "emptying the L2");
      }
      times.push_back(timed(run));
    }
    return times;
  }

  std::vector<double> time_graph(const std::function<void()>& record, int count) override {
    void *graph = nullptr, *executable = nullptr;
    check(driver_.begin_capture(stream_, kThreadLocal), "capturing a graph");
    try {
      record();
    } catch (...) {
      if (driver_.end_capture(stream_, &graph) == 0 && graph != nullptr) driver_.destroy_graph(graph);
      throw;
    }
    check(driver_.end_capture(stream_, &graph), "capturing a graph");
    const CudaResult code = driver_.instantiate(&executable, graph, 0);
    driver_.destroy_graph(graph);
    check(code, "making a graph");
    const std::shared_ptr<void> owner(executable, [this](void* given) { driver_.destroy_executable(given); });
    const auto launch = [&] { check(driver_.launch_graph(executable, stream_), "launching a graph"); };
    launch();
    std::vector<double> times;
    for (int i = 0; i < count; ++i) {
      launch();  // so that the clock does not begin on a device that idles
      times.push_back(timed(launch));
    }
    return times;
  }

 private:
  static void check(CudaResult code, const char* what) { demo::check_cuda(code, what); }

  double timed(const std::function<void()>& run) {
    check(driver_.event_record(events_[0], stream_), "recording an event");
    run();
    check(driver_.event_record(events_[1], stream_), "recording an event");
    check(driver_.event_wait(events_[1]), "running the problem");
    float milliseconds = 0;
    check(driver_.event_elapsed(&milliseconds, events_[0], events_[1]), "reading the clock");
    return 1e3 * static_cast<double>(milliseconds);
  }

  const Driver driver_;
  int ordinal_, device_ = 0;
  CudaStream stream_ = nullptr;
  void* events_[2] = {};
  std::size_t flushed_;
  std::shared_ptr<void> flush_;
};

}  // namespace

std::unique_ptr<Machine> machine_of(const quern_device_info& device) {
  if (device.device_type == kDLCPU) return std::make_unique<Host>();
  if (device.device_type == kDLCUDA) return std::make_unique<Cuda>(device);
  throw Failure(QUERN_UNSUPPORTED, "there is no clock here for devices of this kind; cuda and host can be measured");
}

}  // namespace quern::cli
