// From the rooms' events to the caller's callbacks.
// SPDX-License-Identifier: Apache-2.0
#include "capi/notify.h"

#include <cstdio>
#include <string>

namespace quern::capi {
namespace {

quern_log_level level_of(int kind) {
  switch (kind) {
    case QUERN_EVENT_COMPILED:
      return QUERN_LOG_INFO;
    case QUERN_EVENT_LOADED:
      return QUERN_LOG_DEBUG;
    case QUERN_EVENT_FAILED:
      return QUERN_LOG_ERROR;
    default:
      return QUERN_LOG_WARNING;
  }
}

}  // namespace

void Notify::log(quern_log_level level, std::string_view text) const noexcept {
  if (log_ == nullptr || (most_ != 0 && level > most_)) return;
  tell(level, text);
}

void Notify::tell(quern_log_level level, std::string_view text) const noexcept {
  try {
    log_(log_user_, level, std::string(text).c_str());
  } catch (...) {  // the callback's own trouble, or no memory for the line: either way the call goes on
  }
}

void Notify::event(const jit::Event& event) const noexcept {
  try {
    if (event_ != nullptr) {
      quern_event told{};
      told.size = sizeof(told);
      told.kind = event.kind;
      told.op = event.op.c_str();
      told.target = event.target.c_str();
      told.key = event.key.c_str();
      told.text = event.text.c_str();
      told.milliseconds = event.milliseconds;
      told.status = event.status;
      event_(event_user_, &told);
    }
    if (log_ != nullptr) {
      const std::string place = event.op.empty() ? "" : event.op + " " + event.target + " " + event.key + ": ";
      log(level_of(event.kind), place + event.text);
    }
  } catch (...) {  // as in log
  }
}

void Notify::print(std::string_view line) const noexcept {
  if (log_ != nullptr) return tell(QUERN_LOG_INFO, line);
  // One call, so that lines of several threads do not run into each other.
  try {
    const std::string text = std::string(line) + '\n';
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fflush(stdout);
  } catch (...) {  // as in log
  }
}

void Notify::cache(std::string_view text) const noexcept {
  try {
    event({QUERN_EVENT_CACHE, "", "", "", std::string(text), 0, QUERN_IO});
  } catch (...) {  // as in log
  }
}

}  // namespace quern::capi
