// How often the calling thread allocates and locks. The programs that link this put their own malloc and mutex
// functions before the C library's, so that every library in the process is counted.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace quern::bench {

struct Counts {
  std::uint64_t allocations = 0;  // malloc, calloc, realloc and the aligned ones
  std::uint64_t locks = 0;        // mutexes and read-write locks taken
  friend Counts operator-(const Counts& a, const Counts& b) {
    return {a.allocations - b.allocations, a.locks - b.locks};
  }
};

// Since the thread began.
Counts counts() noexcept;

}  // namespace quern::bench
