// Reading and writing manifest lines.
// SPDX-License-Identifier: Apache-2.0
#include "sources/manifest.h"

#include <algorithm>
#include <string>

#include "jit/error.h"

namespace quern::ops {
namespace {

constexpr std::string_view kBlank = " \t\r";

// The next word of *rest, empty at its end.
std::string_view next_word(std::string_view* rest) {
  const std::size_t begin = std::min(rest->find_first_not_of(kBlank), rest->size());
  const std::size_t end = std::min(rest->find_first_of(kBlank, begin), rest->size());
  const std::string_view word = rest->substr(begin, end - begin);
  rest->remove_prefix(end);
  return word;
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// What a message shows of a word that may be a whole kernel.
std::string shown(std::string_view word) {
  constexpr std::size_t kMost = 60;
  return word.size() <= kMost ? std::string(word) : std::string(word.substr(0, kMost)) + "...";
}

std::string op_names() {
  std::string names;
  for (const Op& op : all()) names += (names.empty() ? "" : ", ") + std::string(op.name);
  return names;
}

jit::Constant parse_constant(std::string_view word) {
  const std::size_t equals = word.find('=');
  if (equals == std::string_view::npos || equals == 0) {
    throw Error(QUERN_INVALID, "\"" + shown(word) + "\" is not NAME=VALUE");
  }
  if (word.find('=', equals + 1) != std::string_view::npos) {
    throw Error(QUERN_INVALID, "\"" + shown(word) + "\" has more than one '='; write %3D within a value");
  }
  return {percent_decode(word.substr(0, equals)), percent_decode(word.substr(equals + 1))};
}

}  // namespace

std::string percent_encode(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::string encoded;
  encoded.reserve(text.size());
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte <= ' ' || byte == 0x7f || c == '%' || c == '=') {
      encoded += {'%', kDigits[byte >> 4], kDigits[byte & 15]};
    } else {
      encoded += c;
    }
  }
  return encoded;
}

std::string percent_decode(std::string_view text) {
  std::string decoded;
  decoded.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      decoded += text[i];
      continue;
    }
    const int high = i + 2 < text.size() ? hex_digit(text[i + 1]) : -1;
    const int low = i + 2 < text.size() ? hex_digit(text[i + 2]) : -1;
    if (high < 0 || low < 0) {
      throw Error(QUERN_INVALID,
                  "\"" + shown(text.substr(i, 3)) + "\" is not a percent escape; '%' itself is written %25");
    }
    decoded += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return decoded;
}

std::optional<ManifestLine> parse_line(std::string_view line) {
  const std::string_view name = next_word(&line);
  if (name.empty() || name.front() == '#') return std::nullopt;
  ManifestLine parsed;
  parsed.op = find(name);
  if (parsed.op == nullptr) {
    throw Error(QUERN_INVALID, "unknown op \"" + shown(name) + "\"; known are " + op_names());
  }
  const std::string_view target = next_word(&line);
  if (target.empty()) throw Error(QUERN_INVALID, "the target is missing after \"" + std::string(name) + "\"");
  if (target != "*") parsed.target = jit::Target::parse(target);
  for (std::string_view word = next_word(&line); !word.empty(); word = next_word(&line)) {
    jit::Constant constant = parse_constant(word);
    const bool twice = std::any_of(parsed.constants.begin(), parsed.constants.end(),
                                   [&](const jit::Constant& other) { return other.name == constant.name; });
    if (twice) throw Error(QUERN_INVALID, "constant \"" + shown(constant.name) + "\" is given twice");
    parsed.constants.push_back(std::move(constant));
  }
  return parsed;
}

jit::Spec to_spec(const ManifestLine& line, jit::Target target) {
  try {
    return line.op->parse(line.constants, jit::limits_of(target));
  } catch (const Error&) {
    // Calls take a promise of 8 bytes, and most ops serve it with the kernels for 4: so does a manifest.
    Constants constants = line.constants;
    const auto promise = std::find_if(constants.begin(), constants.end(), [](const jit::Constant& constant) {
      return constant.name == "alignment" && constant.value == "8";
    });
    if (promise == constants.end()) throw;
    promise->value = "4";
    return line.op->parse(constants, jit::limits_of(target));
  }
}

std::string constants_text(const Constants& constants) {
  std::string text;
  for (const jit::Constant& constant : constants) {
    if (!text.empty()) text += ' ';
    text += percent_encode(constant.name);
    text += '=';
    text += percent_encode(constant.value);
  }
  return text;
}

std::string constants_text(const jit::Spec& spec) {
  const std::span<const Op> ops = all();
  return constants_text(spec.op < ops.size() && ops[spec.op].constants != nullptr ? ops[spec.op].constants(spec)
                                                                                  : describe(spec).constants);
}

std::string to_line(const jit::Spec& spec) {
  const std::string constants = constants_text(spec);
  std::string line = std::string(all()[spec.op].name) + ' ' + jit::Target::from_tag(spec.target).name();
  if (!constants.empty()) line += ' ' + constants;
  return line;
}

}  // namespace quern::ops
