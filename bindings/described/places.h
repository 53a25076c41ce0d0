// Where calls of frameworks go: a context for each device, made when it is first needed, and what its workspaces need.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <quern.h>

#include <cstdint>

namespace quern::described {

// The context that tensors of this device go to: for the CPU the `host` target. Throws Refused.
quern_context* context_of(DLDevice device);
// Has calls on this device go to another, which stays the caller's to destroy when no call comes any more.
void use_context(DLDevice device, quern_context* context);

// A zeroed workspace on the CPU for the time of a call, from a few that all threads take in turns: as many are made as
// there are calls at once.
class HostWorkspace {
 public:
  // Throws Refused.
  explicit HostWorkspace(std::uint64_t bytes);
  ~HostWorkspace();
  HostWorkspace(const HostWorkspace&) = delete;
  HostWorkspace& operator=(const HostWorkspace&) = delete;
  [[nodiscard]] void* memory() const { return memory_; }
  // A failed launch may have left it half-written: nobody gets it again.
  void drop();

 private:
  void* memory_ = nullptr;
  std::uint64_t bytes_ = 0;
};

// Zeroes memory of a GPU in the order of a stream, by the driver that quern has opened. Throws Refused.
void zero(DLDevice device, void* stream, void* memory, std::uint64_t bytes);
// Whether what is launched on a stream goes into a graph.
bool is_capturing(DLDevice device, void* stream);

}  // namespace quern::described
