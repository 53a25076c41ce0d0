// SPDX-License-Identifier: Apache-2.0
#include "tests/ops/disassembler.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>

namespace quern::test {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> folders() {
  std::vector<fs::path> all;
  const auto value = [](const char* name) {
    const char* given = std::getenv(name);
    return std::string(given != nullptr ? given : "");
  };
  std::istringstream path(value("PATH"));
  for (std::string folder; std::getline(path, folder, ':');) all.emplace_back(folder);
  for (const char* toolkit : {"CUDA_PATH", "CUDA_HOME"}) all.push_back(fs::path(value(toolkit)) / "bin");
  all.emplace_back("/usr/local/cuda/bin");
  std::error_code ignored;
  for (const auto& python : fs::directory_iterator(fs::path(QUERN_TEST_VENV) / "lib", ignored)) {
    for (const auto& package : fs::directory_iterator(python.path() / "site-packages" / "nvidia", ignored)) {
      all.push_back(package.path() / "bin");
    }
  }
  return all;
}

// A file of the bytes while it lives.
class File {
 public:
  explicit File(const std::string& bytes) {
    const int descriptor = mkstemps(path_.data(), 6);
    if (descriptor < 0) throw std::runtime_error("mkstemps failed for " + path_);
    close(descriptor);
    std::ofstream(path_, std::ios::binary) << bytes;
  }
  ~File() { unlink(path_.c_str()); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_ = (fs::temp_directory_path() / "quern-sass-XXXXXX.cubin").string();
};

std::string quoted(const std::string& text) { return "'" + std::regex_replace(text, std::regex("'"), "'\\''") + "'"; }

}  // namespace

Disassembler::Disassembler(const std::string& cubin) {
  for (const fs::path& folder : folders()) {
    if (!folder.is_absolute()) continue;
    for (const auto& [name, option] : {std::pair("nvdisasm", "-c"), std::pair("cuobjdump", "-sass")}) {
      const std::string program = folder / name;
      if (access(program.c_str(), X_OK) != 0) continue;
      command_ = quoted(program) + " " + option;
      if (!read(cubin).empty()) {
        told_ = program;
        return;
      }
      told_ += program + " cannot read the cubin; ";
      command_.clear();
    }
  }
  told_ += "neither nvdisasm nor cuobjdump is on PATH, in a CUDA toolkit or in .venv (`./dev test` puts one there)";
}

std::vector<Instruction> Disassembler::read(const std::string& command, const std::string& cubin) {
  const File file(cubin);
  std::vector<Instruction> all;
  FILE* output = popen((command + " " + quoted(file.path()) + " 2>/dev/null").c_str(), "r");
  if (output == nullptr) return all;
  std::string text;
  char some[65536];
  for (std::size_t got; (got = fread(some, 1, sizeof some, output)) > 0;) text.append(some, got);
  if (pclose(output) != 0) return all;
  // /*0a20*/  @!P0 BRA P1, `(.L_x_10) ;
  static const std::regex line(R"(^\s*/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9_.]*)\s*([^;]*);.*)");
  std::istringstream lines(text);
  std::smatch match;
  for (std::string one; std::getline(lines, one);) {
    if (std::regex_match(one, match, line)) all.push_back({match[1], match[2]});
  }
  return all;
}

}  // namespace quern::test
