// SPDX-License-Identifier: Apache-2.0
#include "tests/ops/disassembler.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <optional>
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

// As the shell reads it.
std::string quoted(const std::string& text) {
  std::string all = "'";
  for (const char c : text) all += c == '\'' ? "'\\''" : std::string(1, c);
  return all + "'";
}

// "  /*0a20*/  @!P0 BRA P1, `(.L_x_10) ;  /* its code */". Nothing of any other line.
std::optional<Instruction> parsed(const std::string& line) {
  const auto behind = [&](std::size_t at) { return std::min(line.find_first_not_of(" \t", at), line.size()); };
  const std::size_t begin = behind(0), close = line.find("*/"), end = line.find(';');
  if (line.compare(begin, 2, "/*") != 0 || close == std::string::npos || end == std::string::npos || end < close)
    return {};
  if (line.find_first_not_of("0123456789abcdef", begin + 2) != close) return {};
  std::size_t name = behind(close + 2);
  if (line[name] == '@') name = behind(line.find(' ', name));
  const std::size_t name_end = std::min(line.find(' ', name), end);
  return Instruction{line.substr(name, name_end - name), line.substr(name_end, end - name_end)};
}

}  // namespace

Disassembler::Disassembler(const std::string& cubin) {
  for (const fs::path& folder : folders()) {
    if (!folder.is_absolute()) continue;
    const std::string program = folder / "nvdisasm";
    if (access(program.c_str(), X_OK) != 0) continue;
    command_ = quoted(program) + " -c -ndf";
    if (!read(cubin).empty()) {
      told_ = program;
      return;
    }
    told_ += program + " cannot read the cubin; ";
    command_.clear();
  }
  told_ += "no nvdisasm on PATH, in a CUDA toolkit or in .venv, where `./dev test` puts one";
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
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (auto instruction = parsed(line)) all.push_back(std::move(*instruction));
  }
  return all;
}

}  // namespace quern::test
