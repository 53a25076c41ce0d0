// A fixture that runs `quern` on a cache of its own, in a folder that goes away with the test.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "tests/cli/process.h"

// Compiled once, in command.cpp, and not in each unit.
extern template class nlohmann::basic_json<>;

namespace quern::cli_tests {

using Json = nlohmann::json;

class CommandTest : public ::testing::Test {
 protected:
  CommandTest();
  ~CommandTest() override;

  // `quern ARGUMENTS`, run in folder() with XDG_CACHE_HOME there.
  Invocation invocation(std::vector<std::string> arguments, std::string input = {}) const;
  Finished quern(std::vector<std::string> arguments, std::string input = {}) const;
  // The same with --json: the object, with the exit code as "code". Fails the test where stdout holds anything else, or
  // where "ok" and the code disagree.
  Json quern_json(std::vector<std::string> arguments, std::string input = {}) const;

  const std::filesystem::path& folder() const { return folder_; }
  std::string write(const std::string& name, std::string_view text) const;  // the path
  static std::string read(const std::filesystem::path& path);
  // The cache file, which must be there.
  std::filesystem::path cache_file() const;
  // A manifest of `count` different kernels for `host`, and its path.
  std::string host_kernels(int count, int first = 0) const;

 private:
  std::filesystem::path folder_;
};

// Whether `text` holds `part`, with both in the message.
::testing::AssertionResult has(std::string_view text, std::string_view part);
int occurrences(std::string_view text, std::string_view part);

}  // namespace quern::cli_tests
