// Contexts do not survive a fork: threads are gone in the child, and device and file handles are shared with the
// parent. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>

namespace quern::capi {

// Counts the forks between the first process and this one; a context remembers its process's number. Read on every
// call, so that no call has to ask the system for a process id.
inline std::atomic<std::uint32_t> fork_generation{0};

// Starts the counting, once. Before the first context.
void watch_forks();

}  // namespace quern::capi
