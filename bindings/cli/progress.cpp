// How far a warm-up has come: a bar at the bottom of a terminal, or a line a kernel when asked to be verbose.
// SPDX-License-Identifier: Apache-2.0
#include "bindings/cli/progress.h"

#include <algorithm>

#include "bindings/cli/format.h"

namespace quern::cli {
namespace {

constexpr std::size_t kShortestBar = 4;
constexpr std::size_t kLongestBar = 24;

}  // namespace

const char* outcome_name(std::int32_t outcome) {
  switch (outcome) {
    case QUERN_WARM_HIT:
      return "cached";
    case QUERN_WARM_COMPILED:
      return "compiled";
    case QUERN_WARM_FAILED:
      return "failed";
    case QUERN_WARM_ABSENT:
      return "absent";
    default:
      return "unknown";
  }
}

Progress::Progress(Console& console) : console_(console) { console_.status(bar(0, 0, "")); }

Progress::~Progress() { console_.status(""); }

double Progress::milliseconds() const {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin_).count();
}

void Progress::report(void* user, std::uint64_t done, std::uint64_t total, const quern_warm_result* result) {
  static_cast<Progress*>(user)->show(done, total, *result);
}

void Progress::show(std::uint64_t done, std::uint64_t total, const quern_warm_result& result) {
  const std::lock_guard lock(mutex_);
  if (result.outcome == QUERN_WARM_FAILED) ++failed_;
  std::string what = printable(std::string(result.op) + ' ' + result.target);
  if (*result.op == '\0') what = "line " + std::to_string(result.line);
  if (console_.verbose()) {
    std::string text =
        '[' + std::to_string(done) + '/' + std::to_string(total) + "] " + outcome_name(result.outcome) + ' ' + what;
    if (*result.key != '\0') text += ' ' + printable(result.key);
    if (result.milliseconds > 0) text += ", " + format_milliseconds(result.milliseconds);
    console_.detail(text);
  }
  // Two threads may report in the other order: the bar never goes back.
  furthest_ = std::max(furthest_, done);
  console_.status(bar(furthest_, total, what));
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
    text += "  " + format_milliseconds(milliseconds()) + "  " + what;
  }
  // One column stays free: a full line would wrap on some terminals.
  return shorten(text, columns - 1);
}

}  // namespace quern::cli
