// How far something long has come: a bar at the bottom of a terminal, or a line a step when asked to be verbose.
// SPDX-License-Identifier: Apache-2.0
#include "bindings/cli/progress.h"

#include <algorithm>
#include <cmath>

#include "bindings/cli/format.h"

namespace quern::cli {
namespace {

constexpr std::size_t kShortestBar = 4;
constexpr std::size_t kLongestBar = 24;

}  // namespace

Progress::Progress(Console& console) : console_(console) { console_.status(bar(0, 0, "")); }

Progress::~Progress() { console_.status(""); }

double Progress::milliseconds() const {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin_).count();
}

void Progress::show(std::uint64_t done, std::uint64_t total, const Step& step) {
  const std::lock_guard lock(mutex_);
  if (step.failed) ++failed_;
  if (console_.verbose()) {
    console_.detail('[' + std::to_string(done) + '/' + std::to_string(total) + "] " + printable(step.detail));
  }
  // Two threads may report in the other order: the bar never goes back.
  furthest_ = std::max(furthest_, done);
  counts_.done = furthest_;
  counts_.total = total;
  if (step.compiled) ++counts_.compiled;
  console_.status(bar(furthest_, total, printable(step.what)));
}

double Progress::remaining(std::uint64_t done, std::uint64_t total) const {
  constexpr double kSoonest = 150;
  constexpr std::uint64_t kFewest = 2;  // the first of them does not speak for all
  const std::uint64_t slow = counts_.compiled;
  // What was there already says nothing of how long the rest takes.
  if (slow < kFewest || done >= total || milliseconds() < kSoonest) return 0;
  return 1000 * std::ceil(milliseconds() / static_cast<double>(slow) * static_cast<double>(total - done) / 1000);
}

std::string Progress::bar(std::uint64_t done, std::uint64_t total, const std::string& what) const {
  const std::size_t columns = console_.status_width();
  const std::size_t width = std::clamp(columns / 4, kShortestBar, kLongestBar);
  const std::size_t filled = total == 0 ? 0 : std::min<std::size_t>(width, done * width / total);
  std::string text = '[' + std::string(filled, '#') + std::string(width - filled, '-') + "] ";
  if (total == 0) {
    text += "looking at what is there";
  } else {
    text += std::to_string(done) + '/' + std::to_string(total);
    if (failed_ != 0) text += ", " + std::to_string(failed_) + " failed";
    text += "  " + format_milliseconds(milliseconds());
    const double rest = remaining(done, total);
    if (rest > 0) text += ", about " + format_seconds(rest) + " to go";
    text += "  " + what;
  }
  // One column stays free: a full line would wrap on some terminals.
  return shorten(text, columns - 1);
}

}  // namespace quern::cli
