// A device's means to measure kernels: memory and a stream of its own, and a stopwatch on that stream.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace quern::jit {

// One thread's at a time. Everything throws Error(QUERN_DRIVER), and what it allocated is given back when it dies.
class Bench {
 public:
  virtual ~Bench() = default;

  virtual void* stream() const noexcept = 0;
  // At least 256-byte aligned; null for 0 bytes. Throws Error(QUERN_NO_MEMORY) too.
  virtual void* allocate(std::size_t bytes) = 0;
  virtual void release(void* memory) noexcept = 0;
  // Before anything that is enqueued later.
  virtual void write(void* to, const void* from, std::size_t bytes) = 0;
  // What the device holds there once all that was enqueued is done. Throws Error(QUERN_UNSUPPORTED) too.
  virtual void read(void* to, const void* from, std::size_t bytes) = 0;

  // Waits for all that is enqueued between the two and tells how long the device took for it, in microseconds.
  virtual void start() = 0;
  virtual double stop() = 0;
};

}  // namespace quern::jit
