// What a command takes from its command line, declared without the parser: CLI11's header stands behind parser.cpp
// alone.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bindings/cli/validators.h"

namespace quern::cli {

// Names are "--option,-o", of positional arguments "NAME". Values are left as they are where nothing is given. `type`
// is what the help shows for a value; what a check refuses is wrong usage.
class Arguments {
 public:
  virtual ~Arguments() = default;
  virtual void positional(const char* name, std::string& value, const char* help, bool required) = 0;
  // Any number of words.
  virtual void positionals(const char* name, std::vector<std::string>& values, const char* help) = 0;
  virtual void text(const char* names, std::string& value, const char* type, const char* help, Check check) = 0;
  virtual void number(const char* names, std::int64_t& value, const char* type, const char* help, Check check) = 0;
  // Values separated by commas.
  virtual void texts(const char* names, std::vector<std::string>& values, const char* type, const char* help,
                     Check check) = 0;
  virtual void numbers(const char* names, std::vector<std::int64_t>& values, const char* type, const char* help,
                       Check check) = 0;
  virtual void flag(const char* names, bool& value, const char* help) = 0;
};

}  // namespace quern::cli
