// Spreads the clusters of a grid over CPU threads.
// SPDX-License-Identifier: Apache-2.0
#include "jit/host/pool.h"

#include <signal.h>

#include <algorithm>
#include <new>
#include <numeric>

namespace quern::jit::host {

Pool::Pool(std::uint32_t warp_size, std::uint32_t threads) : warp_size_(warp_size), threads_(threads) {
  runners_.push_back(std::make_unique<Runner>(warp_size));
}

Pool::~Pool() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  begin_.notify_all();
  for (std::thread& t : workers_) t.join();
}

// Signals are for the program's own threads.
void Pool::start(std::size_t workers) {
  sigset_t all, before;
  sigfillset(&all);
  runners_.reserve(workers + 1);
  workers_.reserve(workers);
  while (workers_.size() < workers) {
    if (runners_.size() < workers_.size() + 2) runners_.push_back(std::make_unique<Runner>(warp_size_));
    pthread_sigmask(SIG_SETMASK, &all, &before);
    try {
      workers_.emplace_back(&Pool::worker, this, workers_.size());
    } catch (...) {
      pthread_sigmask(SIG_SETMASK, &before, nullptr);
      throw;
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }
}

void Pool::fail(std::string text) {
  std::lock_guard lock(mutex_);
  if (!failed_.exchange(true)) failure_ = std::move(text);
}

void Pool::run_blocks(Runner& runner) {
  try {
    runner.begin_grid(grid_);
    while (!failed_.load(std::memory_order_relaxed)) {
      const std::uint64_t i = next_.fetch_add(1, std::memory_order_relaxed);
      if (i >= clusters_) break;
      const auto one = static_cast<std::uint64_t>((static_cast<unsigned __int128>(i) * stride_ + shift_) % clusters_);
      const std::uint32_t wide = grid_.blocks[0] / grid_.cluster[0], high = grid_.blocks[1] / grid_.cluster[1];
      const std::uint64_t row = one / wide;
      std::string failure = runner.run(static_cast<std::uint32_t>(one % wide) * grid_.cluster[0],
                                       static_cast<std::uint32_t>(row % high) * grid_.cluster[1],
                                       static_cast<std::uint32_t>(row / high) * grid_.cluster[2]);
      if (!failure.empty()) return fail(std::move(failure));
    }
    if (runner.has_waited()) waited_.store(true, std::memory_order_relaxed);
  } catch (const std::bad_alloc&) {
    fail("kernel " + grid_.program->name + ": no memory for the stacks and shared memory of a block");
  }
}

void Pool::worker(std::size_t index) {
  std::uint64_t seen = 0;
  std::unique_lock lock(mutex_);
  for (;;) {
    begin_.wait(lock, [&] { return stop_ || generation_ != seen; });
    if (stop_) return;
    seen = generation_;
    if (index >= wanted_) continue;
    Runner& runner = *runners_[index + 1];
    lock.unlock();
    run_blocks(runner);
    lock.lock();
    if (--busy_ == 0) end_.notify_one();
  }
}

std::string Pool::run(const Grid& grid) {
  std::lock_guard one(one_grid_);
  const std::uint64_t clusters = std::uint64_t{grid.blocks[0] / grid.cluster[0]} * (grid.blocks[1] / grid.cluster[1]) *
                                 (grid.blocks[2] / grid.cluster[2]);
  const auto workers = static_cast<std::size_t>(std::min<std::uint64_t>(threads_, clusters) - 1);
  if (workers_.size() < workers) start(workers);
  if (grid.late != nullptr) grid.late->hide();
  {
    std::lock_guard lock(mutex_);
    grid_ = grid;
    clusters_ = clusters;
    stride_ = 1;
    shift_ = 0;
    if (grid.seeded) {
      // No kernel may count on the order of its blocks or clusters.
      Random random(grid.seed, ~0ULL);
      shift_ = random.next() % clusters;
      do {
        stride_ = random.next() % clusters + 1;
      } while (std::gcd(stride_, clusters) != 1);
    }
    next_ = 0;
    failed_ = false;
    waited_ = false;
    failure_.clear();
    wanted_ = busy_ = workers;
    ++generation_;
  }
  if (workers > 0) begin_.notify_all();
  run_blocks(*runners_[0]);
  std::unique_lock lock(mutex_);
  end_.wait(lock, [&] { return busy_ == 0; });
  if (grid.late != nullptr) grid.late->arrive();
  if (failure_.empty() && grid.programmatic && !waited_.load(std::memory_order_relaxed)) {
    return "kernel " + grid.program->name +
           " was launched programmatically, and none of its threads called wait_for_previous_grid(): what the launch "
           "before it writes need not be there yet";
  }
  return failure_;
}

}  // namespace quern::jit::host
