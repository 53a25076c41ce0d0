// Running another program and waiting for it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace quern::demo {

struct Finished {
  int code = 0;  // the exit code; 128 and the signal's number where one ended it
  std::string output;
  double milliseconds = 0;
};

// Runs the program arguments[0] with our environment. `capture`: what it writes to its standard output comes back,
// rather than going where ours goes. Throws std::system_error when it cannot be started.
Finished run_process(const std::vector<std::string>& arguments, bool capture);

}  // namespace quern::demo
