// A hand-written manifest made ready for the library, which reads no files: what stands as @path becomes the file's
// content. SPDX-License-Identifier: Apache-2.0
#include "bindings/cli/manifest.h"

#include <filesystem>

#include "bindings/cli/failure.h"
#include "bindings/cli/files.h"

namespace quern::cli {
namespace {

constexpr std::string_view kBlank = " \t\r";

// The next word of `rest`, which loses it; empty at the end.
std::string_view next_word(std::string_view& rest) {
  rest.remove_prefix(std::min(rest.find_first_not_of(kBlank), rest.size()));
  const std::string_view word = rest.substr(0, rest.find_first_of(kBlank));
  rest.remove_prefix(word.size());
  return word;
}

// `word` with the file it names, where it names one: source=@PATH, header=@PATH.
std::string with_file(std::string_view word, const std::string& folder) {
  const std::size_t equals = word.find("=@");
  const std::string_view kind = word.substr(0, std::min(equals, word.size()));
  if (equals == std::string_view::npos || (kind != "source" && kind != "header")) return std::string(word);
  const std::filesystem::path written(word.substr(equals + 2));
  if (written.empty()) {
    throw BadInput(std::string(kind) + ": no path after the '@'; allowed: a path relative to the manifest's folder");
  }
  const std::string name = written.is_absolute() ? written.filename() : written;
  const std::string content = read_input(std::filesystem::path(folder) / written);
  return std::string(kind) + ':' + percent_encode(name) + '=' + percent_encode(content);
}

std::string kernel_line(std::string_view line, const std::string& folder) {
  std::string text;
  for (std::string_view word = next_word(line); !word.empty(); word = next_word(line)) {
    if (!text.empty()) text += ' ';
    text += with_file(word, folder);
  }
  return text;
}

}  // namespace

Manifest read_manifest(std::string_view text, const std::string& folder) {
  Manifest manifest;
  std::uint32_t number = 0;
  while (!text.empty()) {
    ++number;
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    std::string_view rest = line;
    const std::string_view op = next_word(rest);
    const bool comment = op.empty() || op.front() == '#';
    if (!comment && next_word(rest) == "*") manifest.for_every_target = true;
    if (!comment && op == "kernel") {
      try {
        manifest.text += kernel_line(line, folder);
      } catch (const Failure& failure) {
        manifest.bad.push_back({number, failure.what()});
      }
    } else {
      manifest.text += line;
    }
    manifest.text += '\n';
  }
  return manifest;
}

std::string percent_encode(std::string_view value) {
  static constexpr char kDigits[] = "0123456789ABCDEF";
  std::string text;
  text.reserve(value.size() + value.size() / 4);
  for (const char c : value) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte <= ' ' || byte == '%' || byte == '=' || byte == 0x7f) {
      text += '%';
      text += kDigits[byte >> 4];
      text += kDigits[byte & 15];
    } else {
      text += c;
    }
  }
  return text;
}

}  // namespace quern::cli
