// Who waits for what, in words.
// SPDX-License-Identifier: Apache-2.0
#include <bit>

#include "jit/host/block.h"

namespace quern::jit::host {
std::string Runner::describe_block() const {
  return "kernel " + grid_.program->name + ", block (" + std::to_string(block_.index[0]) + ", " +
         std::to_string(block_.index[1]) + ", " + std::to_string(block_.index[2]) + ")";
}

std::string Runner::name_of(std::uint32_t thread) const {
  return "thread " + std::to_string(thread) + " (warp " + std::to_string(thread / warp_size_) + ", lane " +
         std::to_string(thread % warp_size_) + ")";
}

std::string Runner::state_of(std::uint32_t thread) const {
  const Fiber& f = fibers_[thread];
  const Warp& w = warp_[views_[thread].warp];
  const auto lanes = [&](const char* name) {
    return std::string("in ") + name + " with " + std::to_string(std::popcount(w.arrived)) + " of warp " +
           std::to_string(views_[thread].warp) + "'s " + std::to_string(std::popcount(w.all)) + " lanes";
  };
  std::string what;
  switch (f.wait) {
    case Wait::nothing:
      what = "running";
      break;
    case Wait::block:
      what =
          "in sync_block with " + std::to_string(barriers_[0].count) + " of " + std::to_string(threads_) + " threads";
      break;
    case Wait::named:
      what = "in sync_named(" + std::to_string(f.barrier) + ") with " + std::to_string(barriers_[f.barrier].count) +
             " of " + std::to_string(barriers_[f.barrier].expected) + " threads";
      break;
    case Wait::warp:
      what = lanes("sync_warp");
      break;
    case Wait::shuffle:
      what = lanes("shuffle");
      break;
    case Wait::ballot:
      what = lanes("ballot");
      break;
    case Wait::mma:
      what = lanes("mma");
      break;
    case Wait::returned:
      what = "returned";
      break;
  }
  return what;
}

// Neighbours in the same state are told of together; past a few groups, only how many more there are.
std::string Runner::describe_waits() const {
  constexpr int kMostGroups = 8;
  std::string text;
  int groups = 0;
  for (std::uint32_t from = 0, to = 0; from < threads_; from = to) {
    const std::string what = state_of(from);
    for (to = from + 1; to < threads_ && state_of(to) == what;) ++to;
    if (++groups > kMostGroups) continue;
    if (!text.empty()) text += "; ";
    text += (to - from == 1 ? name_of(from) : "threads " + std::to_string(from) + "-" + std::to_string(to - 1)) + ": " +
            what;
  }
  if (groups > kMostGroups) text += "; and " + std::to_string(groups - kMostGroups) + " groups more";
  return text;
}

}  // namespace quern::jit::host
