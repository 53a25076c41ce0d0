// What ends a command: a status for scripts and a sentence for people.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

#include "quern.h"

namespace quern::cli {

// Exit codes, as the manual page promises them.
enum Exit : int { kExitOk = 0, kExitFailure = 1, kExitUsage = 2, kExitDamage = 3 };

class Failure : public std::runtime_error {
 public:
  Failure(std::int32_t status, const std::string& text, std::int64_t native = 0)
      : std::runtime_error(text), status_(status), native_(native) {}

  std::int32_t status() const { return status_; }  // enum quern_status
  std::int64_t native() const { return native_; }
  virtual int exit_code() const {
    if (status_ == QUERN_INVALID) return kExitUsage;
    return status_ == QUERN_DAMAGED ? kExitDamage : kExitFailure;
  }

 private:
  std::int32_t status_;
  std::int64_t native_;
};

// A file that was handed in (a model's config.json, a manifest) says something that cannot be: the command line was
// right.
class BadInput : public Failure {
 public:
  explicit BadInput(const std::string& text) : Failure(QUERN_INVALID, text) {}
  int exit_code() const override { return kExitFailure; }
};

}  // namespace quern::cli
