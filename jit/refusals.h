// What a compiler has refused, for a while: a kernel that cannot be compiled is not compiled again at every call.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "jit/failure.h"
#include "jit/lookup_table.h"
#include "jit/spec.h"

namespace quern::jit {

// The second try comes when it is asked for, since it may have been the machine's fault; after that each failure is
// told again, without a compiler, for twice as long as the one before it, up to a minute.
class Refusals {
 public:
  using Clock = std::chrono::steady_clock;

  // Throws the Error of the last failure while its time lasts.
  void check(const Spec& spec) {
    std::unique_lock lock(mutex_);
    const auto known = refused_.find(spec);
    if (known == refused_.end() || Clock::now() >= known->second.until) return;
    const Failure failure = known->second.failure;
    lock.unlock();
    failure.raise();
  }

  void note(const Spec& spec, Failure failure) noexcept {
    try {
      const std::lock_guard lock(mutex_);
      if (refused_.size() >= kMost) refused_.clear();
      Refusal& refusal = refused_[spec];
      refusal.until = Clock::now() + refusal.pause;
      refusal.pause = std::clamp(2 * refusal.pause, kFirst, kLongest);
      refusal.failure = std::move(failure);
    } catch (...) {
      // No memory to remember it: it is compiled again.
    }
  }

  std::vector<std::pair<Spec, Failure>> all() const {
    const std::lock_guard lock(mutex_);
    std::vector<std::pair<Spec, Failure>> all;
    all.reserve(refused_.size());
    for (const auto& [spec, refusal] : refused_) all.emplace_back(spec, refusal.failure);
    return all;
  }

  void forget(const Spec& spec) noexcept {
    const std::lock_guard lock(mutex_);
    refused_.erase(spec);
  }

 private:
  static constexpr std::size_t kMost = 4096;
  static constexpr std::chrono::milliseconds kFirst{1'000}, kLongest{60'000};
  struct Refusal {
    Failure failure;
    std::chrono::milliseconds pause{0};
    Clock::time_point until{};
  };
  mutable std::mutex mutex_;
  std::unordered_map<Spec, Refusal, BytesHash> refused_;
};

}  // namespace quern::jit
