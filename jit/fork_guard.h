// Whether this process is a fork of the one that made an object, for the price of one load: cheap enough for every
// launch.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>

namespace quern::jit {

// What Driver::launch returns in a forked child; no driver has negative codes.
inline constexpr int kForkedCode = -1;

class ForkGuard {
 public:
  // Throws Error(QUERN_NO_MEMORY) when the C library cannot note the handler.
  ForkGuard();
  bool forked() const noexcept { return made_ != forks_.load(std::memory_order_relaxed); }
  // Throws Error(QUERN_FORKED) in a child.
  void check() const;

 private:
  // Counted up in every child by a pthread_atfork handler. A child made without the C library (a bare clone) is not
  // seen; such a child only ever goes on to exec.
  static inline std::atomic<std::uint32_t> forks_{0};
  static const int noted_;
  std::uint32_t made_;
};

}  // namespace quern::jit
