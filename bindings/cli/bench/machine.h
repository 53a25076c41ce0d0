// Where problems are measured: memory, and how long something takes there.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "quern.h"

namespace quern::cli {

class Machine {
 public:
  virtual ~Machine() = default;
  // 256-byte aligned; gone with the last owner. Throws Failure(QUERN_NO_MEMORY).
  virtual std::shared_ptr<void> allocate(std::size_t bytes) = 0;
  virtual void upload(void* to, const void* from, std::size_t bytes) = 0;
  virtual void copy(void* to, const void* from, std::size_t bytes) = 0;
  // The first `length` bytes of `to` again and again, up to `bytes`.
  virtual void repeat(void* to, std::size_t length, std::size_t bytes) = 0;
  virtual void synchronise() = 0;
  virtual void* stream() const = 0;

  // Microseconds of each of `count` runs. With `flush` what a run reads comes from memory, as far as the machine has a
  // say; what is then left in the caches has to be written back while it runs.
  virtual std::vector<double> time_runs(const std::function<void()>& run, int count, bool flush) = 0;
  // Microseconds of each of `count` replays of a graph into which `record` has put work. Empty where there are no
  // graphs.
  virtual std::vector<double> time_graph(const std::function<void()>& record, int count) = 0;
};

// Of the device that a context is on. Throws Failure(QUERN_UNSUPPORTED) for one that has no clock here.
std::unique_ptr<Machine> machine_of(const quern_device_info& device);

}  // namespace quern::cli
