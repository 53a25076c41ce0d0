// Memory where a context's device can reach it: a GPU's, or the host's own.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "quern.h"

namespace quern::demo {

// Works on the default stream. Throws std::runtime_error with the driver's code.
class Memory {
 public:
  virtual ~Memory() = default;
  // Zeroed, 256-byte aligned, and gone with this object.
  virtual void* allocate(std::size_t bytes) = 0;
  virtual void upload(void* to, const void* from, std::size_t bytes) = 0;
  virtual void download(void* to, const void* from, std::size_t bytes) = 0;
  // Waits for everything that was launched.
  virtual void synchronise() = 0;
};

std::unique_ptr<Memory> memory_of(const quern_device_info& device);

// An array that the host fills and the device reads, or the other way round.
template <class T>
class Mirrored {
 public:
  Mirrored(Memory& memory, std::size_t count, T value = T{})
      : host(count, value), memory_(memory), device_(memory.allocate(count * sizeof(T))) {}
  void upload() { memory_.upload(device_, host.data(), host.size() * sizeof(T)); }
  void download() { memory_.download(host.data(), device_, host.size() * sizeof(T)); }
  void* device() const { return device_; }

  std::vector<T> host;

 private:
  Memory& memory_;
  void* device_;
};

}  // namespace quern::demo
