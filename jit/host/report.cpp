// Who waits for what, in words.
// SPDX-License-Identifier: Apache-2.0
#include <bit>

#include "jit/host/block.h"

namespace quern::jit::host {
std::string Runner::describe_block() const {
  const unsigned* i = blocks_[0].index;
  return "kernel " + grid_.program->name + (cluster_blocks_ > 1 ? ", cluster from block (" : ", block (") +
         std::to_string(i[0]) + ", " + std::to_string(i[1]) + ", " + std::to_string(i[2]) + ")";
}

std::string Runner::name_of(std::uint32_t slot) const {
  const q::host::Thread& t = views_[slot];
  return "thread " + std::to_string(t.index) + " (warp " + std::to_string(t.warp) + ", lane " + std::to_string(t.lane) +
         (cluster_blocks_ > 1 ? ", rank " + std::to_string(t.block->cluster_rank) : "") + ")";
}

std::string Runner::state_of(std::uint32_t slot) const {
  const Fiber& f = fibers_[slot];
  const Warp& w = warp_[f.warp];
  const Barrier* barriers = &barriers_[f.block * kBarriers];
  const auto lanes = [&](const char* name) {
    return std::string("in ") + name + " with " + std::to_string(std::popcount(w.arrived)) + " of warp " +
           std::to_string(views_[slot].warp) + "'s " + std::to_string(std::popcount(w.all)) + " lanes";
  };
  std::string what;
  switch (f.wait) {
    case Wait::nothing:
      what = "running";
      break;
    case Wait::block:
      what = "in sync_block with " + std::to_string(barriers[0].count) + " of " + std::to_string(threads_) + " threads";
      break;
    case Wait::named:
      what = "in sync_named(" + std::to_string(f.barrier) + ") with " + std::to_string(barriers[f.barrier].count) +
             " of " + std::to_string(barriers[f.barrier].expected) + " threads";
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
    case Wait::load_matrix:
      what = lanes("load_matrix");
      break;
    case Wait::store_matrix:
      what = lanes("store_matrix");
      break;
    case Wait::wgmma:
      what = lanes("wgmma, its fence, commit or wait");
      break;
    case Wait::registers:
      what = lanes("registers_grow or registers_shrink");
      break;
    case Wait::elect:
      what = lanes("elect_one");
      break;
    case Wait::mbarrier:
      what = "in mbarrier_wait for phase " + std::to_string(f.barrier) + " of the barrier at shared address " +
             where(standing_[slot].mbarrier) + ", which is " + mbarriers_.describe(standing_[slot].mbarrier);
      break;
    case Wait::products:
      what = "in wgmma_wait for the other warps of its warpgroup to issue the same product";
      break;
    case Wait::grown_registers:
      what = "in registers_grow with " + std::to_string(registers_.free_in(f.block)) + " registers free in the block";
      break;
    case Wait::cluster:
      what = "in cluster_wait with " + std::to_string(cluster_barrier_.arrived) + " of " +
             std::to_string(cluster_barrier_.live) + " threads arrived";
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
  for (std::uint32_t b = 0; b < cluster_blocks_; ++b) {
    const std::uint32_t first = b * block_slots_;
    for (std::uint32_t from = 0, to = 0; from < threads_; from = to) {
      const std::string what = state_of(first + from);
      for (to = from + 1; to < threads_ && state_of(first + to) == what;) ++to;
      if (++groups > kMostGroups) continue;
      if (!text.empty()) text += "; ";
      if (to - from == 1) {
        text += name_of(first + from);
      } else {
        text += "threads " + std::to_string(from) + "-" + std::to_string(to - 1);
        if (cluster_blocks_ > 1) text += " of rank " + std::to_string(b);
      }
      text += ": " + what;
    }
  }
  if (groups > kMostGroups) text += "; and " + std::to_string(groups - kMostGroups) + " groups more";
  return text;
}

}  // namespace quern::jit::host
