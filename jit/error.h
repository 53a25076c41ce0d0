// The one exception type of the rooms below the C ABI; capi turns it into a quern_error.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <exception>
#include <string>
#include <utility>

#include "capi/quern.h"

namespace quern {

class Error : public std::exception {
 public:
  // `text` names the thing that is wrong, what was given and what is allowed. `native` is the driver's, compiler's or
  // system's own code.
  Error(quern_status status, std::string text, std::int64_t native = 0)
      : status_(status), native_(native), text_(std::move(text)) {}

  quern_status status() const noexcept { return status_; }
  std::int64_t native() const noexcept { return native_; }
  const std::string& text() const noexcept { return text_; }
  const char* what() const noexcept override { return text_.c_str(); }

 private:
  quern_status status_;
  std::int64_t native_;
  std::string text_;
};

}  // namespace quern
