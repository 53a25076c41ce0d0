// An exception put by, to be thrown again in other threads or in a later call.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "jit/error.h"

namespace quern::jit {

// A copy rather than an exception_ptr: each thread that is told throws an object of its own.
class Failure {
 public:
  // What is being handled: an Error as it is, bad_alloc as QUERN_NO_MEMORY, anything else as QUERN_INTERNAL. To be
  // called in a catch block. Loses the text, not the status, when there is no memory for it.
  static Failure caught() noexcept;
  [[noreturn]] void raise() const { throw Error(status_, text_, native_); }
  quern_status status() const noexcept { return status_; }
  const std::string& text() const noexcept { return text_; }

 private:
  quern_status status_ = QUERN_INTERNAL;
  std::int64_t native_ = 0;
  std::string text_;
};

}  // namespace quern::jit
