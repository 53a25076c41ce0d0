// The registers of a block's warps, which setmaxnreg moves between warpgroups.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

namespace quern::jit::host {

class RegisterFile {
 public:
  // Each warp begins with its even share, the most that a kernel bound to one block an SM can have been given: it may
  // have been given fewer, so a first request is never taken for the wrong way round where that could be.
  void begin(std::uint32_t blocks, std::uint32_t warps) {
    if (!used_ && warps_.size() == std::size_t{blocks} * warps) return;
    used_ = false;
    per_block_ = warps;
    const std::uint32_t share = std::min<std::uint32_t>(kRegisters / (warps * kLanes), 256) / 8 * 8;
    warps_.assign(std::size_t{blocks} * warps, Warp{share, {}});
    free_.assign(blocks, kRegisters - share * warps * kLanes);
  }

  // A warp of the cluster asks for `count` registers a thread. Empty, or what is wrong.
  std::string ask(std::uint32_t warp, std::uint32_t count, bool grow) {
    used_ = true;
    Warp& w = warps_[warp];
    if (grow ? count < w.held && !w.asked.empty() : count > w.held) {
      return std::to_string(count) + " asked for, " + std::to_string(w.held) + " held";
    }
    w.asked.push_back(count);
    const std::size_t nth = w.asked.size() - 1;
    const std::uint32_t first = warp - warp % per_block_ % 4;
    for (std::uint32_t other = first; other < std::min(first + 4, warp - warp % per_block_ + per_block_); ++other) {
      const std::vector<std::uint32_t>& theirs = warps_[other].asked;
      if (theirs.size() > nth && theirs[nth] != count) {
        return "the warps of a warpgroup disagree: " + std::to_string(count) + " and " + std::to_string(theirs[nth]);
      }
    }
    return {};
  }
  // True once the warp has them: at once where it gives some up.
  bool take(std::uint32_t warp, std::uint32_t count) {
    Warp& w = warps_[warp];
    std::uint32_t& free = free_[warp / per_block_];
    const std::uint32_t had = w.held * kLanes, wants = count * kLanes;
    if (wants > had && free < wants - had) return false;
    free = free + had - wants;
    w.held = count;
    return true;
  }
  std::uint32_t free_in(std::uint32_t block) const { return free_[block]; }
  // At the end: empty, or that a warpgroup's warps have not all asked.
  std::string finish() const {
    for (std::uint32_t warp = 0; warp < warps_.size() && used_; ++warp) {
      const std::uint32_t first = warp - warp % per_block_ % 4;
      if (warps_[warp].asked.size() != warps_[first].asked.size()) {
        return "warps " + std::to_string(first % per_block_) + " and " + std::to_string(warp % per_block_) +
               " of one warpgroup have changed their registers " + std::to_string(warps_[first].asked.size()) +
               " and " + std::to_string(warps_[warp].asked.size()) + " times";
      }
    }
    return {};
  }

 private:
  static constexpr std::uint32_t kRegisters = 65536, kLanes = 32;
  struct Warp {
    std::uint32_t held;                // a thread
    std::vector<std::uint32_t> asked;  // so far
  };
  std::vector<Warp> warps_;
  std::vector<std::uint32_t> free_;  // of each block
  std::uint32_t per_block_ = 1;
  bool used_ = false;
};

}  // namespace quern::jit::host
