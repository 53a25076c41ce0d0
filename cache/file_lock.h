// Locks that survive other copies of SQLite in the process: open-file-description locks, polled to a deadline.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <string>

#include "cache/fork_guard.h"

namespace quern::cache {

// Steady: setting the wall clock back neither shortens nor lengthens a wait.
using Deadline = std::chrono::steady_clock::time_point;

// That long from now; what is longer than a year is a year, since the clock's numbers end somewhere.
Deadline deadline_in(std::chrono::milliseconds patience) noexcept;

enum class Locked : std::uint8_t {
  held,
  waited,  // held, after somebody else had it
  busy,    // somebody else still has it at the deadline
  failed   // this file cannot be locked (or opened) at all; errno tells
};

// One byte range, shared or exclusive. Released by unlock_range or by closing the descriptor.
Locked lock_range(int descriptor, bool exclusive, std::int64_t start, std::int64_t length, Deadline deadline,
                  std::chrono::microseconds longest_sleep) noexcept;
void unlock_range(int descriptor, std::int64_t start, std::int64_t length) noexcept;

// The lock beside the database: shared to read, exclusive to write.
class Sidecar {
 public:
  // `writable`: the file is made where it is not there, with `mode`. A file that was removed or replaced meanwhile is
  // noticed and opened anew, since a lock on a file that others no longer see excludes nobody.
  Locked acquire(const std::string& path, bool exclusive, bool writable, mode_t mode, Deadline deadline) noexcept;
  void release() noexcept;

 private:
  Descriptor descriptor_;
  bool writable_ = false;
};

}  // namespace quern::cache
