// SPDX-License-Identifier: Apache-2.0
#include "bindings/engine/parallel/ranks.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <utility>

namespace quern::engine {
namespace {

// So long the others may take to end once a rank has failed.
constexpr std::chrono::seconds kPatience{20};

// Ranks whose kernels wait for one that has failed never end, and nothing can be unwound while they run.
[[noreturn]] void end_of_process(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "a device has failed while others wait for it: %s\n", error.what());
  } catch (...) {
    std::fputs("a device has failed while others wait for it\n", stderr);
  }
  std::_Exit(1);
}

}  // namespace

Ranks::Ranks(const std::vector<Rank>& ranks, const Checkpoint& checkpoint, const Limits& limits)
    : Ranks(ranks, checkpoint.config(), [&](const Rank& rank) {
        return std::make_unique<Model>(rank.context, rank.device, checkpoint, limits, rank.communicator);
      }) {}

Ranks::Ranks(const std::vector<Rank>& ranks, const Config& config, const Make& make)
    : config_(config), models_(ranks.size()) {
  for (std::size_t i = 0; i < ranks.size(); ++i) threads_.emplace_back([this, i] { serve(i); });
  try {
    on_all([&](std::size_t i) { models_[i] = make(ranks[i]); });
  } catch (...) {
    stop();
    throw;
  }
}

void Ranks::stop() {
  // Each on its own thread, where its device's context is current.
  try {
    on_all([&](std::size_t i) { models_[i].reset(); });
  } catch (...) {  // NOLINT(bugprone-empty-catch): nothing is left to be told
  }
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  asked_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void Ranks::serve(std::size_t rank) {
  std::uint64_t seen = 0;
  for (;;) {
    const std::function<void(std::size_t)>* what = nullptr;
    {
      std::unique_lock lock(mutex_);
      asked_.wait(lock, [&] { return ends_ || turn_ != seen; });
      if (ends_) return;
      seen = turn_, what = what_;
    }
    std::exception_ptr failure;
    try {
      (*what)(rank);
    } catch (...) {
      failure = std::current_exception();
    }
    const std::lock_guard lock(mutex_);
    if (failure && !failure_) failure_ = failure;
    if (--left_ == 0 || failure_) done_.notify_all();
  }
}

void Ranks::on_all(const std::function<void(std::size_t)>& what) {
  std::unique_lock lock(mutex_);
  what_ = &what, left_ = threads_.size(), ++turn_;
  asked_.notify_all();
  done_.wait(lock, [&] { return left_ == 0 || failure_; });
  if (!done_.wait_for(lock, kPatience, [&] { return left_ == 0; })) end_of_process(failure_);
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
}

std::vector<Next> Ranks::step(const std::vector<Part>& parts) {
  std::vector<Next> next;
  on_all([&](std::size_t i) {
    std::vector<Next> mine = models_[i]->step(parts);
    if (i == 0) next = std::move(mine);
  });
  return next;
}

void Ranks::copy_pages(const std::vector<std::pair<std::int32_t, std::int32_t>>& pairs) {
  on_all([&](std::size_t i) { models_[i]->copy_pages(pairs); });
}

void Ranks::repeat(std::int64_t times) {
  on_all([&](std::size_t i) { models_[i]->repeat(times); });
}

void Ranks::leave_out(const char* op) {
  on_all([&](std::size_t i) { models_[i]->leave_out(op); });
}

}  // namespace quern::engine
