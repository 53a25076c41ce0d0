// What was put off to the pool, until its caller has heard how it ended.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

#include "jit/failure.h"
#include "jit/lookup_table.h"
#include "jit/spec.h"

namespace quern::jit {

class Background {
 public:
  enum class State { unknown, pending, failed };

  // Of the job for this Spec. Sets *name while it is pending: callers poll, and need not find it out again. A failure
  // is handed out once and forgotten, so that the next call tries again.
  State ask(const Spec& spec, std::string* name, Failure* failure) {
    std::lock_guard lock(mutex_);
    auto job = jobs_.find(spec);
    if (job == jobs_.end()) return State::unknown;
    if (!job->second.failure) {
      *name = job->second.name;
      return State::pending;
    }
    *failure = std::move(*job->second.failure);
    jobs_.erase(job);
    return State::failed;
  }

  // False when there is one already.
  bool begin(const Spec& spec, std::string name) {
    std::lock_guard lock(mutex_);
    auto [job, added] = jobs_.try_emplace(spec, Job{std::move(name), false, {}});
    if (added) pending_++;
    return added;
  }
  // By the thread that is about to work on it: false when it was cancelled meanwhile, or another has taken it.
  bool start(const Spec& spec) noexcept {
    std::lock_guard lock(mutex_);
    const auto job = jobs_.find(spec);
    if (job == jobs_.end() || job->second.started || job->second.failure) return false;
    return job->second.started = true;
  }
  void end(const Spec& spec) noexcept {
    std::lock_guard lock(mutex_);
    pending_ -= jobs_.erase(spec);
    if (pending_ == 0) idle_.notify_all();
  }
  void fail(const Spec& spec, Failure&& failure) noexcept {
    std::lock_guard lock(mutex_);
    jobs_.find(spec)->second.failure = std::move(failure);
    if (--pending_ == 0) idle_.notify_all();
  }
  // Forgets those that nobody has started yet; how many they were.
  std::uint64_t cancel() noexcept {
    std::lock_guard lock(mutex_);
    const std::uint64_t count =
        std::erase_if(jobs_, [](const auto& job) { return !job.second.started && !job.second.failure; });
    pending_ -= count;
    if (pending_ == 0) idle_.notify_all();
    return count;
  }
  // Until none is pending, or so long; how many still are.
  std::uint64_t wait(std::chrono::milliseconds time) {
    std::unique_lock lock(mutex_);
    idle_.wait_for(lock, time, [this] { return pending_ == 0; });
    return pending_;
  }
  std::uint64_t pending() const noexcept {
    std::lock_guard lock(mutex_);
    return pending_;
  }

 private:
  struct Job {
    std::string name;
    bool started;
    std::optional<Failure> failure;  // empty: under way
  };
  mutable std::mutex mutex_;
  std::condition_variable idle_;
  std::unordered_map<Spec, Job, BytesHash> jobs_;
  std::uint64_t pending_ = 0;
};

}  // namespace quern::jit
