// Memory of the device that this backend runs on: the CPU's for quern's `host` target, or an NVIDIA GPU's by its
// driver.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <quern.h>

#include <cstddef>
#include <memory>
#include <string>

namespace quern::ggml {

class Memory {
 public:
  virtual ~Memory() = default;
  [[nodiscard]] virtual DLDevice device() const = 0;
  [[nodiscard]] virtual void* allocate(std::size_t bytes) = 0;  // nullptr where there is none; 256-byte aligned
  virtual void free(void* memory) = 0;
  // All of these are done when they return, behind what was launched before.
  virtual void put(void* to, const void* from, std::size_t bytes) = 0;
  virtual void get(void* to, const void* from, std::size_t bytes) = 0;
  virtual void copy(void* to, const void* from, std::size_t bytes) = 0;
  virtual void fill(void* to, unsigned char value, std::size_t bytes) = 0;
  virtual void synchronise() = 0;
  virtual void room(std::size_t* free, std::size_t* total) = 0;
};

// The memory of "host", "host64" or "cuda:N"; nullptr with `why` where the device is not there.
std::unique_ptr<Memory> open_memory(const std::string& device, std::string& why);

}  // namespace quern::ggml
