// Spreads the clusters of a grid over CPU threads; without clusters, each block is one.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "jit/host/block.h"

namespace quern::jit::host {

class Pool {
 public:
  // `threads` at work at once, the caller's among them. They are started on the first grid that has use for them.
  Pool(std::uint32_t warp_size, std::uint32_t threads);
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  // Runs a whole grid; one at a time, others wait. Empty, or the first failure; the clusters not yet begun then never
  // are. Throws std::bad_alloc, std::system_error.
  std::string run(const Grid& grid);

 private:
  void start(std::size_t workers);
  void worker(std::size_t index);
  void run_blocks(Runner& runner);
  void fail(std::string text);

  const std::uint32_t warp_size_;
  const std::uint32_t threads_;
  std::mutex one_grid_;

  std::vector<std::unique_ptr<Runner>> runners_;  // the caller's first
  std::vector<std::thread> workers_;

  std::mutex mutex_;  // over what follows
  std::condition_variable begin_, end_;
  std::uint64_t generation_ = 0;  // grids handed out
  std::size_t wanted_ = 0;        // workers that take part in this one
  std::size_t busy_ = 0;          // of which these are still at it
  bool stop_ = false;
  std::string failure_;

  Grid grid_{};  // written while no worker is busy
  std::uint64_t clusters_ = 0;
  std::uint64_t stride_ = 1, shift_ = 0;  // their order: (i * stride + shift) mod clusters
  std::atomic<std::uint64_t> next_{0};
  std::atomic<bool> failed_{false};
  std::atomic<bool> waited_{false};  // some thread of the grid, for the one before it
};

}  // namespace quern::jit::host
