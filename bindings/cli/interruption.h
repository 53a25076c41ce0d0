// What ^C is answered with while something long runs: what of it is kept.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "bindings/cli/progress.h"

namespace quern::cli {

// While it lives, SIGINT and SIGTERM take the status line away, say on stderr how far `progress` has come and that what
// was made lies in `cache`, and end the process as the signal does. One at a time. With an empty `cache` they are
// left as they are.
class Interruption {
 public:
  // `things` are what is counted, `made` is what was done to those that are kept.
  Interruption(const Progress& progress, const std::string& cache, const char* things = "kernels",
               const char* made = "compiled");
  ~Interruption();
  Interruption(const Interruption&) = delete;
  Interruption& operator=(const Interruption&) = delete;

 private:
  bool set_ = false;
};

}  // namespace quern::cli
