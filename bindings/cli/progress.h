// How far something long has come: a bar at the bottom of a terminal, or a line a step when asked to be verbose.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>

#include "bindings/cli/console.h"

namespace quern::cli {

// How far it has come, for a signal's handler too.
struct Counts {
  std::atomic<std::uint64_t> done{0}, total{0}, compiled{0};
};

// Thread-safe: the library reports from its own threads.
class Progress {
 public:
  explicit Progress(Console& console);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  struct Step {
    std::string what;    // for the bar
    std::string detail;  // for a line of its own
    bool failed;
    bool compiled = false;  // and kept
  };
  void show(std::uint64_t done, std::uint64_t total, const Step& step);
  double milliseconds() const;  // since it began
  const Counts& counts() const { return counts_; }

 private:
  // Milliseconds until all is done, if the rest takes as long as what was made so far; 0 where nobody can tell.
  double remaining(std::uint64_t done, std::uint64_t total) const;
  std::string bar(std::uint64_t done, std::uint64_t total, const std::string& what) const;

  Console& console_;
  std::mutex mutex_;
  Counts counts_;
  std::uint64_t furthest_ = 0;
  std::uint64_t failed_ = 0;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

}  // namespace quern::cli
