// How far a warm-up has come: a bar at the bottom of a terminal, or a line a kernel when asked to be verbose.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>

#include "bindings/cli/console.h"
#include "quern.h"

namespace quern::cli {

// Thread-safe: the library reports from its own threads.
class Progress {
 public:
  explicit Progress(Console& console);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // A quern_warm_callback whose `user` is the Progress.
  static void report(void* user, std::uint64_t done, std::uint64_t total, const quern_warm_result* result);
  double milliseconds() const;  // since it began

 private:
  void show(std::uint64_t done, std::uint64_t total, const quern_warm_result& result);
  std::string bar(std::uint64_t done, std::uint64_t total, const std::string& what) const;

  Console& console_;
  std::mutex mutex_;
  std::uint64_t furthest_ = 0;
  std::uint64_t failed_ = 0;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

// "cached", "compiled", "failed", "absent".
const char* outcome_name(std::int32_t outcome);

}  // namespace quern::cli
