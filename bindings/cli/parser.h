// The command line of `quern`: its words to a command with its arguments filled in, or to what is to be said instead.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "bindings/cli/command.h"

namespace quern::cli {

using Commands = std::vector<std::unique_ptr<Command>>;

struct Parsed {
  enum class What { command, version, help, wrong } what = What::wrong;
  Command* command = nullptr;  // chosen, where one was, whatever else is wrong
  std::string text;            // of the help, or what is wrong
};

// Fills in `global` and the arguments of the command that is chosen.
Parsed parse_command_line(int argc, char** argv, const Commands& commands, GlobalOptions& global);

}  // namespace quern::cli
