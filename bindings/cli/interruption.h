// What ^C is answered with while something long runs: what of it is kept.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "bindings/cli/progress.h"

namespace quern::cli {

// While it lives, SIGINT and SIGTERM take the status line away, say on stderr how far `progress` has come and that what
// was compiled lies in `cache`, and end the process as the signal does. One at a time. With an empty `cache` they are
// left as they are.
class Interruption {
 public:
  Interruption(const Progress& progress, const std::string& cache);
  ~Interruption();
  Interruption(const Interruption&) = delete;
  Interruption& operator=(const Interruption&) = delete;

 private:
  bool set_ = false;
};

}  // namespace quern::cli
