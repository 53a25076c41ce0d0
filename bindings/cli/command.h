// What a command of `quern` is.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "bindings/cli/arguments.h"
#include "bindings/cli/failure.h"
#include "bindings/cli/session.h"

namespace quern::cli {

class Command {
 public:
  virtual ~Command() = default;
  virtual const char* name() const = 0;
  virtual const char* summary() const = 0;
  virtual const char* examples() const = 0;        // command lines, two spaces before each
  virtual void declare(Arguments& arguments) = 0;  // what it takes
  virtual int run(const Session& session) = 0;     // the exit code; throws Failure
};

std::unique_ptr<Command> make_warm();
std::unique_ptr<Command> make_tune();
std::unique_ptr<Command> make_bench();
std::unique_ptr<Command> make_manifest();
std::unique_ptr<Command> make_list();
std::unique_ptr<Command> make_inspect();
std::unique_ptr<Command> make_verify();
std::unique_ptr<Command> make_trim();
std::unique_ptr<Command> make_export();
std::unique_ptr<Command> make_keys();
std::unique_ptr<Command> make_import();
std::unique_ptr<Command> make_stats();
std::unique_ptr<Command> make_doctor();

}  // namespace quern::cli
