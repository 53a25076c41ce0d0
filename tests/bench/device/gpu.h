// The GPU that is measured: a quern context on it, memory, a stream, and the two ways of timing.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bindings/demo/call.h"
#include "bindings/demo/memory.h"
#include "tests/bench/device/cuda.h"

namespace quern::bench {

inline constexpr std::size_t kFlushBytes = std::size_t{256} << 20;  // more than any L2
inline constexpr int kTimedCalls = 30;
inline constexpr int kGraphCalls = 20;

double median(std::vector<double> values);
double milliseconds_of(const std::function<void()>& work);

class Gpu {
 public:
  // The first GPU, kernels cached in the folder `cache`. Throws std::runtime_error where there is none.
  explicit Gpu(const std::string& cache);

  quern_context* context() const { return context_.get(); }
  const quern_device_info& device() const { return device_; }
  DLDevice where() const { return {device_.device_type, device_.device_id}; }
  demo::Memory& memory() const { return *memory_; }
  const Cuda& cuda() const { return *cuda_; }
  CudaStream stream() const { return stream_; }
  double opening_ms() const { return opening_ms_; }  // of the quern context: driver, device and cache
  void synchronise() const;

  // Median GPU time of a call in us, from event to event, the L2 flushed before each.
  double flushed_us(const std::function<void()>& enqueue);
  // Time of a call in us where kGraphCalls are one graph: median of its replays, nothing flushed.
  double graph_us(const std::function<void()>& enqueue);

 private:
  double opening_ms_ = 0;
  demo::Context context_;
  quern_device_info device_;
  std::unique_ptr<demo::Memory> memory_;
  std::unique_ptr<const Cuda> cuda_;
  CudaStream stream_ = nullptr;
  CudaPointer flushed_ = 0;
};

}  // namespace quern::bench
