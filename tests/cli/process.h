// Runs a program to its end: with pipes, or on a terminal of its own.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

namespace quern::cli_tests {

struct Invocation {
  std::vector<std::string> arguments;              // the program first
  std::string input;                               // what it reads on stdin
  std::map<std::string, std::string> environment;  // added to this process's, "" removes
  std::string folder;                              // where it runs; "": here
};

struct Finished {
  int code = -1;  // exit code, or 128 + the signal
  std::string out;
  std::string err;
};

Finished run(const Invocation& invocation);
// stdout and stderr are one terminal of `columns` columns, and come back together in `out`.
Finished run_on_terminal(const Invocation& invocation, unsigned short columns);

}  // namespace quern::cli_tests
