// The caller's callbacks.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

#include "capi/quern.h"
#include "jit/engine.h"

namespace quern::capi {

// Calls the log and event callbacks where there are any; prints nothing otherwise. An exception that a callback written
// in C++ lets out ends here. Thread-safe as far as the callbacks are.
class Notify {
 public:
  Notify() = default;
  explicit Notify(const quern_context_options& options)
      : log_(options.log),
        log_user_(options.log_user),
        most_(options.log_level),
        event_(options.event),
        event_user_(options.event_user) {}

  void log(quern_log_level level, std::string_view text) const noexcept;
  // What the engine tells: to the event callback, and as a line to the log.
  void event(const jit::Event& event) const noexcept;
  // What a kernel printed: a line of the log whatever its level, or of standard output where there is no log.
  void print(std::string_view line) const noexcept;
  // What the store tells: the cache is unavailable, read-only, damaged or full.
  void cache(std::string_view text) const noexcept;

 private:
  void tell(quern_log_level level, std::string_view text) const noexcept;

  quern_log_callback log_ = nullptr;
  void* log_user_ = nullptr;
  std::int32_t most_ = 0;  // 0: all
  quern_event_callback event_ = nullptr;
  void* event_user_ = nullptr;
};

}  // namespace quern::capi
