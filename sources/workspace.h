// The layout of every op's workspace: arrival counters in front, whatever else behind them.
//
// The counters lie at the same place in every op and call, so that a workspace may serve different calls one after the
// other: what one leaves as scratch is never what the next counts with.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace quern::ops {

// Zeroed once by the caller, zero again after every launch.
inline constexpr std::uint64_t kCounterBytes = 256 * 1024;
inline constexpr std::int64_t kCounters = kCounterBytes / 4;

struct Workspace {
  std::uint32_t* counters;
  void* scratch;  // 256-byte aligned
};

// Throws Error(QUERN_INVALID) when there is none, or it is misaligned or smaller than `needed` bytes.
Workspace read_workspace(void* workspace, std::uint64_t given, std::uint64_t needed);

}  // namespace quern::ops
