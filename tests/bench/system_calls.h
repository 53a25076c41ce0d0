// How many system calls a stretch of a program makes, by tracing it: the program marks the stretch, and another process
// counts.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace quern::bench {

inline constexpr int kRegions = 3;

// In the process that is traced: from here on system calls count towards `region`, 1 to kRegions - 1; 0: towards none.
void mark_region(int region);
// In the process that is traced, once: makes some system calls, by which the other sees that it sees them.
void prove_counting();

struct SystemCalls {
  std::array<std::uint64_t, kRegions> count{};  // of the main thread, by region
  std::string failure;                          // why there are no counts; "" where there are
};

// Runs the program arguments[0], its standard output closed, and traces it to its end, or for `seconds` at most.
SystemCalls count_system_calls(const std::vector<std::string>& arguments, unsigned seconds);

}  // namespace quern::bench
