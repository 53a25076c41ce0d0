// The GPU that is measured.
// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/device/gpu.h"

#include <algorithm>
#include <chrono>
#include <stdexcept>

namespace quern::bench {
namespace {

class Event {
 public:
  explicit Event(const Cuda& cuda) : cuda_(cuda) {
    demo::check_cuda(cuda_.event_create(&event_, 0), "making an event");
  }
  ~Event() { cuda_.event_destroy(event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  void record(CudaStream stream) { demo::check_cuda(cuda_.event_record(event_, stream), "recording an event"); }
  double us_since(const Event& start) const {
    float milliseconds = 0;
    demo::check_cuda(cuda_.event_elapsed(&milliseconds, start.event_, event_), "reading the time between events");
    return double{milliseconds} * 1000;
  }

 private:
  const Cuda& cuda_;
  void* event_ = nullptr;
};

struct Span {
  explicit Span(const Cuda& cuda) : from(cuda), to(cuda) {}
  Event from, to;
};

std::vector<std::unique_ptr<Span>> spans(const Cuda& cuda, int count) {
  std::vector<std::unique_ptr<Span>> all;
  all.reserve(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) all.push_back(std::make_unique<Span>(cuda));
  return all;
}

double median_us(const std::vector<std::unique_ptr<Span>>& all) {
  std::vector<double> times;
  times.reserve(all.size());
  for (const auto& span : all) times.push_back(span->to.us_since(span->from));
  return median(std::move(times));
}

}  // namespace

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

double milliseconds_of(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

Gpu::Gpu(const std::string& cache) : device_(demo::sized<quern_device_info>()) {
  auto options = demo::sized<quern_context_options>();
  options.device_type = kDLCUDA;
  options.cache_path = cache.c_str();
  opening_ms_ = milliseconds_of([&] { context_ = demo::make_context(options); });
  demo::call([&](quern_error* error) { return quern_device(context(), &device_, error); });
  memory_ = demo::memory_of(device_);
  cuda_ = std::make_unique<const Cuda>();
  // Ordered with the default stream, on which memory is set up.
  demo::check_cuda(cuda_->stream_create(&stream_, 0), "making a stream");
}

void Gpu::synchronise() const { demo::check_cuda(cuda_->stream_synchronise(stream_), "waiting for the GPU"); }

double Gpu::flushed_us(const std::function<void()>& enqueue) {
  if (flushed_ == 0) flushed_ = reinterpret_cast<CudaPointer>(memory_->allocate(kFlushBytes));
  const auto timed = spans(*cuda_, kTimedCalls);
  for (int i = 0; i < 3; ++i) enqueue();
  synchronise();
  for (const auto& span : timed) {
    demo::check_cuda(cuda_->set_async(flushed_, 1, kFlushBytes, stream_), "flushing the L2");
    span->from.record(stream_);
    enqueue();
    span->to.record(stream_);
  }
  synchronise();
  return median_us(timed);
}

double Gpu::graph_us(const std::function<void()>& enqueue) {
  enqueue();  // whatever is not ready must not become so in a capture
  synchronise();
  const Graph graph(*cuda_, stream_, [&] {
    for (int i = 0; i < kGraphCalls; ++i) enqueue();
  });
  const auto timed = spans(*cuda_, 10);
  for (int i = 0; i < 3; ++i) graph.launch();
  for (const auto& span : timed) {
    span->from.record(stream_);
    graph.launch();
    span->to.record(stream_);
  }
  synchronise();
  return median_us(timed) / kGraphCalls;
}

KernelNode Graph::only_kernel() const {
  std::size_t count = 0;
  demo::check_cuda(cuda_.graph_nodes(graph_, nullptr, &count), "counting a graph's nodes");
  if (count != 1) throw std::runtime_error("the captured call is " + std::to_string(count) + " nodes, not one");
  void* node = nullptr;
  demo::check_cuda(cuda_.graph_nodes(graph_, &node, &count), "asking for a graph's node");
  KernelNode kernel{};
  demo::check_cuda(cuda_.kernel_node(node, &kernel), "asking what a node launches");
  if (kernel.function == nullptr) {
    demo::check_cuda(cuda_.kernel_function(&kernel.function, kernel.kernel), "asking for a kernel's function");
  }
  if (kernel.parameters == nullptr) throw std::runtime_error("the captured launch has no parameters to launch again");
  return kernel;
}

}  // namespace quern::bench
