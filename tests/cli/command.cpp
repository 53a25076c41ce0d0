// A fixture that runs `quern` on a cache of its own, in a folder that goes away with the test.
// SPDX-License-Identifier: Apache-2.0
#include "tests/cli/command.h"

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <utility>

template class nlohmann::basic_json<>;

namespace quern::cli_tests {

CommandTest::CommandTest() {
  std::string name = std::filesystem::temp_directory_path() / "quern-cli-XXXXXX";
  if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("no folder for the test");
  folder_ = name;
}

CommandTest::~CommandTest() {
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

Invocation CommandTest::invocation(std::vector<std::string> arguments, std::string input) const {
  arguments.insert(arguments.begin(), QUERN_CLI_BINARY);
  return {std::move(arguments),
          std::move(input),
          {{"XDG_CACHE_HOME", folder_}, {"HOME", folder_}, {"NO_COLOR", ""}, {"TERM", "xterm"}, {"COLUMNS", ""}},
          folder_};
}

Finished CommandTest::quern(std::vector<std::string> arguments, std::string input) const {
  return run(invocation(std::move(arguments), std::move(input)));
}

Json CommandTest::quern_json(std::vector<std::string> arguments, std::string input) const {
  arguments.insert(arguments.begin(), "--json");
  const Finished finished = quern(std::move(arguments), std::move(input));
  Json json = Json::parse(finished.out, nullptr, false);
  if (!json.is_object()) {
    ADD_FAILURE() << "no JSON object on stdout: " << finished.out << finished.err;
    json = Json::object();
  }
  EXPECT_EQ(json.value("ok", false), finished.code == 0) << finished.out;
  EXPECT_EQ(json.contains("error"), finished.code != 0) << finished.out;
  json["code"] = finished.code;
  return json;
}

std::string CommandTest::write(const std::string& name, std::string_view text) const {
  const std::filesystem::path path = folder_ / name;
  std::filesystem::create_directories(path.parent_path());
  std::ofstream file(path, std::ios::binary);
  file << text;
  if (!file.flush()) throw std::runtime_error("cannot write " + path.string());
  return path;
}

std::string CommandTest::read(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot read " + path.string());
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::filesystem::path CommandTest::cache_file() const {
  for (const auto& entry : std::filesystem::directory_iterator(folder_ / "quern")) {
    if (entry.path().extension() == ".db") return entry.path();
  }
  throw std::runtime_error("no cache file in " + (folder_ / "quern").string());
}

std::string CommandTest::host_kernels(int count, int first) const {
  write("scale.cu",
        "#include \"quern/kernel.cuh\"\n"
        "#include \"factor.cuh\"\n"
        "struct Params { float *x; };\n"
        "QUERN_KERNEL(scale, 32, 1, QUERN_PARAM Params p) { p.x[q::thread_index()] *= factor(); }\n");
  write("factor.cuh", "#pragma once\ninline float factor() { return FACTOR; }\n");
  std::string text = "# kernels of the tests\n";
  for (int i = first; i < first + count; ++i) {
    text += "kernel host entry=scale source=@scale.cu header=@factor.cuh define.FACTOR=" + std::to_string(i) + ".5f\n";
  }
  return write("kernels-" + std::to_string(first) + ".manifest", text);
}

::testing::AssertionResult has(std::string_view text, std::string_view part) {
  if (text.find(part) != std::string_view::npos) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "'" << part << "' is not in:\n" << text;
}

int occurrences(std::string_view text, std::string_view part) {
  int count = 0;
  for (std::size_t at = text.find(part); at != std::string_view::npos; at = text.find(part, at + part.size())) ++count;
  return count;
}

}  // namespace quern::cli_tests
