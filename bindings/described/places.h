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

// A zeroed workspace on the CPU, this thread's own: kept and grown. A failed launch may leave it half-written, and then
// it is to be dropped.
void* host_workspace(std::uint64_t bytes);
void drop_host_workspace();

// Zeroes memory of a GPU in the order of a stream, by the driver that quern has opened. Throws Refused.
void zero(DLDevice device, void* stream, void* memory, std::uint64_t bytes);
// Whether what is launched on a stream goes into a graph.
bool is_capturing(DLDevice device, void* stream);

}  // namespace quern::described
