// CUDA graphs of a model's steps. A step of a few tokens is a hundred launches of microseconds each: captured once,
// they are launched as one. What may differ between two replays (tokens, positions, lengths, page tables, sampling)
// lies on the device, at the same places; what a capture holds fast is the number of sequences.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>

namespace quern::engine {

class Graphs {
 public:
  // In the current context of the CUDA driver. Throws std::runtime_error with the driver's code, as all here does.
  Graphs();
  ~Graphs();
  Graphs(const Graphs&) = delete;
  Graphs& operator=(const Graphs&) = delete;

  // The stream that everything is launched on: capturing takes another than the default one. It waits for what the
  // default stream has begun and the default stream for it.
  void* stream() const { return stream_; }
  // Replays what `launch` launched on the stream when a step of so many sequences came first; captures it then. Its
  // kernels must be ready: capturing compiles nothing.
  void run(std::int64_t sequences, const std::function<void()>& launch);

 private:
  void* capture(const std::function<void()>& launch);

  void* stream_ = nullptr;
  std::map<std::int64_t, void*> graphs_;  // executable, by the number of sequences
};

}  // namespace quern::engine
