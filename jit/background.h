// What was put off to the pool, until its caller has heard how it ended.
// SPDX-License-Identifier: Apache-2.0
#pragma once

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
    auto [job, added] = jobs_.try_emplace(spec, Job{std::move(name), {}});
    if (added) pending_++;
    return added;
  }
  void end(const Spec& spec) noexcept {
    std::lock_guard lock(mutex_);
    pending_ -= jobs_.erase(spec);
  }
  void fail(const Spec& spec, Failure&& failure) noexcept {
    std::lock_guard lock(mutex_);
    jobs_.find(spec)->second.failure = std::move(failure);
    pending_--;
  }
  std::uint64_t pending() const noexcept {
    std::lock_guard lock(mutex_);
    return pending_;
  }

 private:
  struct Job {
    std::string name;
    std::optional<Failure> failure;  // empty: under way
  };
  mutable std::mutex mutex_;
  std::unordered_map<Spec, Job, BytesHash> jobs_;
  std::uint64_t pending_ = 0;
};

}  // namespace quern::jit
