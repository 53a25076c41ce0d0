// A hand-written manifest made ready for the library, which reads no files: what stands as @path becomes the file's
// content.
// SPDX-License-Identifier: Apache-2.0
#include "bindings/cli/manifest.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "bindings/cli/failure.h"
#include "bindings/cli/files.h"
#include "bindings/cli/format.h"

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

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  const char lower = static_cast<char>(c | 0x20);
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

// A word of a kernel line in the library's form.
class KernelWords {
 public:
  KernelWords(const std::string& folder, bool anywhere) : folder_(folder), anywhere_(anywhere) {}

  std::string translate(std::string_view word) {
    const std::size_t equals = word.find('=');
    const std::string_view name = word.substr(0, equals);
    if (name == "option") return "option." + std::to_string(options_++) + std::string(word.substr(name.size()));
    const std::string_view kind = name.substr(0, name.find('.'));
    const bool file = word.substr(name.size(), 2) == "=@" && (kind == "source" || kind == "header");
    return file ? with_file(name, word.substr(name.size() + 2)) : std::string(word);
  }

 private:
  // `name` is "source", "header" or either with ".NAME".
  std::string with_file(std::string_view name, std::string_view path) const {
    const std::filesystem::path written(percent_decode(path));
    if (written.empty()) {
      throw BadInput(std::string(name) + ": '@' given; allowed: '@' and a path relative to the manifest's folder");
    }
    std::string text(name);
    if (name.find('.') == std::string_view::npos) {
      text += '.' + percent_encode(written.is_absolute() ? written.filename().string() : written.string());
    }
    const std::filesystem::path file = std::filesystem::path(folder_.empty() ? "." : folder_) / written;
    const std::string shown = std::string(name) + ": '@" + printable(written.string());
    if (!anywhere_ && !lies_within(file))
      throw BadInput(shown + "' lies outside of the manifest's folder; allowed with --any-path only");
    // What comes with a manifest of somebody else's may be a pipe that nobody writes to.
    std::error_code failed;
    if (!anywhere_ && std::filesystem::exists(file, failed) && !std::filesystem::is_regular_file(file, failed))
      throw BadInput(shown + "' is no regular file; allowed with --any-path only");
    return text + '=' + percent_encode(read_file(file));
  }

  // Of what is not there it is not asked: reading says so.
  bool lies_within(const std::filesystem::path& file) const {
    std::error_code failed;
    const std::filesystem::path real = std::filesystem::canonical(file, failed);
    if (failed) return std::filesystem::weakly_canonical(file, failed).string().starts_with(root());
    return real.string().starts_with(root());
  }
  std::string root() const {
    std::error_code failed;
    const std::string root = std::filesystem::canonical(folder_.empty() ? "." : folder_, failed).string();
    return root == "/" ? root : root + '/';
  }

  const std::string& folder_;
  const bool anywhere_;
  std::uint32_t options_ = 0;
};

std::string kernel_line(std::string_view line, const std::string& folder, bool anywhere) {
  KernelWords words(folder, anywhere);
  std::string text;
  for (std::string_view word = next_word(line); !word.empty(); word = next_word(line)) {
    if (!text.empty()) text += ' ';
    text += words.translate(word);
  }
  return text;
}

}  // namespace

Manifest read_manifest(std::string_view text, const std::string& folder, bool anywhere) {
  Manifest manifest;
  std::uint32_t number = 0;
  while (!text.empty()) {
    ++number;
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    std::string_view rest = line;
    const std::string_view op = next_word(rest);
    const bool comment = op.empty() || op.front() == '#';
    const std::string_view target = next_word(rest);
    if (!comment && target == "*") manifest.for_every_target = true;
    if (!comment && op == "kernel") {
      try {
        manifest.text += kernel_line(line, folder, anywhere);
      } catch (const Failure& failure) {
        manifest.bad.push_back({number, std::string(target), failure.what()});
      }
    } else {
      manifest.text += line;
    }
    manifest.text += '\n';
  }
  return manifest;
}

std::string percent_decode(std::string_view text) {
  std::string decoded;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool escape = text[i] == '%' && i + 2 < text.size();
    const int high = escape ? hex_digit(text[i + 1]) : -1;
    const int low = escape ? hex_digit(text[i + 2]) : -1;
    if (high < 0 || low < 0) {
      decoded += text[i];
      continue;
    }
    decoded += static_cast<char>(16 * high + low);
    i += 2;
  }
  return decoded;
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
